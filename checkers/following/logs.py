"""What is kept of the log of one partition while a run goes on.

The records that were read last, by offset; and the writes that were acknowledged beyond them. Each
part is bounded and forgets its oldest entries.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from checkers.following.columns import (
    MISSING,
    Flags,
    Ints,
    Partition,
    Piece,
    found_in,
    whole_numbers,
)
from checkers.following.suspects import Row

ACKNOWLEDGED: Final = (
    "offset", "value", "op", "client", "invoke_ns", "complete_ns", "leader_epoch", "acks", "node",
    "txn",
)  # fmt: skip
"""What is kept of a write: a column of a matrix for each."""

BEFORE: Final = -1
"""The place of what an earlier piece had."""


def _none() -> Ints:
    return np.zeros(0, np.int64)


def _no_writes() -> Ints:
    return np.zeros((0, len(ACKNOWLEDGED)), np.int64)


@dataclass(frozen=True, slots=True)
class Reads:
    """Records of a partition in the order in which they were read. at: the place in the piece;
    position: that of the reader before, or MISSING."""

    at: Ints
    offset: Ints
    value: Ints
    position: Ints


@dataclass(slots=True)
class PartitionLog:
    """The state of one partition. offsets, values: of the records that were read last, in the order
    of their offsets, at most `limit`. high: the greatest offset that was read. acked: the writes
    that were acknowledged beyond it."""

    limit: int
    offsets: Ints = field(default_factory=_none)
    values: Ints = field(default_factory=_none)
    acked: Ints = field(default_factory=_no_writes)
    high: int = -1

    def size(self) -> int:
        """The number of entries."""
        return len(self.offsets) + len(self.acked)

    def take(self, reads: Reads, sends: Piece, sent: Ints) -> "Looked":
        """Add reads, and the acknowledged writes at the places `sent`."""
        high = np.maximum.accumulate(np.concatenate(([self.high], reads.offset)))
        new = reads.offset > high[:-1]
        offsets = np.concatenate((self.offsets, reads.offset[new]))
        values = np.concatenate((self.values, reads.value[new]))
        at = np.concatenate((np.full(len(self.offsets), BEFORE), reads.at[new]))
        records = _Records(offsets, values, at)
        known, value, _ = records.at_offsets(reads.offset)
        again = known & ~new
        lost = self._acknowledged(_Appeared.of(reads, high, new), records, sends, sent)
        self.offsets, self.values = offsets[-self.limit :], values[-self.limit :]
        self.high = int(high[-1])
        other = again & (value != reads.value)
        return Looked(new=new, other=other, unexplained=~again, lost=lost)

    def _acknowledged(
        self, appeared: "_Appeared", records: "_Records", sends: Piece, sent: Ints
    ) -> Ints:
        """Keep the writes that are not decided yet, and return those that are lost: after they were
        acknowledged another record was read at their offset, for the first time, or a reader was
        given nothing on its way up. What was read before may be gone."""
        writes = np.concatenate((self.acked, _matrix(sends, sent)))
        if not len(writes):
            return writes
        at = np.concatenate((np.full(len(self.acked), BEFORE), sent))
        offset = writes[:, 0]
        read, value, first_at = records.at_offsets(offset)
        lost = read & (value != writes[:, 1]) & (at < first_at)
        later = offset > self.high
        passing = np.searchsorted(appeared.offset, offset)
        waiting = later & (passing == len(appeared.offset))
        if len(appeared.offset):
            passing = np.minimum(passing, len(appeared.offset) - 1)
            passed = (appeared.low[passing] <= offset) & (at < appeared.at[passing])
            lost |= passed & later & ~read & ~waiting
        self.acked = writes[waiting][-self.limit :]
        found: Ints = writes[lost]
        return found


@dataclass(frozen=True, slots=True)
class _Appeared:
    """The records that were read for the first time, in the order of their offsets. low: the lowest
    offset that the reader passed and nobody had read beyond; without a position it passed none."""

    at: Ints
    offset: Ints
    low: Ints

    @classmethod
    def of(cls, reads: Reads, high: Ints, new: Flags) -> "_Appeared":
        offset, position = reads.offset[new], reads.position[new]
        low = np.where(position == MISSING, offset, np.maximum(position, high[:-1][new] + 1))
        return cls(reads.at[new], offset, low)


@dataclass(frozen=True, slots=True)
class Looked:
    """What reads showed. new: read for the first time. other: another record was read there before.
    unexplained: not a record that was read before. lost: writes, by ACKNOWLEDGED."""

    new: Flags
    other: Flags
    unexplained: Flags
    lost: Ints


@dataclass(frozen=True, slots=True)
class _Records:
    """Records that were read, in the order of their offsets. at: the place in the piece where they
    were read first, or BEFORE it."""

    offset: Ints
    value: Ints
    at: Ints

    def at_offsets(self, wanted: Ints) -> tuple[Flags, Ints, Ints]:
        """Whether records have these offsets; their values, and where they were read first."""
        if not len(self.offset):
            return np.zeros(len(wanted), np.bool_), wanted, wanted
        known, place = found_in(self.offset, wanted)
        place = np.minimum(place, len(self.offset) - 1)
        return known, self.value[place], self.at[place]


def _matrix(piece: Piece, at: Ints) -> Ints:
    return np.column_stack([piece[name][at] for name in ACKNOWLEDGED])


def write_of(write: Ints, partition: Partition) -> Row:
    """Return a write that was kept as a row, with the columns ACKNOWLEDGED."""
    told = dict(zip(ACKNOWLEDGED, whole_numbers(write), strict=True))
    return {**told, "topic": partition[0], "partition": partition[1]}
