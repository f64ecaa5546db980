"""The progress of the replicas as the quorum leader sees it, for one epoch.

From their fetches the leader computes the high watermark, notices that it has lost the majority,
and orders its successors when it resigns. Each epoch has a new object.
"""

from dataclasses import dataclass
from uuid import UUID

from nodes.ids import NO_OFFSET, Epoch, NodeId, Offset
from nodes.raft.voters import ReplicaKey, VoterSet

MAX_OBSERVERS = 1000
"""Beyond this number a new observer replaces the longest silent one; observers are only reported.
"""


@dataclass(slots=True, kw_only=True)
class ReplicaProgress:
    """The progress of one replica. Times are monotonic milliseconds, None for never."""

    end_offset: Offset | None = None
    last_fetch_ms: float | None = None
    caught_up_ms: float | None = None
    leader_end_at_last_fetch: Offset = NO_OFFSET
    directory_id: UUID | None = None

    def fetched(self, now_ms: float, offset: Offset, leader_end: Offset) -> None:
        """The replica has everything below `offset`; the leader's log ended at `leader_end`."""
        if offset >= leader_end:
            self.caught_up_ms = now_ms
        elif self.last_fetch_ms is not None and offset >= self.leader_end_at_last_fetch:
            self.caught_up_ms = self.last_fetch_ms
        self.end_offset = offset
        self.last_fetch_ms = now_ms
        self.leader_end_at_last_fetch = leader_end


class Leadership:
    """`start_offset` is the offset of this epoch's first record; `me` is this node."""

    def __init__(
        self,
        *,
        epoch: Epoch,
        start_offset: Offset,
        me: ReplicaKey,
        voters: VoterSet,
        now_ms: float,
    ) -> None:
        self.epoch = epoch
        self.start_offset = start_offset
        self.elected_ms = now_ms
        self.announced_ms = now_ms
        self.voters: dict[NodeId, ReplicaProgress] = {}
        """The other voters."""
        self.observers: dict[ReplicaKey, ReplicaProgress] = {}
        self._me = me
        self._set = VoterSet()
        self.change_voters(voters)

    def change_voters(self, voters: VoterSet) -> None:
        """Use a new voter set from now on."""
        before, self._set = self._set, voters
        known = dict(self.observers)
        for node, progress in self.voters.items():
            voter = before.get(node)
            assert voter is not None
            known[ReplicaKey(node, voter.directory_id or progress.directory_id)] = progress
        self.voters = {}
        for voter in voters.voters:
            if voter.node_id != self._me.node_id:
                fresh = ReplicaProgress(directory_id=voter.directory_id)
                self.voters[voter.node_id] = known.pop(voter.key, fresh)
        self.observers = known

    @property
    def _counts(self) -> bool:
        """Whether this node is a voter; a removed leader is not, but leads until its removal is
        committed."""
        return self._set.has(self._me)

    def directory_of(self, node: NodeId) -> UUID | None:
        """The directory from which that voter fetched; None if unknown."""
        if node == self._me.node_id:
            return self._me.directory_id
        return self.voters[node].directory_id if node in self.voters else None

    def heard(self, replica: ReplicaKey, now_ms: float) -> None:
        """A replica whose log diverges sent a fetch: it is alive, its log end is unknown."""
        progress = self._voter(replica)
        if progress is not None:
            progress.last_fetch_ms = now_ms

    def fetched(
        self, replica: ReplicaKey, now_ms: float, offset: Offset, leader_end: Offset
    ) -> None:
        """A replica sent a fetch whose offset and epoch agree with this log."""
        progress = self._voter(replica) or self._observer(replica)
        progress.fetched(now_ms, offset, leader_end)

    def _voter(self, replica: ReplicaKey) -> ReplicaProgress | None:
        """The voter's progress; None for any other replica.

        Until the log records directories, a configured voter is identified by its node id and, for
        this leader, by the first directory that it fetched from.
        """
        voter = self._set.get(replica.node_id)
        progress = self.voters.get(replica.node_id)
        if voter is None or progress is None or not voter.is_replica(replica):
            return None
        if progress.directory_id is None:
            progress.directory_id = replica.directory_id
        return progress if progress.directory_id == replica.directory_id else None

    def _observer(self, replica: ReplicaKey) -> ReplicaProgress:
        if replica not in self.observers and len(self.observers) >= MAX_OBSERVERS:
            del self.observers[
                min(self.observers, key=lambda node: self.observers[node].last_fetch_ms or 0.0)
            ]
        fresh = ReplicaProgress(directory_id=replica.directory_id)
        return self.observers.setdefault(replica, fresh)

    def committed_end(self, own_flushed: Offset) -> Offset | None:
        """The offset below which a majority has flushed, if above this epoch's first record; else
        None.

        Records of earlier epochs are committed only together with a record of this epoch; a later
        leader might still replace them otherwise (KAFKA-12619).
        """
        ends = [Offset(0) if p.end_offset is None else p.end_offset for p in self.voters.values()]
        if self._counts:
            ends.append(own_flushed)
        reached = sorted(ends, reverse=True)[self._set.majority - 1]
        return reached if reached > self.start_offset else None

    def majority_since_ms(self) -> float:
        """The latest time since which a majority has fetched; this node, if a voter, counts."""
        times = [self._heard_ms(p) for p in self.voters.values()]
        if self._counts:
            times.append(float("inf"))
        return sorted(times, reverse=True)[self._set.majority - 1]

    def silent(self, now_ms: float, limit_ms: float) -> tuple[NodeId, ...]:
        """The voters that have sent nothing for `limit_ms`."""
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
