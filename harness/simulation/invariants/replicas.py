"""The invariants of one partition on one node, checked when its log or its state changed.

- log start <= high watermark <= log end.
- A leader epoch has one leader, and it has everything that leaders of earlier epochs committed,
  unless a permitted unclean election made it the leader.
- A leader's high watermark never goes back within its epoch, and does not move while the ISR is
  smaller than min.insync.replicas (KIP-966). Everything below it is in the log of each member of
  the maximal ISR (KIP-497), and on its disk if the topic asks for that (flush.messages).
- A follower believes only committed records to be committed.
- The last stable offset: `stable_offsets`.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.images import Partition, knows_of_loss
from harness.simulation.invariants.log_copy import Copy
from harness.simulation.invariants.partition_history import Batch
from harness.simulation.invariants.stable_offsets import StableOffsetChecker
from nodes.ids import NO_EPOCH, NO_NODE, NO_OFFSET, Epoch
from nodes.metadata.image import ClusterImage
from nodes.metadata.records import ELIGIBLE_LEADER_REPLICAS_FEATURE
from nodes.replication.partition import PartitionState, Role
from nodes.server.replicas.replica import Replica

NEVER_FLUSHED: Final = 1 << 40
"""A flush.messages of at least this promises nothing."""


class HighWatermarkMove(NamedTuple):
    """The state in which the high watermark last moved."""

    to: int
    leading: bool
    epoch: int
    isr: frozenset[int]
    maximal_isr: frozenset[int]
    """The ISR, with the proposed members."""
    min_isr: int
    """The smallest permitted ISR."""


def _move_of(state: PartitionState) -> HighWatermarkMove:
    proposed = () if state.proposal is None else (node for node, _ in state.proposal.isr)
    return HighWatermarkMove(
        state.high_watermark,
        state.role is Role.LEADER,
        state.leader_epoch,
        frozenset(state.isr),
        frozenset({*state.isr, *proposed}),
        state.min_isr,
    )


class ReplicaChecker:
    """Checks one Replica of one incarnation."""

    def __init__(
        self,
        partition: Partition,
        node: int,
        replica: Replica,
        may_be_unclean: Callable[[ClusterImage], bool],
    ) -> None:
        self.replica = replica
        self._may_be_unclean = may_be_unclean
        self.partition = partition
        self.copy: Copy = partition.copy(node)
        self._node = node
        self._epoch = NO_EPOCH
        self._role = Role.OFFLINE
        self._high_watermark = replica.state.high_watermark
        self._last_move = _move_of(replica.state)
        self._stable_offsets = StableOffsetChecker(replica, node)

    def state_changed(self) -> None:
        """Record a change of the state, which may change again before the check at the end of the
        event.

        In one event a leader may learn of several ISRs, commit with one of them, and have a smaller
        ISR or be deposed in the end.
        """
        if self.replica.state.high_watermark != self._last_move.to:
            self._last_move = _move_of(self.replica.state)

    def check(self, image: ClusterImage, *, settled: bool) -> str:
        """Check what may have changed; return a permitted loss, in words.

        `image` is the node's own image; `settled` tells that its roles are those of the image.
        """
        state, log = self.replica.state, self.replica.log
        self.copy.epoch = state.leader_epoch
        excuse = ""
        if not self.copy.unreadable and self._committed_before_its_end(state):
            epoch = self._last_move.epoch
            if (self._role, self._epoch) != (Role.LEADER, epoch):  # it began in this event, too
                excuse = self._check_leader(epoch, image)
            self._check_commit(image, settled=settled)
        if state.role is Role.OFFLINE or self.copy.unreadable:
            if state.role is Role.LEADER:
                excuse = self._note_unreadable(state.leader_epoch, image) or excuse
            self._role, self._high_watermark = Role.OFFLINE, state.high_watermark
            return excuse
        if not log.start_offset <= state.high_watermark <= log.end_offset:
            raise InvariantBroken(
                "high-watermark-in-log",
                f"{self._label(state)}: its log is from {log.start_offset} to {log.end_offset}, "
                f"and its high watermark {state.high_watermark}",
            )
        before = self._high_watermark
        if (state.role, state.leader_epoch) != (self._role, self._epoch):
            excuse = self._check_role(state, image) or excuse
            if state.role is Role.LEADER:
                before = NO_OFFSET
                known = self.copy.batches.get(state.high_watermark)
                self.partition.history.commit_again(
                    known, state.leader_epoch, self._node, damaged=self.copy.damaged
                )
        if state.role is Role.LEADER:
            if state.high_watermark < before:
                raise InvariantBroken(
                    "high-watermark-rises",
                    f"{self._label(state)}: its high watermark goes back from {before} to "
                    f"{state.high_watermark}",
                )
            if state.high_watermark > max(before, self._high_watermark):
                self._check_commit(image, settled=settled)
        elif not self._last_move.leading and 0 <= before < state.high_watermark > log.start_offset:
            batch = self.copy.batches.get(state.high_watermark)
            self.partition.history.follower_committed(
                self._node, state.high_watermark, batch, state.leader_epoch
            )
        self._high_watermark = state.high_watermark
        self._stable_offsets.check(self.copy.transactions)
        return excuse

    def _committed_before_its_end(self, state: PartitionState) -> bool:
        """Whether the replica committed in this event and then ceased to lead that epoch."""
        leads = state.role is Role.LEADER and state.leader_epoch == self._last_move.epoch
        return self._last_move.leading and self._last_move.to > self._high_watermark and not leads

    def _check_role(self, state: PartitionState, image: ClusterImage) -> str:
        self._role, self._epoch = state.role, state.leader_epoch
        partition, epoch = self.partition, state.leader_epoch
        if state.leader != NO_NODE:
            partition.history.leader_known(epoch, state.leader, self._node)
        return self._check_leader(epoch, image) if state.role is Role.LEADER else ""

    def _check_leader(self, epoch: int, image: ClusterImage) -> str:
        """Check that the leader of `epoch` has what is committed; return a permitted loss."""
        partition = self.partition
        top = partition.history.last_committed(epoch)
        if partition.is_past_unclean_leader(epoch):
            return ""
        begun = partition.unclean_by(epoch)
        partition.judged_epoch = max(partition.judged_epoch, epoch)
        if top is None or self.copy.has(top):
            if begun is not None:
                partition.history.ignore_leaders_before(epoch)
            return ""
        if not self._may_lack(begun, image):
            raise InvariantBroken(
                "leader-has-all-committed",
                f"{self._name(Role.LEADER, epoch)}: its log ends at {self.copy.end} with "
                f"{self.copy.last}, but {top} is committed",
            )
        return self._give_up_after(self._last_committed(), epoch)

    def _note_unreadable(self, epoch: int, image: ClusterImage) -> str:
        """Note that the leader of `epoch` has an unreadable log; return a permitted loss: if it may
        lack committed records, it has those that its leader epochs show.
        """
        new = self.partition.history.leader_is_unreadable(epoch)
        if not new or epoch <= self.partition.judged_epoch:
            return ""
        top, kept = self.partition.history.last_committed(), self._last_shown()
        if top is kept or not self._may_lack(self.partition.unclean_by(epoch), image):
            return ""
        return self._give_up_after(kept, epoch)

    def _give_up_after(self, kept: Batch | None, epoch: int) -> str:
        count = self.partition.history.reset(kept, epoch)
        who = self._name(Role.LEADER, epoch)
        return f"{who}: {count} committed batches after {kept} are given up"

    def _may_lack(self, begun: int | None, image: ClusterImage) -> bool:
        """Whether the replica may lead without all committed records. `begun` is the unclean epoch
        that permits it, if there is one.
        """
        eligible = bool(image.features.get(ELIGIBLE_LEADER_REPLICAS_FEATURE))
        last_one = self.copy.lost_before is not None and not eligible
        # A replica whose log was set aside must not lead, unless any replica may. A tail that was
        # cut off where nothing was known to be on the disk looks like a power loss.
        anybody = begun is not None and not self.partition.unclean[begun]
        anybody = anybody or (last_one and self._may_be_unclean(image))
        return anybody or ((begun is not None or last_one) and not self.copy.set_aside)

    def _last_shown(self) -> Batch | None:
        """Return the last committed batch that the log has by its leader epochs, which decide what
        followers truncate.
        """
        log = self.replica.log
        for end, batch in sorted(self.partition.history.committed.items(), reverse=True):
            epoch, epoch_end = log.end_offset_for_epoch(Epoch(batch.epoch))
            if end <= log.start_offset or (epoch == batch.epoch and end <= epoch_end):
                return batch
        return None

    def _last_committed(self) -> Batch | None:
        committed, batch = self.partition.history.committed, self.copy.last
        while batch is not None and committed.get(batch.end) is not batch:
            batch = batch.before
        return batch

    def _check_commit(self, image: ClusterImage, *, settled: bool) -> None:
        move = self._last_move
        batch = self.copy.batches.get(move.to)
        who = self._name(Role.LEADER, move.epoch)
        if batch is None:
            if move.to != self.replica.log.start_offset:
                raise InvariantBroken(
                    "high-watermark-in-log",
                    f"{who}: its high watermark {move.to} is no batch's end",
                )
            return
        if len(move.isr) < move.min_isr:
            raise InvariantBroken(
                "commits-with-enough",
                f"{who}: it commits up to {move.to} with an ISR of {sorted(move.isr)}, "
                f"fewer than {move.min_isr}",
            )
        # The leader may have learnt of another ISR since then, from a newer image.
        settled = settled and move.isr == frozenset(self.replica.state.isr)
        for node in sorted(move.maximal_isr):
            copy = self.partition.copies.get(node)
            if copy is not None and (
                self._has(copy, batch) or self.partition.may_have_truncated(copy, move.epoch)
            ):
                continue
            excused = copy is not None and copy.lost_before is not None
            known = copy is None or (settled and node in move.isr and knows_of_loss(image, copy))
            if excused and not known:
                continue
            raise InvariantBroken(
                "isr-has-all-committed",
                f"{who}: it commits {batch} with an ISR of {sorted(move.isr)}, but "
                f"node {node} has {'nothing' if copy is None else _describe(copy)}",
            )
        self.partition.history.commit(batch, move.epoch, self._node)

    def _has(self, copy: Copy, batch: Batch) -> bool:
        """Whether the copy has the batch; if the topic asks for flushes, on its disk except for
        fewer than flush.messages records.
        """
        flush = self.replica.log.config.flush_messages
        asked = flush < NEVER_FLUSHED and not self.partition.flushes_otherwise
        promised = asked and copy.lost_before is None
        has = copy.has(batch) and (not promised or batch.end - copy.flushed < flush)
        return has or copy.unreadable

    def _label(self, state: PartitionState) -> str:
        return self._name(state.role, state.leader_epoch)

    def _name(self, role: Role, epoch: int) -> str:
        return f"{self.replica.partition}: node {self._node}, {role.value} in leader epoch {epoch}"


def _describe(copy: Copy) -> str:
    return f"a log that ends at {copy.end} with {copy.last}, on its disk up to {copy.flushed}"
