"""The replication state of one partition on one node: role, epochs, ISR, high watermark.

Pure: no socket, no clock, no file. Times are monotonic milliseconds that the caller hands in; log
positions too. The class decides

- when the high watermark may advance: to the smallest log end of the *maximal* in-sync set (the
  committed ISR and any change of it still in flight, KIP-497), never backwards within an epoch,
  never beyond what the leader may claim of its own log (all of it, or what it has flushed, as the
  caller says: `leader_end`), never while the ISR is below `min.insync.replicas` (KIP-966);
  a follower's log end counts only as fetched in the current leader epoch;
- when the ISR should shrink (a member has not caught up for `replica.lag.time.max.ms`) or grow (a
  replica reached both the high watermark and the start of the current epoch, KAFKA-7128), one
  proposal at a time;
- what a produce request has to wait for, by its acks.

It leaves to others to read and write logs, to send AlterPartition, and to truncate
(`truncation.py`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from nodes.ids import NO_EPOCH, NO_NODE, NO_OFFSET, BrokerEpoch, Epoch, NodeId, Offset
from nodes.replication.progress import FollowerProgress, Pulse


class Role(Enum):
    """What this node is to the partition now."""

    OFFLINE = "offline"
    LEADER = "leader"
    FOLLOWER = "follower"


class Ack(Enum):
    """What a produce request with acks=all is to be told about one partition."""

    WAIT = "wait"
    DONE = "done"
    NOT_LEADER = "not leader"
    TOO_FEW_REPLICAS = "too few in-sync replicas, after the append"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What the metadata log says of the partition; the controller is its only author."""

    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    leader: NodeId
    leader_epoch: Epoch
    partition_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrProposal:
    """An ISR change to ask of the controller; `partition_epoch` is the state it is based on."""

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

    def apply(self, assignment: Assignment, log_end: Offset, now_ms: float) -> bool:
        """Take over what the metadata log says; true when the leader epoch or the role changed.

        News that is not newer than what is known is ignored: an AlterPartition answer may arrive
        before the metadata record that it announced, and by then another proposal may be pending.
        The high watermark may be advanced afterwards: a smaller ISR waits for fewer.
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
        """This node hosts no replica of the partition any more; for good."""
        self.role = Role.OFFLINE
        self.leader = NO_NODE
        self.proposal = None

    def _role_in(self, assignment: Assignment) -> Role:
        if self.local not in assignment.replicas or assignment.leader == NO_NODE:
            return Role.OFFLINE
        return Role.LEADER if assignment.leader == self.local else Role.FOLLOWER

    def _track_followers(self, now_ms: float) -> None:
        """Every other replica is followed; members of the ISR start with a full lag allowance."""
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
        pulse: Pulse | None = None,
    ) -> bool:
        """A follower in the current leader epoch asks for `fetch_offset`: it has all below.

        `pulse` is that of the fetch session which will repeat this without naming the partition.
        Returns true when the high watermark advanced.
        """
        progress = self.followers.get(replica)
        if progress is None:
            return False
        progress.fetched(fetch_offset, leader_end, now_ms, pulse=pulse)
        progress.broker_epoch = broker_epoch
        progress.log_start = log_start
        return self.advance_high_watermark(leader_end)

    def leader_grows(self, leader_end: Offset) -> None:
        """To be told before every append at `leader_end`; who had everything until now is noted."""
        for progress in self.followers.values():
            progress.leader_grows(leader_end)

    def left_session(self, replica: NodeId, pulse: Pulse, leader_end: Offset) -> None:
        """A follower's fetch session does not hold this partition any more."""
        progress = self.followers.get(replica)
        if progress is not None:
            progress.left_session(pulse, leader_end)

    @property
    def maximal_isr(self) -> frozenset[NodeId]:
        """Committed members and proposed ones: whoever the controller may think is in sync."""
        if self.proposal is None:
            return self.isr
        return self.isr | {member for member, _ in self.proposal.isr}

    @property
    def below_min_isr(self) -> bool:
        """Fewer in-sync replicas than acks=all demands."""
        return len(self.isr) < self.min_isr

    def replicated_end(self, leader_end: Offset) -> Offset:
        """Below this offset every member of the maximal ISR has every record."""
        end = leader_end
        for member in self.maximal_isr:
            if member != self.local:
                progress = self.followers.get(member)
                end = min(end, NO_OFFSET if progress is None else progress.log_end)
        return end

    def advance_high_watermark(self, leader_end: Offset) -> bool:
        """Move the high watermark as far as the in-sync replicas allow; true when it moved."""
        if self.role is not Role.LEADER or self.below_min_isr:
            return False
        end = self.replicated_end(leader_end)
        if end <= self.high_watermark:
            return False
        self.high_watermark = end
        return True

    def follow_high_watermark(self, leader_hw: Offset, log_end: Offset) -> bool:
        """A follower learns the leader's high watermark; it never exceeds the follower's log."""
        hw = min(leader_hw, log_end)
        if hw <= self.high_watermark:
            return False
        self.high_watermark = hw
        return True

    def truncated(self, log_end: Offset) -> None:
        """The local log was cut to `log_end`; nothing above it can be committed here."""
        self.high_watermark = min(self.high_watermark, log_end)

    def log_starts_at(self, log_start: Offset) -> None:
        """The local log begins at `log_start`: what was before it had been committed."""
        self.high_watermark = max(self.high_watermark, log_start)

    # -- the in-sync set -----------------------------------------------------------------------

    def shrunk_isr(
        self, leader_end: Offset, lag_max_ms: float, now_ms: float
    ) -> IsrProposal | None:
        """The proposal to drop the members that lag, or None when none does or one is pending."""
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
        """The proposal to add `replica`, or None when it is not in sync, in already, or pending.

        `eligible` tells whether the metadata knows the broker as unfenced and not shutting down.
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
        """The controller committed `proposal`; true when the high watermark advanced by it."""
        if partition_epoch > self.partition_epoch:
            self.isr = frozenset(isr)
            self.partition_epoch = partition_epoch
        return self.isr_settled(proposal, leader_end)

    def isr_settled(self, proposal: IsrProposal, leader_end: Offset) -> bool:
        """`proposal` is surely not in flight any more; true when the high watermark advanced.

        An answer to a proposal that news from the metadata log has overtaken changes nothing.
        """
        if proposal is self.proposal:
            self.proposal = None
        return self.advance_high_watermark(leader_end)

    # -- producing -----------------------------------------------------------------------------

    def may_append(self, acks: int) -> Ack:
        """Whether a produce request may append: DONE (yes), NOT_LEADER or TOO_FEW_REPLICAS."""
        if self.role is not Role.LEADER:
            return Ack.NOT_LEADER
        return Ack.TOO_FEW_REPLICAS if acks == -1 and self.below_min_isr else Ack.DONE

    def acknowledge(self, leader_epoch: Epoch, required: Offset, leader_end: Offset) -> Ack:
        """What to tell an acks=all produce that appended below `required` in `leader_epoch`."""
        if self.role is not Role.LEADER or leader_epoch != self.leader_epoch:
            return Ack.NOT_LEADER
        if self.below_min_isr:
            replicated = self.replicated_end(leader_end) >= required
            return Ack.TOO_FEW_REPLICAS if replicated else Ack.WAIT
        return Ack.DONE if self.high_watermark >= required else Ack.WAIT
