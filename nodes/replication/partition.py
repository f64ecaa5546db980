"""The replication state of one partition on one node: role, epochs, ISR, high watermark.

Pure: no socket, no clock, no file. The caller passes times (monotonic milliseconds) and log
positions. The class decides

- when the high watermark may advance: to the smallest log end of the *maximal* in-sync set (the
  committed ISR and any ISR change in flight, KIP-497). It never moves backwards within an epoch,
  never beyond `leader_end` (the caller passes the log end or the flushed end), and never while the
  ISR is below `min.insync.replicas` (KIP-966). A follower's log end counts only from fetches in the
  current leader epoch;
- when the ISR should shrink (a member has not caught up for `replica.lag.time.max.ms`) or grow (a
  replica has reached both the high watermark and the start of the current epoch, KAFKA-7128), one
  proposal at a time;
- what a produce request has to wait for, according to its acks.

Others read and write logs, send AlterPartition, and truncate (`nodes.log.divergence`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from nodes.ids import NO_EPOCH, NO_NODE, NO_OFFSET, BrokerEpoch, Epoch, NodeId, Offset
from nodes.replication.progress import FollowerProgress, SessionActivity


class Role(Enum):
    """The role of this node for the partition."""

    OFFLINE = "offline"
    LEADER = "leader"
    FOLLOWER = "follower"


class ProduceStatus(Enum):
    """The status of a produce request for one partition."""

    PENDING = "wait"
    OK = "done"
    NOT_LEADER = "not leader"
    NOT_ENOUGH_REPLICAS = "too few in-sync replicas, after the append"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRegistration:
    """The partition's state in the metadata log; only the controller changes it."""

    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    leader: NodeId
    leader_epoch: Epoch
    partition_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrProposal:
    """An ISR change to request from the controller, based on the state of `partition_epoch`."""

    isr: tuple[tuple[NodeId, BrokerEpoch], ...]
    leader_epoch: Epoch
    partition_epoch: int


class PartitionState:
    """One partition as one node sees it; `local` is that node."""

    def __init__(self, local: NodeId, high_watermark: Offset, min_isr: int = 1) -> None:
        self.local = local
        self.role = Role.OFFLINE
        self.leader: NodeId = NO_NODE
        self.leader_epoch: Epoch = NO_EPOCH
        self.partition_epoch = -1
        self.epoch_start: Offset = Offset(0)
        self.replicas: tuple[NodeId, ...] = ()
        self.isr: frozenset[NodeId] = frozenset()
        self.proposal: IsrProposal | None = None
        self.high_watermark = high_watermark
        self.min_isr = min_isr
        self.followers: dict[NodeId, FollowerProgress] = {}

    # -- roles ---------------------------------------------------------------------------------

    def apply(self, assignment: PartitionRegistration, log_end: Offset, now_ms: float) -> bool:
        """Apply the state in the metadata log; return whether the leader epoch or role changed.

        A state that is not newer is ignored: an AlterPartition response may arrive before its
        metadata record, and by then another proposal may be pending. The caller may advance the
        high watermark afterwards, because a smaller ISR may have replicated more.
        """
        if assignment.partition_epoch <= self.partition_epoch:
            return False
        role = self._role_in(assignment)
        changed = assignment.leader_epoch != self.leader_epoch or role is not self.role
        self.leader = assignment.leader
        self.replicas = assignment.replicas
        self.partition_epoch = assignment.partition_epoch
        self.isr = frozenset(assignment.isr)
        self.proposal = None
        if changed:
            self.role = role
            self.leader_epoch = assignment.leader_epoch
            self.followers = {}
            if role is Role.LEADER:
                self.epoch_start = log_end
        if role is Role.LEADER:
            self._track_followers(now_ms)
        return changed

    def retire(self) -> None:
        """This node no longer hosts a replica of the partition; for good."""
        self.role = Role.OFFLINE
        self.leader = NO_NODE
        self.proposal = None

    def _role_in(self, assignment: PartitionRegistration) -> Role:
        if self.local not in assignment.replicas or assignment.leader == NO_NODE:
            return Role.OFFLINE
        return Role.LEADER if assignment.leader == self.local else Role.FOLLOWER

    def _track_followers(self, now_ms: float) -> None:
        """Track every other replica; ISR members count as caught up at the start."""
        known = self.followers
        self.followers = {}
        for replica in self.replicas:
            if replica == self.local:
                continue
            fresh = FollowerProgress(caught_up_ms=now_ms if replica in self.isr else 0.0)
            self.followers[replica] = known.get(replica, fresh)

    # -- the leader's view of its followers ----------------------------------------------------

    def record_fetch(
        self,
        replica: NodeId,
        fetch_offset: Offset,
        broker_epoch: BrokerEpoch,
        leader_end: Offset,
        now_ms: float,
        *,
        log_start: Offset = NO_OFFSET,
        activity: SessionActivity | None = None,
    ) -> bool:
        """A follower fetches from `fetch_offset` in the current leader epoch: it has all below.

        `activity` is that of its fetch session, whose later fetches may omit the partition. Return
        whether the high watermark advanced.
        """
        progress = self.followers.get(replica)
        if progress is None:
            return False
        if fetch_offset < progress.log_end and -1 < broker_epoch == progress.broker_epoch:
            return False  # late: what an incarnation has in a leader epoch never becomes less
        progress.fetched(fetch_offset, leader_end, now_ms, activity=activity)
        progress.broker_epoch = broker_epoch
        progress.log_start = log_start
        return self.advance_high_watermark(leader_end)

    def before_append(self, leader_end: Offset) -> None:
        """Must be called before every append at `leader_end`; records which followers had all."""
        for progress in self.followers.values():
            progress.before_append(leader_end)

    def left_session(self, replica: NodeId, activity: SessionActivity, leader_end: Offset) -> None:
        """A follower's fetch session no longer contains this partition."""
        progress = self.followers.get(replica)
        if progress is not None:
            progress.left_session(activity, leader_end)

    @property
    def maximal_isr(self) -> frozenset[NodeId]:
        """Committed and proposed members: every replica that the controller may think in sync."""
        if self.proposal is None:
            return self.isr
        return self.isr | {member for member, _ in self.proposal.isr}

    @property
    def below_min_isr(self) -> bool:
        """Whether there are fewer in-sync replicas than acks=all requires."""
        return len(self.isr) < self.min_isr

    def replicated_end(self, leader_end: Offset) -> Offset:
        """The offset below which every member of the maximal ISR has every record."""
        end = leader_end
        for member in self.maximal_isr:
            if member != self.local:
                progress = self.followers.get(member)
                end = min(end, NO_OFFSET if progress is None else progress.log_end)
        return end

    def advance_high_watermark(self, leader_end: Offset) -> bool:
        """Advance the high watermark as far as the ISR allows; return whether it advanced."""
        if self.role is not Role.LEADER or self.below_min_isr:
            return False
        end = self.replicated_end(leader_end)
        if end <= self.high_watermark:
            return False
        self.high_watermark = end
        return True

    def follow_high_watermark(self, leader_hw: Offset, log_end: Offset) -> bool:
        """Take over the leader's high watermark, limited to this follower's log end."""
        hw = min(leader_hw, log_end)
        if hw <= self.high_watermark:
            return False
        self.high_watermark = hw
        return True

    def truncated(self, log_end: Offset) -> None:
        """The local log was truncated to `log_end`; nothing above it can be committed here."""
        self.high_watermark = min(self.high_watermark, log_end)

    def log_start_changed(self, log_start: Offset) -> None:
        """The local log now begins at `log_start`; all records before it were committed."""
        self.high_watermark = max(self.high_watermark, log_start)

    # -- the in-sync set -----------------------------------------------------------------------

    def shrunk_isr(
        self, leader_end: Offset, lag_max_ms: float, now_ms: float
    ) -> IsrProposal | None:
        """The proposal to remove the members that lag; None if none lags or one is pending."""
        if self.role is not Role.LEADER or self.proposal is not None:
            return None
        lagging = {
            member
            for member, progress in self.followers.items()
            if member in self.isr and progress.lags(leader_end, lag_max_ms, now_ms)
        }
        return self._propose(self.isr - lagging) if lagging else None

    def grown_isr(
        self, replica: NodeId, leader_end: Offset, eligible: Callable[[NodeId], bool]
    ) -> IsrProposal | None:
        """The proposal to add `replica`; None if it is not in sync, a member, or one is pending.

        `eligible`: whether the metadata has the broker as unfenced and not shutting down.
        """
        progress = self.followers.get(replica)
        if self.role is not Role.LEADER or self.proposal is not None or progress is None:
            return None
        if replica in self.isr or not eligible(replica):
            return None
        if progress.log_end < max(self.high_watermark, self.epoch_start):
            return None
        return self._propose(self.isr | {replica})

    def _propose(self, isr: frozenset[NodeId]) -> IsrProposal:
        self.proposal = IsrProposal(
            isr=tuple((member, self._broker_epoch(member)) for member in self._ordered(isr)),
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
        )
        return self.proposal

    def _broker_epoch(self, member: NodeId) -> BrokerEpoch:
        progress = self.followers.get(member)
        return BrokerEpoch(-1) if progress is None else progress.broker_epoch

    def _ordered(self, members: Iterable[NodeId]) -> list[NodeId]:
        chosen = frozenset(members)
        return [replica for replica in self.replicas if replica in chosen]

    def isr_accepted(
        self,
        proposal: IsrProposal,
        isr: Iterable[NodeId],
        partition_epoch: int,
        leader_end: Offset,
    ) -> bool:
        """The controller committed `proposal`; return whether the high watermark advanced."""
        if partition_epoch > self.partition_epoch:
            self.isr = frozenset(isr)
            self.partition_epoch = partition_epoch
        return self.isr_settled(proposal, leader_end)

    def isr_settled(self, proposal: IsrProposal, leader_end: Offset) -> bool:
        """`proposal` is surely not in flight any more; return whether the high watermark advanced.

        A response to a proposal that a newer metadata record has replaced changes nothing.
        """
        if proposal is self.proposal:
            self.proposal = None
        return self.advance_high_watermark(leader_end)

    # -- producing -----------------------------------------------------------------------------

    def check_append(self, acks: int) -> ProduceStatus:
        """Whether a produce request may append: OK, NOT_LEADER or NOT_ENOUGH_REPLICAS."""
        if self.role is not Role.LEADER:
            return ProduceStatus.NOT_LEADER
        return (
            ProduceStatus.NOT_ENOUGH_REPLICAS
            if acks == -1 and self.below_min_isr
            else ProduceStatus.OK
        )

    def acknowledge(
        self, leader_epoch: Epoch, required: Offset, leader_end: Offset
    ) -> ProduceStatus:
        """The status of an acks=all produce that appended below `required` in `leader_epoch`."""
        if self.role is not Role.LEADER or leader_epoch != self.leader_epoch:
            return ProduceStatus.NOT_LEADER
        if self.below_min_isr:
            replicated = self.replicated_end(leader_end) >= required
            return ProduceStatus.NOT_ENOUGH_REPLICAS if replicated else ProduceStatus.PENDING
        return ProduceStatus.OK if self.high_watermark >= required else ProduceStatus.PENDING
