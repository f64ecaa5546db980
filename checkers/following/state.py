"""The state that is kept of a history from segment to segment, and the suspects that it shows.

Rows come in the order in which their writers recorded them. They are judged a piece at a time, by
columns; only rows that need it are looked at one by one (`singly`). The state has, for every
partition, the log as far as it was read (`logs`); for every consumer, its position (`readers`); for
every producer, the sequences that were read (`producers`); the last sends in transactions, and the
last records that were read at read_committed (`open_reads`); and the keys of compacted topics
(`keys`). Each part is bounded and forgets its oldest entries. Then a suspect may be missed, but
none is invented. A suspect is not a verdict: it says where to look.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from checkers.following.columns import Flags, Ints, Partition, Piece, groups, pieces_of
from checkers.following.groups import GroupState
from checkers.following.keys import KeyState, with_passes
from checkers.following.logs import PartitionLog, Reads, write_of
from checkers.following.open_reads import OpenReads
from checkers.following.producers import ProducerState
from checkers.following.readers import Positions
from checkers.following.singly import SingleRows
from checkers.following.suspects import Row, Suspect, finding, of_offset
from checkers.frames.ownership import ASSIGNED


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds of the state. offsets: per partition and kind; producers, consumers: per topic and
    per partition; intervals: per producer; groups: partitions of groups, in all."""

    offsets: int = 20_000
    producers: int = 1_000
    consumers: int = 100
    intervals: int = 1_000
    groups: int = 1_000


class HistoryState:
    """The state. `take` adds rows and may be called any number of times; `size` counts entries."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits = limits or Limits()
        self._logs: dict[Partition, PartitionLog] = {}
        self._positions = Positions(consumers=limits.consumers)
        self._producers = ProducerState(producers=limits.producers, intervals=limits.intervals)
        self._singly = SingleRows(
            offsets=limits.offsets,
            producers=limits.producers,
            intervals=limits.intervals,
            lines=limits.groups,
        )
        self._open_reads = OpenReads(limits.offsets)
        self._keys: KeyState | None = None
        self._groups = GroupState(
            groups=limits.groups, offsets=limits.offsets, intervals=limits.intervals
        )

    def follow_program(self, program: Mapping[str, Any] | None) -> None:
        """Look at the output of the program that the plan tests, if it tests one. Programs change
        the rows of a database, so these show nothing before the end."""
        if program is not None and (program.get("sink") or {}).get("sql") is None:
            self._singly.follow_program(program)

    def follow_keys(self, plan: Mapping[str, Any]) -> None:
        """Look at the keys of compacted topics, if the plan asks for passes over them."""
        if with_passes(plan):
            self._keys = KeyState(keys=self._limits.offsets)

    def size(self) -> int:
        """The number of entries; bounded by the limits and the number of partitions."""
        logs = sum(each.size() for each in self._logs.values())
        logs += 0 if self._keys is None else self._keys.size()
        readers = self._positions.size() + self._groups.size()
        transactions = self._singly.size() + self._open_reads.size()
        return logs + readers + self._producers.size() + transactions

    def take(self, rows: pa.Table) -> Iterator[Suspect]:
        """Add rows (schema HISTORY, in the order of their recording) and yield suspects."""
        for piece in pieces_of(rows):
            yield from self._take(piece)
        if self._keys is not None:
            yield from self._keys.take(rows)

    def settle(self) -> Iterator[Suspect]:
        """Yield the suspects that are known when the rows of all writers up to the last call are
        there. Call it after each round of `take`."""
        yield from self._groups.settle(lambda *at: self._log(at).offsets)
        if self._keys is not None:
            yield from self._keys.settle()

    def _log(self, at: Partition) -> PartitionLog:
        found = self._logs.get(at)
        if found is None:
            found = self._logs[at] = PartitionLog(self._limits.offsets)
        return found

    def _take(self, piece: Piece) -> Iterator[Suspect]:
        placed = piece.place >= 0
        done = placed & piece.having("type", "ok") & piece.known("offset")
        polled = done & piece.having("f", "poll")
        assigned = placed & piece.having("type", "ok") & piece.having("f", "assign", ASSIGNED)
        position, gone_back = self._positions.read(piece, polled, assigned)
        yield from gone_back
        for row in piece.rows(np.flatnonzero(polled & ~piece.known("value"))):
            yield of_offset("phantom", row)
        acked = done & piece.having("f", "send") & (piece["acks"] != 0)
        new, unexplained, found = self._compare(
            piece, polled & piece.known("value"), acked, position
        )
        yield from found
        yield from self._singly.take(piece, new, unexplained, self._producers)
        yield from self._open_reads.take(piece, polled)
        yield from self._groups.take(piece, new, self._producers)
        yield from self._producers.read(piece, np.flatnonzero(new))

    def _compare(
        self, piece: Piece, polled: Flags, acked: Flags, position: Ints
    ) -> tuple[Flags, Flags, list[Suspect]]:
        """Compare records that were read with what was read and acknowledged before. position: of
        the reader before each row. Return which records are the first that were read at their
        offsets; which are not what was read there before; and suspects."""
        new, unexplained = np.zeros((2, len(piece)), np.bool_)
        found: list[Suspect] = []
        at = np.flatnonzero(polled | acked)
        for place, rows in groups(piece.place[at]):
            mine = at[rows]
            read, sent = mine[polled[mine]], mine[acked[mine]]
            reads = Reads(read, piece["offset"][read], piece["value"][read], position[read])
            seen = self._log(piece.partitions[place]).take(reads, piece, sent)
            new[read], unexplained[read] = seen.new, seen.unexplained
            others = piece.rows(read[seen.other])
            found += [of_offset("inconsistent-offset", row) for row in others]
            found += [_lost(write_of(write, piece.partitions[place])) for write in seen.lost]
        return new, unexplained, found


def _lost(row: Row) -> Suspect:
    return finding("lost-write" if row["txn"] is None else "torn-transaction", row)
