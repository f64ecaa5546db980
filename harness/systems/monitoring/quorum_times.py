"""Dates the records of the metadata log by what the watcher saw, not by the controllers' clocks.

A controller stamps its decisions with its own wall clock, and clock faults set that clock. The
watcher's times are less precise, but right. It asked the quorum's leader again and again, and each
answer gives the length of the log and its high watermark, between two moments of the run's own
time. A timestamp that fits between these moments is used, to its millisecond. Any other timestamp
is replaced by the moment by which the record was seen. Pure.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

DEPOSED_NS: Final = 2_000_000_000
"""How long a replaced leader may go on answering while another node appends to the log."""


class Stamp(NamedTuple):
    """The position of a record in the metadata log, and its own timestamp."""

    offset: int
    epoch: int
    at_ns: int
    """ns since the run began, if the writer's wall clock was right."""


def _numbers() -> "array[int]":
    return array("q")


@dataclass(slots=True)
class QuorumTimes:
    """What was seen of the metadata log. Times are ns since the run began.

    It grows with the log, which grows by at least two records a second, because every record must
    be placed between two observations. Columns of numbers make that 0.3 MB an hour.
    """

    _ends: "array[int]" = field(default_factory=_numbers)
    """Log end offsets; ascending, as are the next two columns, which belong to them."""
    _epochs: "array[int]" = field(default_factory=_numbers)
    _asked_ns: "array[int]" = field(default_factory=_numbers)
    """When the log last had this end: the time of the request."""
    _committed: "array[int]" = field(default_factory=_numbers)
    """High watermarks; ascending, as is the next column, which belongs to them."""
    _answered_ns: "array[int]" = field(default_factory=_numbers)
    """When each high watermark was first reported: the time of the answer."""
    _committed_by_node: dict[int, int] = field(default_factory=dict)
    read: dict[int, str] = field(default_factory=dict)
    """Offsets of records whose effect a client has read (beside ZooKeeper: zxids), and where."""

    @property
    def committed_by_node(self) -> Mapping[int, int]:
        """Node -> the offset up to which the node was last known to have the committed log.

        A node that died may lack what was committed later without it. Nothing is known of a node
        that is missing here.
        """
        return dict(self._committed_by_node)

    def current_since(self, since_ns: int) -> int | None:
        """Return by when everything was committed that the log had at some moment after `since_ns`.

        None while that is unknown.
        """
        asked = len(self._asked_ns)
        while asked and self._asked_ns[asked - 1] >= since_ns:
            asked -= 1
        if asked == len(self._ends):
            return None
        answered = bisect_left(self._committed, self._ends[asked])
        if answered == len(self._committed):
            return None
        return max(self._answered_ns[answered], since_ns)

    def record(
        self, *, epoch: int, log_end: int, high_watermark: int, asked_ns: int, answered_ns: int
    ) -> None:
        """Record an answer of the quorum's leader. The answer of a replaced leader is ignored."""
        if self._is_old(epoch):
            return
        absent = (self._ends, self._epochs, self._asked_ns)
        # A new leader's log may be shorter: it may lack records that were never committed.
        while self._ends and self._ends[-1] >= log_end:
            for column in absent:
                column.pop()
        for column, number in zip(absent, (log_end, epoch, asked_ns), strict=True):
            column.append(number)
        if not self._committed or self._committed[-1] < high_watermark:
            self._committed.append(high_watermark)
            self._answered_ns.append(answered_ns)

    def record_answer(self, partition: Any, *, asked_ns: int, answered_ns: int) -> None:
        """Record a partition of a DescribeQuorum response, with the times of request and answer."""
        if self._is_old(int(partition.leader_epoch)):
            return
        self._record_replicas(partition)
        for voter in partition.current_voters:
            if voter.replica_id == partition.leader_id:
                self.record(
                    epoch=int(partition.leader_epoch),
                    log_end=int(voter.log_end_offset),
                    high_watermark=int(partition.high_watermark),
                    asked_ns=asked_ns,
                    answered_ns=answered_ns,
                )

    def _record_replicas(self, partition: Any) -> None:
        """Record how much each replica has, as its last fetch proved to the leader.

        A node on a new disk is listed twice, with its old and its new directory (KIP-853): only the
        smaller offset is certain. The largest offset ever seen is not certain either, because a
        disk may have been lost.
        """
        ends: dict[int, int] = {}
        for replica in (*partition.current_voters, *partition.observers):
            node, end = int(replica.replica_id), int(replica.log_end_offset)
            if end >= 0:  # negative: a new leader has had no fetch of this replica yet
                ends[node] = min(end, ends.get(node, end))
        committed = max(0, int(partition.high_watermark))
        self._committed_by_node.update((node, min(end, committed)) for node, end in ends.items())

    def _is_old(self, epoch: int) -> bool:
        return bool(self._epochs) and epoch < self._epochs[-1]

    def place(self, stamps: Iterable[Stamp]) -> list[int]:
        """Return the times of records in the order of their offsets. The times never decrease."""
        placed = [self._time_of(stamp) for stamp in stamps]
        for at in range(len(placed) - 2, -1, -1):
            placed[at] = min(placed[at], placed[at + 1])
        return placed

    def _time_of(self, stamp: Stamp) -> int:
        before = bisect_right(self._ends, stamp.offset) - 1
        after = bisect_right(self._committed, stamp.offset)
        earliest_ns = stamp.at_ns
        if before >= 0:
            grace_ns = DEPOSED_NS if self._epochs[before] < stamp.epoch else 0
            earliest_ns = self._asked_ns[before] - grace_ns
        if after == len(self._committed):  # after the watching ended, when faults are over
            return max(stamp.at_ns, earliest_ns)
        seen_ns = self._answered_ns[after]
        return stamp.at_ns if earliest_ns <= stamp.at_ns <= seen_ns else seen_ns
