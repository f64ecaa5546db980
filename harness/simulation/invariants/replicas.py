"""One partition on one node, checked whenever its log or its state changed.

- log start <= high watermark <= log end.
- A leader epoch has one leader, and it has everything that leaders of earlier epochs committed
  (unless an election was unclean, and might be).
- A leader's high watermark never goes back within its epoch, does not move while the ISR is smaller
  than min.insync.replicas (KIP-966), and everything below it is in the log of every member of the
  maximal ISR (KIP-497); on the disk of each, as far as the topic asks for that (flush.messages).
- A follower takes for committed only what is.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.copies import Copy
from harness.simulation.invariants.images import Partition, knows_of_loss
from harness.simulation.invariants.ledger import Batch
from nodes.ids import NO_EPOCH, NO_NODE, NO_OFFSET
from nodes.metadata.image import ClusterImage
from nodes.metadata.records import ELIGIBLE_LEADER_REPLICAS_FEATURE
from nodes.replication.partition import PartitionState, Role
from nodes.server.replicas.replica import Replica

NEVER_FLUSHED: Final = 1 << 40
"""A flush.messages from which on it promises nothing."""


class Moved(NamedTuple):
    """How the high watermark got where it is."""

    to: int
    leading: bool
    epoch: int
    isr: frozenset[int]
    maximal_isr: frozenset[int]
    """With those who are proposed."""
    min_isr: int
    """The fewest that the ISR might have been."""


def _moved(state: PartitionState) -> Moved:
    proposed = () if state.proposal is None else (node for node, _ in state.proposal.isr)
    return Moved(
        state.high_watermark,
        state.role is Role.LEADER,
        state.leader_epoch,
        frozenset(state.isr),
        frozenset({*state.isr, *proposed}),
        state.min_isr,
    )


class Watched:
    """One Replica of one incarnation."""

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
        self._moved = _moved(replica.state)

    def noted(self) -> None:
        """The state has changed, and may change again before it is looked at: in one event a leader
        may be told of several ISRs, commit by one, and have a smaller one or be deposed in the end.
        """
        if self.replica.state.high_watermark != self._moved.to:
            self._moved = _moved(self.replica.state)

    def check(self, image: ClusterImage, *, settled: bool) -> str:
        """Look at what may have changed. `image` is the node's own, and `settled` tells that its
        roles are those of the image. What was permitted to be lost, in words.
        """
        state, log = self.replica.state, self.replica.log
        if not self.copy.unreadable and self._committed_before_its_end(state):
            self._check_commit(image, settled=settled)
        if state.role is Role.OFFLINE or self.copy.unreadable:
            self._role, self._high_watermark = Role.OFFLINE, state.high_watermark
            return ""
        if not log.start_offset <= state.high_watermark <= log.end_offset:
            raise InvariantBroken(
                "high-watermark-in-log",
                f"{self._who(state)}: its log is from {log.start_offset} to {log.end_offset}, and "
                f"its high watermark {state.high_watermark}",
            )
        excuse = ""
        before = self._high_watermark
        if (state.role, state.leader_epoch) != (self._role, self._epoch):
            excuse = self._check_role(state, image)
            if state.role is Role.LEADER:
                before = NO_OFFSET
                known = self.copy.batches.get(state.high_watermark)
                self.partition.ledger.regain(known, state.leader_epoch, self._node)
        if state.role is Role.LEADER:
            if state.high_watermark < before:
                raise InvariantBroken(
                    "high-watermark-rises",
                    f"{self._who(state)}: its high watermark goes back from {before} to "
                    f"{state.high_watermark}",
                )
            if state.high_watermark > max(before, self._high_watermark):
                self._check_commit(image, settled=settled)
        elif not self._moved.leading and 0 <= before < state.high_watermark > log.start_offset:
            batch = self.copy.batches.get(state.high_watermark)
            self.partition.ledger.told(self._node, state.high_watermark, batch, state.leader_epoch)
        self._high_watermark = state.high_watermark
        return excuse

    def _committed_before_its_end(self, state: PartitionState) -> bool:
        """Whether in this one event it committed, and then led that epoch no longer."""
        leads = state.role is Role.LEADER and state.leader_epoch == self._moved.epoch
        return self._moved.leading and self._moved.to > self._high_watermark and not leads

    def _check_role(self, state: PartitionState, image: ClusterImage) -> str:
        self._role, self._epoch = state.role, state.leader_epoch
        partition, epoch = self.partition, state.leader_epoch
        if state.leader != NO_NODE:
            partition.ledger.led(epoch, state.leader, self._node)
        top = partition.ledger.top(epoch)
        if state.role is not Role.LEADER:
            return ""
        begun = partition.unclean_by(epoch)
        unclean = begun is not None
        partition.judged_epoch = max(partition.judged_epoch, epoch)
        if top is None or self.copy.has(top):
            if unclean:
                partition.ledger.disregard_before(epoch)
            return ""
        eligible = bool(image.features.get(ELIGIBLE_LEADER_REPLICAS_FEATURE))
        last_one = self.copy.lost_before is not None and not eligible
        # Whose log was set aside must not lead, unless just anybody may; a tail that is cut off
        # where nothing was known to be on the disk looks as if power had been lost.
        anybody = begun is not None and not partition.unclean[begun]
        anybody = anybody or (last_one and self._may_be_unclean(image))
        if not (anybody or ((unclean or last_one) and not self.copy.set_aside)):
            raise InvariantBroken(
                "leader-has-all-committed",
                f"{self._who(state)}: its log ends at {self.copy.end} with {self.copy.last}, but "
                f"{top} is committed",
            )
        kept = self._last_committed()
        count = partition.ledger.reset(kept, epoch)
        return f"{self._who(state)}: {count} committed batches after {kept} are given up"

    def _last_committed(self) -> Batch | None:
        committed, batch = self.partition.ledger.committed, self.copy.last
        while batch is not None and committed.get(batch.end) is not batch:
            batch = batch.before
        return batch

    def _check_commit(self, image: ClusterImage, *, settled: bool) -> None:
        moved = self._moved
        batch = self.copy.batches.get(moved.to)
        who = self._name(Role.LEADER, moved.epoch)
        if batch is None:
            if moved.to != self.replica.log.start_offset:
                raise InvariantBroken(
                    "high-watermark-in-log",
                    f"{who}: its high watermark {moved.to} is no batch's end",
                )
            return
        if len(moved.isr) < moved.min_isr:
            raise InvariantBroken(
                "commits-with-enough",
                f"{who}: it commits up to {moved.to} with an ISR of {sorted(moved.isr)}, "
                f"fewer than {moved.min_isr}",
            )
        # It may have been told of another ISR since, by an image that knows more.
        settled = settled and moved.isr == frozenset(self.replica.state.isr)
        for node in sorted(moved.maximal_isr):
            copy = self.partition.copies.get(node)
            if copy is not None and self._has(copy, batch):
                continue
            excused = copy is not None and copy.lost_before is not None
            known = copy is None or (settled and node in moved.isr and knows_of_loss(image, copy))
            if excused and not known:
                continue
            raise InvariantBroken(
                "isr-has-all-committed",
                f"{who}: it commits {batch} with an ISR of {sorted(moved.isr)}, but "
                f"node {node} has {'nothing' if copy is None else _words(copy)}",
            )
        self.partition.ledger.commit(batch, moved.epoch, self._node)

    def _has(self, copy: Copy, batch: Batch) -> bool:
        """Also on the disk, but for less than flush.messages, if the topic asks for that."""
        flush = self.replica.log.config.flush_messages
        asked = flush < NEVER_FLUSHED and not self.partition.flushes_otherwise
        promised = asked and copy.lost_before is None
        has = copy.has(batch) and (not promised or batch.end - copy.flushed < flush)
        return has or copy.unreadable

    def _who(self, state: PartitionState) -> str:
        return self._name(state.role, state.leader_epoch)

    def _name(self, role: Role, epoch: int) -> str:
        return f"{self.replica.partition}: node {self._node}, {role.value} in leader epoch {epoch}"


def _words(copy: Copy) -> str:
    return f"a log that ends at {copy.end} with {copy.last}, on its disk up to {copy.flushed}"
