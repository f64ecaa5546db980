"""What a quorum leader knows of its replicas, for one epoch.

From the fetches it computes the high watermark, notices that it has lost the majority, and orders
the successors when it resigns. One object per epoch led: nothing is carried into the next.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from nodes.ids import NO_OFFSET, Epoch, NodeId, Offset

MAX_OBSERVERS = 1000
"""Observers beyond this many replace the one silent longest: they are only reported on."""


@dataclass(slots=True, kw_only=True)
class ReplicaProgress:
    """One replica as its fetches show it. Times are monotonic milliseconds, None for never."""

    end_offset: Offset | None = None
    last_fetch_ms: float | None = None
    caught_up_ms: float | None = None
    leader_end_at_last_fetch: Offset = NO_OFFSET

    def fetched(self, now_ms: float, offset: Offset, leader_end: Offset) -> None:
        """It has everything below `offset`, while this log ended at `leader_end`."""
        if offset >= leader_end:
            self.caught_up_ms = now_ms
        elif self.last_fetch_ms is not None and offset >= self.leader_end_at_last_fetch:
            self.caught_up_ms = self.last_fetch_ms
        self.end_offset = offset
        self.last_fetch_ms = now_ms
        self.leader_end_at_last_fetch = leader_end


class Leadership:
    """`start_offset` is where this epoch's first record stands."""

    def __init__(
        self, *, epoch: Epoch, start_offset: Offset, others: Iterable[NodeId], now_ms: float
    ) -> None:
        self.epoch = epoch
        self.start_offset = start_offset
        self.elected_ms = now_ms
        self.announced_ms = now_ms
        self.voters = {voter: ReplicaProgress() for voter in sorted(others)}
        self.observers: dict[NodeId, ReplicaProgress] = {}

    @property
    def _majority(self) -> int:
        return (len(self.voters) + 1) // 2 + 1

    def heard(self, replica: NodeId, now_ms: float) -> None:
        """A fetch arrived that says nothing of the replica's log (it diverges): it is alive."""
        if replica in self.voters:
            self.voters[replica].last_fetch_ms = now_ms

    def fetched(self, replica: NodeId, now_ms: float, offset: Offset, leader_end: Offset) -> None:
        """A fetch arrived whose offset and epoch agree with this log."""
        progress = self.voters.get(replica) or self._observer(replica)
        progress.fetched(now_ms, offset, leader_end)

    def _observer(self, replica: NodeId) -> ReplicaProgress:
        if replica not in self.observers and len(self.observers) >= MAX_OBSERVERS:
            del self.observers[
                min(self.observers, key=lambda node: self.observers[node].last_fetch_ms or 0.0)
            ]
        return self.observers.setdefault(replica, ReplicaProgress())

    def committed_end(self, own_flushed: Offset) -> Offset | None:
        """Where a majority's flushed logs reach, if beyond this epoch's first record; else None.

        Records of earlier epochs commit only along with one of this epoch: a later leader may
        still replace them otherwise (KAFKA-12619).
        """
        ends = [Offset(0) if p.end_offset is None else p.end_offset for p in self.voters.values()]
        ends.append(own_flushed)
        reached = sorted(ends, reverse=True)[self._majority - 1]
        return reached if reached > self.start_offset else None

    def majority_since_ms(self) -> float:
        """The latest time by which a majority, this node included, had been heard from."""
        times = sorted((self._heard_ms(p) for p in self.voters.values()), reverse=True)
        return times[self._majority - 2] if times else float("inf")

    def silent(self, now_ms: float, limit_ms: float) -> tuple[NodeId, ...]:
        """The voters from which nothing came for `limit_ms`."""
        return tuple(
            voter
            for voter, progress in self.voters.items()
            if progress.last_fetch_ms is None or now_ms - progress.last_fetch_ms >= limit_ms
        )

    def successors(self) -> tuple[NodeId, ...]:
        """The other voters, the longest log first."""
        return tuple(sorted(self.voters, key=lambda v: (-(self.voters[v].end_offset or 0), v)))

    def _heard_ms(self, progress: ReplicaProgress) -> float:
        return self.elected_ms if progress.last_fetch_ms is None else progress.last_fetch_ms
