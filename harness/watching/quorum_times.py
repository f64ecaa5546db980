"""When a record came into the metadata log, told by whoever watched the log and not by its writer.

A controller stamps what it decides with its own wall clock, and clock faults set that. The watcher
knows better, if less finely: it asked the quorum's leader again and again, and each answer says how
long the log was and how much of it was committed, between two moments of the run's own time. A
stamp that fits between them is believed, to its millisecond; in place of any other stands the
moment by which the record was seen to be there. Pure.
"""

from bisect import bisect_right
from collections.abc import Sequence
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


class _Absent(NamedTuple):
    log_end: int
    epoch: int
    asked_ns: int


@dataclass(slots=True)
class QuorumTimes:
    """What was seen of the metadata log; times are ns since the run began."""

    _absent: list[_Absent] = field(default_factory=list)
    """From where on nothing was there, and when that was asked for last; both ascending."""
    _committed: list[tuple[int, int]] = field(default_factory=list)
    """(high watermark, when it was told first): what was there already; both ascending."""

    @property
    def high_watermark(self) -> int:
        """How much of the metadata log was told to be committed; 0 when nobody told."""
        return self._committed[-1][0] if self._committed else 0

    def current_since(self, since_ns: int) -> int | None:
        """The moment by which all was committed that the log held at some moment after `since_ns`;
        None while nobody knows."""
        asked = next((seen for seen in self._absent if seen.asked_ns >= since_ns), None)
        if asked is None:
            return None
        told = (told_ns for end, told_ns in self._committed if end >= asked.log_end)
        first_ns = next(told, None)
        return None if first_ns is None else max(first_ns, since_ns)

    def saw(
        self, *, epoch: int, log_end: int, high_watermark: int, asked_ns: int, told_ns: int
    ) -> None:
        """Note an answer of the quorum's leader; of one known to be deposed, nothing."""
        if self._absent and epoch < self._absent[-1].epoch:
            return
        # A new leader's log may be shorter, by what was never committed.
        while self._absent and self._absent[-1].log_end >= log_end:
            self._absent.pop()
        self._absent.append(_Absent(log_end, epoch, asked_ns))
        if not self._committed or self._committed[-1][0] < high_watermark:
            self._committed.append((high_watermark, told_ns))

    def heard(self, partition: Any, *, asked_ns: int, told_ns: int) -> None:
        """Note a partition of a DescribeQuorum answer, between asking for it and being told."""
        for voter in partition.current_voters:
            if voter.replica_id == partition.leader_id:
                self.saw(
                    epoch=int(partition.leader_epoch),
                    log_end=int(voter.log_end_offset),
                    high_watermark=int(partition.high_watermark),
                    asked_ns=asked_ns,
                    told_ns=told_ns,
                )

    def place(self, stamps: Sequence[Stamp]) -> list[int]:
        """The times of records in the order of their offsets, which never fall."""
        placed = [self._believed(stamp) for stamp in stamps]
        for at in range(len(placed) - 2, -1, -1):
            placed[at] = min(placed[at], placed[at + 1])
        return placed

    def _believed(self, stamp: Stamp) -> int:
        before = bisect_right(self._absent, stamp.offset, key=lambda seen: seen.log_end) - 1
        after = bisect_right(self._committed, stamp.offset, key=lambda seen: seen[0])
        earliest_ns = stamp.at_ns
        if before >= 0:
            absent = self._absent[before]
            grace_ns = DEPOSED_NS if absent.epoch < stamp.epoch else 0
            earliest_ns = absent.asked_ns - grace_ns
        if after == len(self._committed):  # nobody watched any more: faults are over by then
            return max(stamp.at_ns, earliest_ns)
        seen_ns = self._committed[after][1]
        return stamp.at_ns if earliest_ns <= stamp.at_ns <= seen_ns else seen_ns
