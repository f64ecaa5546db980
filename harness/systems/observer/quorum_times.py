"""When a record came into the metadata log, told by whoever watched the log and not by its writer.

A controller stamps what it decides with its own wall clock, and clock faults set that. The watcher
knows better, if less finely: it asked the quorum's leader again and again, and each answer says how
long the log was and how much of it was committed, between two moments of the run's own time. A
stamp that fits between them is believed, to its millisecond; in place of any other stands the
moment by which the record was seen to be there. Pure.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

DEPOSED_NS: Final = 2_000_000_000
"""How long a deposed leader may go on answering for a log that grows elsewhere."""


class Stamp(NamedTuple):
    """What a record of the metadata log says of its own time."""

    offset: int
    epoch: int
    at_ns: int
    """Since the run began, if the writer's wall clock was right."""


def _numbers() -> "array[int]":
    return array("q")


@dataclass(slots=True)
class QuorumTimes:
    """What was seen of the metadata log; times are ns since the run began.

    It grows with the log, which grows by two records a second at least: every record has its place
    between what was seen. Columns of numbers make that 0.3 MB an hour.
    """

    _ends: "array[int]" = field(default_factory=_numbers)
    """From where on nothing was there; ascending, like the next two, which belong to it."""
    _epochs: "array[int]" = field(default_factory=_numbers)
    _asked_ns: "array[int]" = field(default_factory=_numbers)
    """When that was asked for last."""
    _committed: "array[int]" = field(default_factory=_numbers)
    """High watermarks: what was there already; ascending, like the next one."""
    _told_ns: "array[int]" = field(default_factory=_numbers)
    """When each was told first."""
    _kept: dict[int, int] = field(default_factory=dict)
    """Node -> how much of what is committed it was last known to have."""

    @property
    def kept(self) -> Mapping[int, int]:
        """Node -> the offset up to which its own copy of the metadata log was last known to be
        there and committed. A node that died may lack what was committed since without it; of a
        node that is not named, nothing is known."""
        return dict(self._kept)

    def current_since(self, since_ns: int) -> int | None:
        """The moment by which all was committed that the log held at some moment after `since_ns`;
        None while nobody knows."""
        asked = len(self._asked_ns)
        while asked and self._asked_ns[asked - 1] >= since_ns:
            asked -= 1
        if asked == len(self._ends):
            return None
        told = bisect_left(self._committed, self._ends[asked])
        return None if told == len(self._committed) else max(self._told_ns[told], since_ns)

    def saw(
        self, *, epoch: int, log_end: int, high_watermark: int, asked_ns: int, told_ns: int
    ) -> None:
        """Note an answer of the quorum's leader; of one known to be deposed, nothing."""
        if self._deposed(epoch):
            return
        absent = (self._ends, self._epochs, self._asked_ns)
        # A new leader's log may be shorter, by what was never committed.
        while self._ends and self._ends[-1] >= log_end:
            for column in absent:
                column.pop()
        for column, number in zip(absent, (log_end, epoch, asked_ns), strict=True):
            column.append(number)
        if not self._committed or self._committed[-1] < high_watermark:
            self._committed.append(high_watermark)
            self._told_ns.append(told_ns)

    def heard(self, partition: Any, *, asked_ns: int, told_ns: int) -> None:
        """Note a partition of a DescribeQuorum answer, between asking for it and being told."""
        if self._deposed(int(partition.leader_epoch)):
            return
        self._note_kept(partition)
        for voter in partition.current_voters:
            if voter.replica_id == partition.leader_id:
                self.saw(
                    epoch=int(partition.leader_epoch),
                    log_end=int(voter.log_end_offset),
                    high_watermark=int(partition.high_watermark),
                    asked_ns=asked_ns,
                    told_ns=told_ns,
                )

    def _note_kept(self, partition: Any) -> None:
        """What each replica has, as its last fetch proved to the leader. A node on a new disk is
        listed beside its old self (KIP-853): the lesser of the two is sure. Not the greatest of
        all times either: a disk may have been lost."""
        ends: dict[int, int] = {}
        for replica in (*partition.current_voters, *partition.observers):
            node, end = int(replica.replica_id), int(replica.log_end_offset)
            if end >= 0:  # a new leader does not know yet of those who have not fetched
                ends[node] = min(end, ends.get(node, end))
        committed = max(0, int(partition.high_watermark))
        self._kept.update((node, min(end, committed)) for node, end in ends.items())

    def _deposed(self, epoch: int) -> bool:
        return bool(self._epochs) and epoch < self._epochs[-1]

    def place(self, stamps: Iterable[Stamp]) -> list[int]:
        """The times of records in the order of their offsets, which never fall."""
        placed = [self._believed(stamp) for stamp in stamps]
        for at in range(len(placed) - 2, -1, -1):
            placed[at] = min(placed[at], placed[at + 1])
        return placed

    def _believed(self, stamp: Stamp) -> int:
        before = bisect_right(self._ends, stamp.offset) - 1
        after = bisect_right(self._committed, stamp.offset)
        earliest_ns = stamp.at_ns
        if before >= 0:
            grace_ns = DEPOSED_NS if self._epochs[before] < stamp.epoch else 0
            earliest_ns = self._asked_ns[before] - grace_ns
        if after == len(self._committed):  # nobody watched any more: faults are over by then
            return max(stamp.at_ns, earliest_ns)
        seen_ns = self._told_ns[after]
        return stamp.at_ns if earliest_ns <= stamp.at_ns <= seen_ns else seen_ns
