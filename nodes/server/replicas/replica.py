"""One replica hosted by this node: its log, its replication state, and the requests that wait.

Every change of the log end offset or of the high watermark goes through here. So the requests that
wait are always completed: followers wait for new records, consumers and acks=all producers wait for
committed ones.

The claimed end is the log end that a replica may report. It is the end of its log, unless the topic
asks for flushes before acknowledgements (`flush.messages`): then fewer than that many records of
the claim may be unflushed. A leader counts only its claimed end towards the high watermark. A
follower flushes before its next fetch, because the fetch offset is its claim. So with
flush.messages=1 nothing is acknowledged, whatever the acks, before it is on the disk of every
replica that counts. Produces that wait share the fsyncs.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from uuid import UUID

from nodes.ids import NO_OFFSET, BrokerEpoch, Epoch, NodeId, Offset, TopicPartition
from nodes.log.batch import HEADER_BYTES, read_header
from nodes.log.config import LogConfig
from nodes.log.divergence import EpochEnd, truncation_offset
from nodes.log.errors import LogOffline, LogTruncated
from nodes.log.log import Log, LogAppendInfo
from nodes.log.transactions.markers import Marker
from nodes.log.transactions.verification import VerificationGuard
from nodes.replication.partition import (
    IsrProposal,
    PartitionRegistration,
    PartitionState,
    ProduceStatus,
    Role,
)
from nodes.replication.progress import SessionActivity
from nodes.server.purgatory.delayed_produce import ProducePurgatory
from nodes.server.purgatory.watchers import Watchers
from nodes.server.replicas.log_directory import PartitionMetadataFile

log = logging.getLogger("nodes.replica")


@dataclass(slots=True)
class Replica:
    """See the module. Everybody may read `log` and `state`; only this class changes them."""

    partition: TopicPartition
    topic_id: UUID
    log: Log
    state: PartitionState
    unsynced_metadata: PartitionMetadataFile | None = None
    """The log's partition.metadata file while it is not durable; None once it is."""
    before_truncation: Callable[[Offset], None] = lambda end: None
    """Called before the log is truncated to `end` or above (`LogDirectory.before_truncation`)."""
    on_marker: Callable[[Marker, Offset], None] = lambda marker, offset: None
    """Called by the leader right after each append of a marker, at this offset, which may not be
    committed yet. Nothing was appended in between, so the order of the log is kept. May append."""
    watchers: Watchers = field(default_factory=Watchers)
    retired: bool = False
    """Whether this replica was removed from the node, or replaced by another; never undone."""
    _awaiting_commit: ProducePurgatory = field(default_factory=ProducePurgatory)
    _awaiting_flush: ProducePurgatory = field(default_factory=ProducePurgatory)
    _flush_task: "asyncio.Task[None] | None" = None

    @property
    def claimed_end(self) -> Offset:
        """The log end offset that this replica may report; see the module."""
        log = self.log
        end, flushed = (
            log.end_offset,
            log.flushed_offset if self.unsynced_metadata is None else log.start_offset,
        )
        return end if end - flushed < self.log.config.flush_messages else flushed

    @property
    def last_stable_offset(self) -> Offset:
        """LSO: the end of what consumers with isolation.level=read_committed may read."""
        return self.log.last_stable_offset(self.state.high_watermark)

    @property
    def decided_offset(self) -> Offset:
        """The end of what may be cleaned; see `Log.decided_offset`."""
        return self.log.decided_offset(self.state.high_watermark)

    # -- following the metadata log ------------------------------------------------------------

    def configure(self, config: LogConfig, min_isr: int) -> None:
        """Apply the topic's configuration."""
        self.log.configure(config)
        self._set_min_isr(min_isr)
        self.advance()
        self.committed()

    def expire(self, now_wall_ms: int) -> int:
        """Delete the segments that retention allows; return their number.

        Raises LogOffline, OSError.
        """
        before = self.log.start_offset
        removed = self.log.expire(now_wall_ms, self.state.high_watermark)
        if self.log.start_offset != before:
            self.watchers.changed()
        return removed

    def advance_start(self, offset: Offset) -> None:
        """Delete the records below `offset`. Raises OffsetOutOfRange, LogOffline, OSError."""
        before = self.log.start_offset
        self.log.advance_start(offset)
        if self.log.start_offset != before:
            self.watchers.changed()

    def retire(self) -> None:
        """This node no longer hosts the replica: complete every request that waits for it."""
        self.retired = True
        self.state.retire()
        self.watchers.changed()
        self.committed()
        if self._flush_task is not None:
            self._flush_task.cancel()

    def apply(self, assignment: PartitionRegistration, min_isr: int, now_ms: float) -> bool:
        """Apply a state from the metadata log; true if the leader epoch or the role changed."""
        before, isr_before = self.state.high_watermark, self.state.isr
        changed = self.state.apply(assignment, self.log.end_offset, now_ms)
        self._set_min_isr(min_isr)
        if changed and self.state.role is Role.LEADER:
            self.log.assign_epoch(self.state.leader_epoch, self.log.end_offset)
        if changed or self.state.isr != isr_before:
            self.watchers.changed()
        self.advance()
        if changed or self.state.high_watermark != before:
            self.committed()
        return changed

    def _set_min_isr(self, min_isr: int) -> None:
        """Set min.insync.replicas, but not above the number of replicas.

        A larger setting is allowed, and it would stop all acks=all writes (Kafka's
        `Partition.effectiveMinIsr`, KIP-966).
        """
        self.state.min_isr = min(min_isr, len(self.state.replicas))

    def isr_change_completed(
        self, proposal: IsrProposal, isr: Iterable[NodeId] | None, partition_epoch: int
    ) -> None:
        """The controller committed `proposal` as `isr`, or surely refused it (None)."""
        end = self.claimed_end
        if isr is None:
            moved = self.state.isr_settled(proposal, end)
        else:
            moved = self.state.isr_accepted(proposal, isr, partition_epoch, end)
            self.watchers.changed()
        if moved or self.state.below_min_isr:
            self.committed()

    # -- the leader's side ---------------------------------------------------------------------

    def append(
        self,
        batch: bytes,
        *,
        guard: VerificationGuard | None = None,
        from_coordinator: bool = False,
    ) -> LogAppendInfo:
        """Append one producer's batch as the leader; see `Log.append_as_leader`. Raises LogError,
        OSError.
        """
        self.state.before_append(self.claimed_end)
        if self.unsynced_metadata is not None:
            self._write_metadata_file()
        appended = self.log.append_as_leader(
            batch, self.state.leader_epoch, guard=guard, from_coordinator=from_coordinator
        )
        if not appended.duplicate:
            self.watchers.appended()
            self.advance()
        return appended

    def append_marker(
        self, marker: Marker, now_wall_ms: int, *, transaction_version: int
    ) -> LogAppendInfo:
        """Append the end of a transaction as the leader; see `Log.append_marker`, and `on_marker`.

        Raises LogError, OSError.
        """
        self.state.before_append(self.claimed_end)
        if self.unsynced_metadata is not None:
            self._write_metadata_file()
        appended = self.log.append_marker(
            marker, self.state.leader_epoch, now_wall_ms, transaction_version=transaction_version
        )
        self.on_marker(marker, appended.base_offset)
        self.watchers.appended()
        self.advance()
        return appended

    def advance(self) -> None:
        """Advance the high watermark to what the in-sync replicas have.

        Also start to flush the records that do not count before they are flushed.
        """
        end = self.claimed_end
        unsynced = self.unsynced_metadata is not None
        if (end != self.log.end_offset or unsynced) and self._flush_task is None:
            self._start_flush()
        if self.state.advance_high_watermark(end):
            self.committed()

    def _write_metadata_file(self) -> None:
        if self.unsynced_metadata is not None and self.log.end_offset == self.log.start_offset:
            self.unsynced_metadata.write()

    def _sync_metadata_file(self) -> None:
        """Make the topic's id durable, also of an empty log. Blocks. Raises OSError.

        An empty log that begins above 0 is none for another topic of the same name.
        """
        if self.unsynced_metadata is not None:
            with self.log.health.failing():
                self.unsynced_metadata.write()
                self.unsynced_metadata.sync_now()
            self.unsynced_metadata = None

    def close(self) -> None:
        """Make the partition.metadata file durable; called before the log is closed. Blocks."""
        has_records = self.log.end_offset > self.log.start_offset
        if self.unsynced_metadata is not None and has_records and not self.log.offline:
            with self.log.health.failing():
                self.unsynced_metadata.sync_now()

    def _start_flush(self) -> None:
        if self.log.end_offset > self.log.start_offset:
            self._flush_task = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        try:
            if self.unsynced_metadata is not None:
                with self.log.health.failing():
                    await self.unsynced_metadata.sync()
                self.unsynced_metadata = None
            while self.claimed_end != self.log.end_offset:
                with contextlib.suppress(LogTruncated):  # the log has another end to flush now
                    await self.log.durable(self.log.end_offset)
                if self._awaiting_flush:
                    self._awaiting_flush.check_and_complete(self._ack_of_flushed)
                if self.state.advance_high_watermark(self.claimed_end):
                    self.committed()
        except (LogOffline, OSError) as error:  # the node is about to stop because of it
            log.error("%s: cannot flush: %s", self.partition, error)
        finally:
            self._flush_task = None

    def record_fetch(
        self,
        replica: NodeId,
        offset: Offset,
        broker_epoch: BrokerEpoch,
        now_ms: float,
        *,
        log_start: Offset = NO_OFFSET,
        activity: SessionActivity | None = None,
    ) -> None:
        """Record that a follower fetched at `offset`; this may commit records."""
        end = self.claimed_end
        if self.state.record_fetch(
            replica, offset, broker_epoch, end, now_ms, log_start=log_start, activity=activity
        ):
            self.committed()

    def acknowledge(
        self, required: Offset, acks: int
    ) -> "ProduceStatus | asyncio.Future[ProduceStatus]":
        """Return the ack of a produce (acks 1 or -1) that was just appended below `required`.

        If it has to wait, return a future of the ack.
        """
        epoch = self.state.leader_epoch
        purgatory, ack_of = (
            (self._awaiting_commit, self._ack_of_committed)
            if acks == -1
            else (self._awaiting_flush, self._ack_of_flushed)
        )
        ack = ack_of(epoch, required)
        return ack if ack is not ProduceStatus.PENDING else purgatory.add(epoch, required)

    def stop_waiting(self, future: "asyncio.Future[ProduceStatus]") -> None:
        """Nobody waits any more for this future of `acknowledge`."""
        self._awaiting_commit.remove(future)
        self._awaiting_flush.remove(future)

    def committed(self) -> None:
        """The high watermark, the ISR or the role may have changed: complete what waited for it."""
        self.watchers.committed()
        if self._awaiting_commit:
            self._awaiting_commit.check_and_complete(self._ack_of_committed)
        if self._awaiting_flush:
            self._awaiting_flush.check_and_complete(self._ack_of_flushed)

    def _ack_of_committed(self, leader_epoch: Epoch, required: Offset) -> ProduceStatus:
        return self.state.acknowledge(leader_epoch, required, self.claimed_end)

    def _ack_of_flushed(self, leader_epoch: Epoch, required: Offset) -> ProduceStatus:
        if self.state.role is not Role.LEADER or leader_epoch != self.state.leader_epoch:
            return ProduceStatus.NOT_LEADER
        return ProduceStatus.OK if self.claimed_end >= required else ProduceStatus.PENDING

    # -- the follower's side -------------------------------------------------------------------

    def begin_with(self, batches: bytes) -> bool:
        """Let an empty log that begins inside of the leader's first batch begin with that batch;
        true if it did not before.

        A leader's log may begin inside of a batch, after DeleteRecords. Kafka's followers do the
        same (Partition.appendRecordsToFollowerOrFutureReplica). `follow_log_start` moves the start
        again, after the append.
        """
        start = self.log.start_offset
        if start != self.log.end_offset or len(batches) < HEADER_BYTES:
            return False
        first = read_header(batches)
        if not first.base_offset < start <= first.last_offset:
            return False
        self.truncate_fully_and_start_at(first.base_offset)
        return True

    def append_fetched(self, batches: bytes, leader_hw: Offset) -> None:
        """Append the leader's batches byte for byte, and follow its high watermark."""
        if batches:
            if self.unsynced_metadata is not None:
                self._write_metadata_file()
            self.log.append_as_follower(batches)
            self.advance()
        if self.state.follow_high_watermark(leader_hw, self.log.end_offset):
            self.watchers.committed()

    def follow_log_start(self, leader_start: Offset) -> bool:
        """Delete the records below the leader's log start here too; true if there were any."""
        start = min(leader_start, self.log.end_offset)
        if start <= self.log.start_offset:
            return False
        self.log.advance_start(start)
        self.state.log_start_changed(start)
        self.watchers.changed()
        return True

    def truncate_fully_and_start_at(self, leader_start: Offset) -> None:
        """Discard the whole log and start at the leader's log start (as the function in Kafka).

        Called when the leader's log starts above the end of this one.
        """
        log.info("%s: restarts at the leader's log start %d", self.partition, leader_start)
        self._sync_metadata_file()
        self.before_truncation(min(self.log.start_offset, leader_start))
        self.log.truncate_fully(leader_start)
        self.state.truncated(leader_start)
        self.state.log_start_changed(leader_start)
        self.watchers.changed()

    async def flush_before_claim(self) -> None:
        """Return when a fetch may claim the log's end, or when that will never be so."""
        while self._flush_task is not None and self.claimed_end != self.log.end_offset:
            await asyncio.wait([self._flush_task])

    def truncate(self, leader_epoch_end: EpochEnd) -> None:
        """Truncate the log to where it diverges from the leader's.

        `leader_epoch_end` is the end of the follower's last epoch in the leader's log.
        """
        end = self.log.end_offset
        offset = truncation_offset(self.log, leader_epoch_end)
        log.info(
            "truncating %s from %d to %d: the leader ended epoch %d at %d (leader epoch %d)",
            self.partition,
            end,
            offset,
            leader_epoch_end.epoch,
            leader_epoch_end.end_offset,
            self.state.leader_epoch,
        )
        self.before_truncation(self.log.end_before(offset))
        self.log.truncate_to(offset)
        self.state.truncated(self.log.end_offset)
