"""One replica hosted by this node: its log, its replication state, and who waits for it.

Everything that moves the log's end or the high watermark goes through here, so that those who wait
(followers for new records, consumers and acks=all producers for committed ones) are always woken.
"""

import asyncio
import logging
from dataclasses import dataclass, field
from uuid import UUID

from nodes.ids import BrokerEpoch, Epoch, NodeId, Offset, TopicPartition
from nodes.log.divergence import EpochEnd, truncation_offset
from nodes.log.log import Appended, Log
from nodes.replication.partition import Ack, Assignment, PartitionState, Role

log = logging.getLogger("nodes.replica")


class Wakeup:
    """A one-shot signal that a long poll waits for; it may be registered with many replicas."""

    __slots__ = ("future",)

    def __init__(self) -> None:
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def fire(self) -> None:
        """Wake the waiter; more than once does nothing."""
        if not self.future.done():
            self.future.set_result(None)


@dataclass(slots=True)
class _PendingAck:
    leader_epoch: Epoch
    required: Offset
    future: "asyncio.Future[Ack]"


@dataclass(slots=True)
class Replica:
    """See the module. `log` and `state` may be read by anyone, and are changed only here."""

    partition: TopicPartition
    topic_id: UUID
    log: Log
    state: PartitionState
    _on_append: dict[Wakeup, None] = field(default_factory=dict)
    _on_commit: dict[Wakeup, None] = field(default_factory=dict)
    _pending: list[_PendingAck] = field(default_factory=list)

    # -- the control plane's side --------------------------------------------------------------

    def apply(self, assignment: Assignment, min_isr: int, now_ms: float) -> bool:
        """Follow the metadata log; true when the leader epoch or the role changed."""
        before = self.state.high_watermark
        self.state.min_isr = min_isr
        changed = self.state.apply(assignment, self.log.end_offset, now_ms)
        if changed and self.state.role is Role.LEADER:
            self.log.assign_epoch(self.state.leader_epoch, self.log.end_offset)
        if changed:
            self._wake(self._on_append)
        if changed or self.state.high_watermark != before:
            self.committed()
        return changed

    # -- the leader's side ---------------------------------------------------------------------

    def append(self, batch: bytes) -> Appended:
        """Append one producer's batch as the leader. Raises LogError."""
        appended = self.log.append_as_leader(batch, self.state.leader_epoch)
        if not appended.duplicate:
            self._wake(self._on_append)
            if self.state.advance_high_watermark(self.log.end_offset):
                self.committed()
        return appended

    def record_fetch(
        self, replica: NodeId, offset: Offset, broker_epoch: BrokerEpoch, now_ms: float
    ) -> None:
        """A follower fetched at `offset`; wakes producers and consumers if that commits records."""
        if self.state.record_fetch(replica, offset, broker_epoch, self.log.end_offset, now_ms):
            self.committed()

    def acknowledge(self, leader_epoch: Epoch, required: Offset) -> "Ack | asyncio.Future[Ack]":
        """The answer to an acks=all produce, now or when it is known."""
        ack = self.state.acknowledge(leader_epoch, required, self.log.end_offset)
        if ack is not Ack.WAIT:
            return ack
        future: asyncio.Future[Ack] = asyncio.get_running_loop().create_future()
        self._pending.append(_PendingAck(leader_epoch, required, future))
        return future

    def committed(self) -> None:
        """The high watermark or the ISR may have moved: answer whom that concerns."""
        self._wake(self._on_commit)
        if not self._pending:
            return
        still: list[_PendingAck] = []
        end = self.log.end_offset
        for pending in self._pending:
            ack = self.state.acknowledge(pending.leader_epoch, pending.required, end)
            if ack is Ack.WAIT and not pending.future.done():
                still.append(pending)
            elif not pending.future.done():
                pending.future.set_result(ack)
        self._pending = still

    # -- the follower's side -------------------------------------------------------------------

    def append_fetched(self, batches: bytes, leader_hw: Offset) -> None:
        """Append what the leader sent, byte for byte, and learn its high watermark."""
        if batches:
            self.log.append_as_follower(batches)
        if self.state.follow_high_watermark(leader_hw, self.log.end_offset):
            self._wake(self._on_commit)

    def truncate(self, told: EpochEnd) -> None:
        """Cut the log where it departs from the leader's."""
        end = self.log.end_offset
        offset = truncation_offset(self.log, told)
        log.info(
            "truncating %s from %d to %d: the leader ended epoch %d at %d (leader epoch %d)",
            self.partition,
            end,
            offset,
            told.epoch,
            told.end_offset,
            self.state.leader_epoch,
        )
        self.log.truncate_to(offset)
        self.state.truncated(self.log.end_offset)

    # -- waiting -------------------------------------------------------------------------------

    def watch(self, wakeup: Wakeup, *, commits: bool) -> None:
        """Fire `wakeup` when records are appended, or with `commits` when records are committed."""
        (self._on_commit if commits else self._on_append)[wakeup] = None

    def unwatch(self, wakeup: Wakeup) -> None:
        """Forget `wakeup`."""
        self._on_append.pop(wakeup, None)
        self._on_commit.pop(wakeup, None)

    @staticmethod
    def _wake(waiting: dict[Wakeup, None]) -> None:
        for wakeup in waiting:
            wakeup.fire()
        waiting.clear()
