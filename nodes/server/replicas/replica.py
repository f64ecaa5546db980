"""One replica hosted by this node: its log, its replication state, and who waits for it.

Everything that moves the log's end or the high watermark goes through here, so that those who wait
(followers for new records, consumers and acks=all producers for committed ones) are always woken.

What a replica claims to have is the end of its log, unless the topic asks for flushes before
acknowledgements (`flush.messages`): then it is less than so many records above what is flushed. A
leader counts no more than that towards the high watermark, and a follower flushes before its next
fetch, whose offset is its claim. So with flush.messages=1 nothing is acknowledged, whatever the
acks, before it is on the disk of every replica that counts. Produces that wait share the fsyncs.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from uuid import UUID

from nodes.ids import NO_OFFSET, BrokerEpoch, Epoch, NodeId, Offset, TopicPartition
from nodes.log.config import LogConfig
from nodes.log.divergence import EpochEnd, truncation_offset
from nodes.log.errors import LogOffline, LogTruncated
from nodes.log.log import Appended, Log
from nodes.replication.partition import Ack, Assignment, IsrProposal, PartitionState, Role
from nodes.replication.progress import Pulse
from nodes.server.purgatory.delayed_produce import Acks
from nodes.server.purgatory.watchers import Watchers
from nodes.server.replicas.log_directory import Identity

log = logging.getLogger("nodes.replica")


@dataclass(slots=True)
class Replica:
    """See the module. `log` and `state` may be read by anyone, and are changed only here."""

    partition: TopicPartition
    topic_id: UUID
    log: Log
    state: PartitionState
    identity: Identity | None = None
    """Which topic the log belongs to, while that is not durable."""
    cutting: Callable[[Offset], None] = lambda end: None
    """Called before the log is cut, to that end at least; see `LogDirectory.cutting`."""
    watchers: Watchers = field(default_factory=Watchers)
    retired: bool = False
    """Whether the partition is no longer hosted here, or by another replica; for good."""
    _committing: Acks = field(default_factory=Acks)
    _flushing: Acks = field(default_factory=Acks)
    _flusher: "asyncio.Task[None] | None" = None

    @property
    def claimed_end(self) -> Offset:
        """The log end that this replica may claim to have; see the module."""
        log = self.log
        end, flushed = (
            log.end_offset,
            log.flushed_offset if self.identity is None else log.start_offset,
        )
        return end if end - flushed < self.log.config.flush_messages else flushed

    # -- the control plane's side --------------------------------------------------------------

    def configure(self, config: LogConfig, min_isr: int) -> None:
        """Follow the topic's configuration."""
        self.log.configure(config)
        self._demand(min_isr)
        self.advance()
        self.committed()

    def expire(self, now_wall_ms: int) -> int:
        """Let go what retention lets go; the number of segments. Raises LogOffline, OSError."""
        before = self.log.start_offset
        removed = self.log.expire(now_wall_ms, self.state.high_watermark)
        if self.log.start_offset != before:
            self.watchers.changed()
        return removed

    def advance_start(self, offset: Offset) -> None:
        """Records below `offset` are gone. Raises OffsetOutOfRange, LogOffline, OSError."""
        before = self.log.start_offset
        self.log.advance_start(offset)
        if self.log.start_offset != before:
            self.watchers.changed()

    def retire(self) -> None:
        """The partition is no longer hosted here: whoever waits for it is told so."""
        self.retired = True
        self.state.retire()
        self.watchers.changed()
        self.committed()
        if self._flusher is not None:
            self._flusher.cancel()

    def apply(self, assignment: Assignment, min_isr: int, now_ms: float) -> bool:
        """Follow the metadata log; true when the leader epoch or the role changed."""
        before, isr_before = self.state.high_watermark, self.state.isr
        changed = self.state.apply(assignment, self.log.end_offset, now_ms)
        self._demand(min_isr)
        if changed and self.state.role is Role.LEADER:
            self.log.assign_epoch(self.state.leader_epoch, self.log.end_offset)
        if changed or self.state.isr != isr_before:
            self.watchers.changed()
        self.advance()
        if changed or self.state.high_watermark != before:
            self.committed()
        return changed

    def _demand(self, min_isr: int) -> None:
        """Never more in-sync replicas than there are replicas: nothing forbids the larger setting,
        and it would stop all acks=all writes (Kafka's `Partition.effectiveMinIsr`, KIP-966).
        """
        self.state.min_isr = min(min_isr, len(self.state.replicas))

    def isr_answered(
        self, proposal: IsrProposal, isr: Iterable[NodeId] | None, partition_epoch: int
    ) -> None:
        """The controller committed `proposal` as `isr`, or (None) surely refused it."""
        end = self.claimed_end
        if isr is None:
            moved = self.state.isr_settled(proposal, end)
        else:
            moved = self.state.isr_accepted(proposal, isr, partition_epoch, end)
            self.watchers.changed()
        if moved or self.state.below_min_isr:
            self.committed()

    # -- the leader's side ---------------------------------------------------------------------

    def append(self, batch: bytes) -> Appended:
        """Append one producer's batch as the leader. Raises LogError."""
        self.state.leader_grows(self.claimed_end)
        if self.identity is not None:
            self._begin_identity()
        appended = self.log.append_as_leader(batch, self.state.leader_epoch)
        if not appended.duplicate:
            self.watchers.appended()
            self.advance()
        return appended

    def advance(self) -> None:
        """Commit what the in-sync replicas have; begin to flush what must be before it counts."""
        end = self.claimed_end
        if (end != self.log.end_offset or self.identity is not None) and self._flusher is None:
            self._flush_soon()
        if self.state.advance_high_watermark(end):
            self.committed()

    def _begin_identity(self) -> None:
        if self.identity is not None and self.log.end_offset == self.log.start_offset:
            self.identity.write()

    def close(self) -> None:
        """Before the log is closed: make durable which topic it belongs to. Blocks."""
        has_records = self.log.end_offset > self.log.start_offset
        if self.identity is not None and has_records and not self.log.offline:
            with self.log.health.failing():
                self.identity.sync_now()

    def _flush_soon(self) -> None:
        if self.log.end_offset > self.log.start_offset:
            self._flusher = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        try:
            if self.identity is not None:
                with self.log.health.failing():
                    await self.identity.sync()
                self.identity = None
            while self.claimed_end != self.log.end_offset:
                with contextlib.suppress(LogTruncated):  # there is another end to flush to
                    await self.log.durable(self.log.end_offset)
                if self._flushing:
                    self._flushing.settle(self._judge_flushed)
                if self.state.advance_high_watermark(self.claimed_end):
                    self.committed()
        except (LogOffline, OSError) as error:  # the node is about to stop for it
            log.error("%s: cannot flush: %s", self.partition, error)
        finally:
            self._flusher = None

    def record_fetch(
        self,
        replica: NodeId,
        offset: Offset,
        broker_epoch: BrokerEpoch,
        now_ms: float,
        *,
        log_start: Offset = NO_OFFSET,
        pulse: Pulse | None = None,
    ) -> None:
        """A follower fetched at `offset`; wakes producers and consumers if that commits records."""
        end = self.claimed_end
        if self.state.record_fetch(
            replica, offset, broker_epoch, end, now_ms, log_start=log_start, pulse=pulse
        ):
            self.committed()

    def acknowledge(self, required: Offset, acks: int) -> "Ack | asyncio.Future[Ack]":
        """The answer to a produce (acks 1 or -1) that was appended below `required` just now."""
        epoch = self.state.leader_epoch
        waits, judge = (
            (self._committing, self._judge_committed)
            if acks == -1
            else (self._flushing, self._judge_flushed)
        )
        ack = judge(epoch, required)
        return ack if ack is not Ack.WAIT else waits.wait(epoch, required)

    def forget(self, future: "asyncio.Future[Ack]") -> None:
        """Nobody waits any more for this answer of `acknowledge`."""
        self._committing.forget(future)
        self._flushing.forget(future)

    def committed(self) -> None:
        """The high watermark, the ISR or the role may have changed: answer whom that concerns."""
        self.watchers.committed()
        if self._committing:
            self._committing.settle(self._judge_committed)
        if self._flushing:
            self._flushing.settle(self._judge_flushed)

    def _judge_committed(self, leader_epoch: Epoch, required: Offset) -> Ack:
        return self.state.acknowledge(leader_epoch, required, self.claimed_end)

    def _judge_flushed(self, leader_epoch: Epoch, required: Offset) -> Ack:
        if self.state.role is not Role.LEADER or leader_epoch != self.state.leader_epoch:
            return Ack.NOT_LEADER
        return Ack.DONE if self.claimed_end >= required else Ack.WAIT

    # -- the follower's side -------------------------------------------------------------------

    def append_fetched(self, batches: bytes, leader_hw: Offset) -> None:
        """Append what the leader sent, byte for byte, and learn its high watermark."""
        if batches:
            if self.identity is not None:
                self._begin_identity()
            self.log.append_as_follower(batches)
            self.advance()
        if self.state.follow_high_watermark(leader_hw, self.log.end_offset):
            self.watchers.committed()

    def follow_log_start(self, leader_start: Offset) -> bool:
        """Records below the leader's log start are gone here too; true when that is news."""
        start = min(leader_start, self.log.end_offset)
        if start <= self.log.start_offset:
            return False
        self.log.advance_start(start)
        self.state.log_starts_at(start)
        self.watchers.changed()
        return True

    def restart_at(self, leader_start: Offset) -> None:
        """Give up a log that the leader's has moved past, and begin where the leader's does."""
        log.info("%s: begins anew at the leader's log start %d", self.partition, leader_start)
        self.cutting(min(self.log.start_offset, leader_start))
        self.log.truncate_fully(leader_start)
        self.state.truncated(leader_start)
        self.state.log_starts_at(leader_start)
        self.watchers.changed()

    async def flush_before_claim(self) -> None:
        """Return when the log's end is one that a fetch may claim, or never will be."""
        while self._flusher is not None and self.claimed_end != self.log.end_offset:
            await asyncio.wait([self._flusher])

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
        self.cutting(self.log.end_before(offset))
        self.log.truncate_to(offset)
        self.state.truncated(self.log.end_offset)
