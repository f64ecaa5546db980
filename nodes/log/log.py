"""A partition's log (or the metadata log): record batches in order, in segment files.

Guarantees: the batches' offsets have no gap, also after compaction (`nodes.log.cleaning`); leader
epochs never go back; an append is readable at once and survives the death of the process; below
`flushed_offset` it survives a power loss. A batch is checked by its header and CRC; only those of
compacted logs, and of logs with a codec of their own, are decompressed. After a failed write or
sync the log refuses every further change (KAFKA-10778).

The caller keeps the high watermark, and decides who may append, and when to flush, expire and
sweep. It persists `flushed_offset` as the recovery point and `start_offset` as the log start. Both
may lag behind the log, but must not be ahead of it. So it lowers the recovery point before a
truncation, and both after it, before the next append; also when a log opens with a lower
`flushed_offset` than persisted. An advanced start survives a power loss only when persisted.
"""

from collections.abc import Sequence

from nodes.ids import Epoch, Offset
from nodes.log import deletion, retention
from nodes.log.appending import (
    LogAppendInfo,
    batches_that_fit,
    from_end_of_log,
    is_full,
    validate_fetched,
    validate_produced,
)
from nodes.log.batch import CONTROL_BIT, BatchHeader, patch, read_header
from nodes.log.config import LogConfig
from nodes.log.errors import OffsetOutOfRange
from nodes.log.flushing import Flusher
from nodes.log.health import Health
from nodes.log.reading import LogReader
from nodes.log.recompression import recompressed
from nodes.log.recovery import Loaded, Recovery, load
from nodes.log.transactions.markers import Marker, encode_marker, marker_in
from nodes.log.transactions.verification import VerificationGuard
from nodes.storage.disk import Disk

__all__ = ["Log", "LogAppendInfo", "LogConfig"]

FIRST_OFFSET = Offset(0)
MAX_REMOVED_SEGMENTS = 32
"""The most segments that one call removes: each removal waits for the disk and blocks the loop."""


class Log(LogReader):
    """One replica's log. Only for coroutines of one event loop, not for several threads."""

    def __init__(self, disk: Disk, directory: str, config: LogConfig, loaded: Loaded) -> None:
        """Use `Log.open`."""
        super().__init__(loaded)
        self.config = config
        self.recovery: Recovery = loaded.recovery
        self._disk = disk
        self._directory = directory
        self._epoch_file = loaded.epoch_file
        self.segments = self._segments
        """For the log cleaner, as `snapshots`; everybody else uses the methods."""
        self.snapshots = self._producer_state.snapshots
        self.health = Health(directory)
        self._flusher = Flusher(
            disk, self._segments, self._epoch_file, self.health, self._segments.active.next_offset
        )

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        config: LogConfig,
        *,
        clean: bool,
        recovery_point: Offset = FIRST_OFFSET,
        log_start: Offset = FIRST_OFFSET,
    ) -> "Log":
        """Open the log in `directory`; create it if it is missing.

        `clean`: the node closed it cleanly. Otherwise everything from `recovery_point` (up to which
        it was flushed) is validated, and a torn tail is removed; see `recovery`. Records below
        `log_start` are deleted. Blocks. Raises LogCorrupt, and the disk's OSError.
        """
        loaded = load(
            disk,
            directory,
            index_interval_bytes=config.index_interval_bytes,
            clean=clean,
            recovery_point=recovery_point,
            log_start=log_start,
        )
        log = cls(disk, directory, config, loaded)
        log._settle(clean=loaded.clean, recovery_point=recovery_point)
        return log

    def _settle(self, *, clean: bool, recovery_point: Offset) -> None:
        """Update the epochs' file; after a crash, make everything durable.

        Data that a dead process left in the page cache may never reach the disk, not even by sync.
        """
        dirty = not clean and (self.end_offset > recovery_point or self.recovery.cut_at is not None)
        died = not clean and bool(self._epochs.entries)
        if died or not self._epoch_file.says(self._epochs.entries):
            self._write_epochs()
        if not clean or not self.end_offset:  # an empty log is closed without a sync
            self._segments.all_names_changed()
        if dirty:
            self._flusher.flushed = min(recovery_point, self.start_offset)
            self._flusher.now()
        if not clean:  # a truncation or removal by the killed process may not be on disk
            self._segments.active.file.sync()
            self._disk.sync_dir(self._directory)
            self._flusher.sync_indexes(self._segments.sealed)  # what the opening repaired

    def configure(self, config: LogConfig) -> None:
        """Use `config` from now on; stored data does not change."""
        self.config = config
        self._segments.active.interval = config.index_interval_bytes

    @property
    def offline(self) -> str:
        """Why the log refuses appends; empty while it accepts them. Such a node is not clean."""
        return self.health.offline

    @property
    def flushed_offset(self) -> Offset:
        """Everything below is on disk."""
        return self._flusher.flushed

    # --- appending

    def assign_epoch(self, epoch: Epoch, start_offset: Offset) -> None:
        """Begin a leader epoch at the log's end, on becoming leader, before any append in it.

        Without it the log could not answer a follower that asks about an epoch between the last
        record's and this one. Raises EpochRegression, LogOffline, OSError.
        """
        assert start_offset == self.end_offset, "an epoch begins with the next record"
        self.health.check()
        if self._epochs.assign(epoch, start_offset):
            self._write_epochs()

    def append_as_leader(
        self,
        batches: bytes,
        leader_epoch: Epoch,
        *,
        guard: VerificationGuard | None = None,
        from_coordinator: bool = False,
    ) -> LogAppendInfo:
        """Append one batch of a producer; assign the log's end as its offset, and the epoch.

        `guard`: of `Producers.start_verification`. `from_coordinator`: a group coordinator may
        write for a producer without a sequence. Raises CorruptBatch, InvalidBatch, MessageTooLarge,
        OutOfOrderSequence, InvalidProducerEpoch, InvalidTransactionState, EpochRegression: nothing
        was appended. LogOffline and OSError: it may have been.
        """
        if self.health.offline:
            self.health.check()
        header = validate_produced(batches, self.config, from_coordinator)
        if not from_coordinator:
            batches, header = recompressed(batches, header, self.config)
        if header.producer_id >= 0:
            first = self.producers.check(header, self._remembers_all, guard)
            if first is not None:
                return LogAppendInfo(first.base_offset, first.last_offset, True)
        appended = self._append(batches, header, leader_epoch)
        self.producers.update(header, appended.base_offset)
        return appended

    def _remembers_all(self, header: BatchHeader) -> bool:
        expiration_ms = self.config.producer_expiration_ms
        return self._producer_state.remembers_all(header, self._start, expiration_ms)

    def append_marker(
        self, marker: Marker, leader_epoch: Epoch, timestamp_ms: int, *, transaction_version: int
    ) -> LogAppendInfo:
        """Append the end of a transaction; `timestamp_ms` is the wall clock.

        Raises InvalidProducerEpoch, CoordinatorFenced, EpochRegression: nothing was appended.
        LogOffline and OSError: it may have been.
        """
        self.health.check()
        self.producers.check_marker(marker, transaction_version)
        batch = encode_marker(marker, timestamp_ms)
        header = read_header(batch)
        appended = self._append(batch, header, leader_epoch)
        with self.health.failing():
            self._producer_state.end_transaction(header, appended.base_offset, marker)
        return appended

    def _append(self, batch: bytes, header: BatchHeader, leader_epoch: Epoch) -> LogAppendInfo:
        if leader_epoch != self._epochs.latest:
            self.assign_epoch(leader_epoch, self.end_offset)
        if is_full(self._segments.active, header, self.config):
            self._roll()
        active = self._segments.active
        base_offset = active.next_offset
        last_offset = Offset(base_offset + header.last_offset_delta)
        data = bytearray(batch)
        patch(data, 0, base_offset=base_offset, leader_epoch=leader_epoch)
        self._write(data)
        active.add_batch(base_offset, last_offset, len(data), header.max_timestamp)
        return LogAppendInfo(base_offset, last_offset, False)

    def append_as_follower(self, batches: bytes) -> LogAppendInfo:
        """Append the leader's batches byte for byte, without an incomplete last batch. Only a
        filler of the log cleaner may be shortened, if the log has a part of its offsets.

        Raises CorruptBatch, OffsetGap, EpochRegression before anything is appended; LogOffline
        and OSError when some may have been.
        """
        self.health.check()
        base_offset = self.end_offset
        batches = from_end_of_log(batches, base_offset)
        whole = validate_fetched(batches, base_offset, self.last_epoch)
        view = memoryview(batches)
        start = 0
        while start < len(whole):
            start = self._append_run(view, whole, start)
        return LogAppendInfo(base_offset, Offset(self.end_offset - 1), False)

    def _append_run(
        self, view: memoryview, whole: Sequence[tuple[int, BatchHeader]], start: int
    ) -> int:
        """Append the batches from number `start` on that fit into one segment; return the next."""
        first, header = whole[start]
        if is_full(self._segments.active, header, self.config):
            self._roll()
        active = self._segments.active
        stop, end = batches_that_fit(whole, start, active, self.config)
        changed = False
        for _, header in whole[start:stop]:
            if header.partition_leader_epoch != self._epochs.latest:
                changed |= self._epochs.assign(header.partition_leader_epoch, header.base_offset)
        if changed:
            self._write_epochs()
        self._write(view[first:end])
        for pos, header in whole[start:stop]:
            active.add_batch(
                header.base_offset, header.last_offset, header.size, header.max_timestamp
            )
            marker = marker_in(view, pos) if header.attributes & CONTROL_BIT else None
            if marker is None:
                self.producers.update(header, header.base_offset)
            else:
                with self.health.failing():
                    self._producer_state.end_transaction(header, header.base_offset, marker)
        return stop

    def _roll(self) -> None:
        """Seal the active segment, write a producer snapshot, and begin the next segment.

        Existing file names become durable first: a log that lost its first file would look like one
        whose start was deleted.
        """
        with self.health.failing():
            self._segments.active.seal()
            self._producer_state.write_snapshot(self.end_offset)
            self._segments.begin(self.end_offset)

    def _write(self, data: bytes | bytearray | memoryview) -> None:
        try:  # not `failing`, which costs as much as the rest of an append's bookkeeping
            self._segments.active.append(data)
        except OSError as error:
            self.health.fail(error)
            raise

    def _write_epochs(self) -> None:
        with self.health.failing():
            self._epoch_file.write(self._epochs.entries)
            self._segments.names_changed()

    # --- truncating the end

    def end_before(self, offset: Offset) -> Offset:
        """The log's end after `truncate_to(offset)`, which removes whole batches."""
        if not self._start <= offset < self.end_offset:
            return min(offset, self.end_offset)
        return self._segments.end_before(offset)

    def truncate_to(self, offset: Offset) -> Offset:
        """Remove the batch that contains `offset` and all after it; return the new end of the log.

        Blocks until the truncation is on disk: otherwise the old tail could reappear after later
        appends. Below the log's start it is `truncate_fully`. Raises LogOffline, OSError.
        """
        self.health.check()
        if offset < self._start:
            self.truncate_fully(offset)
            return offset
        if offset >= self.end_offset:
            if self._epochs.truncate_from_end(offset):
                self._write_epochs()
            return self.end_offset
        end = self.end_before(offset)
        self._flusher.flushed = min(self.flushed_offset, end)
        with self.health.failing():
            # First, and synced with the names: a snapshot must not outlive its records.
            if self._producer_state.snapshots.remove_above(offset):
                self._segments.names_changed()
            self._segments.cut(offset)
        self._start = min(self._start, end)
        if self._epochs.truncate_from_end(end):
            self._write_epochs()
        self._producer_state.truncated(end)
        return end

    def truncate_fully(self, new_start: Offset) -> None:
        """Remove everything; the log is then empty and begins at `new_start`."""
        self.health.check()
        self._flusher.flushed = min(self.flushed_offset, self._start, new_start)
        with self.health.failing():
            self._producer_state.snapshots.keep(set())
            self._segments.begin_anew(new_start)
        self._start = self._flusher.flushed = new_start
        self._epochs.clear()
        self._write_epochs()
        self._producer_state.truncated_fully()

    # --- trimming the start

    def advance_start(self, offset: Offset) -> None:
        """Delete records below `offset` for readers, and remove segments entirely below it.

        An offset below the start changes nothing. Raises OffsetOutOfRange beyond the end,
        LogOffline, OSError. See the module for what the caller has to persist.
        """
        if offset > self.end_offset:
            raise OffsetOutOfRange(f"offset {offset} is beyond the log's end {self.end_offset}")
        if offset <= self._start:
            return
        self.health.check()
        self._start = offset
        if self._epochs.truncate_from_start(offset):
            self._write_epochs()
        if offset == self.end_offset and self._segments.active.size:
            self._roll()
        self._remove_oldest(MAX_REMOVED_SEGMENTS)

    def expire(self, now_wall_ms: int, high_watermark: Offset) -> int:
        """Remove expired segments (by retention.ms, retention.bytes or the log's start) below the
        high watermark; return how many. At most 32: a caller that gets 32 calls again.

        Also roll a segment that is older than segment.ms or entirely expired, and forget idle
        producers. `now_wall_ms` is compared with record timestamps. Raises LogOffline, OSError.
        """
        self.health.check()
        config = self.config
        self.producers.forget_idle(now_wall_ms, config.producer_expiration_ms)
        active = self._segments.active
        if active.size and retention.rolls_by_age(
            active.first_timestamp, now_wall_ms, config.segment_ms
        ):
            self._roll()
        count = retention.expired(
            self._segments.segment_infos(with_times=config.retention_ms >= 0),
            now_ms=now_wall_ms,
            high_watermark=high_watermark,
            retention_ms=config.retention_ms,
            retention_bytes=config.retention_bytes,
        )
        if count == len(self._segments.all):
            self._roll()
        if count:
            first_kept = self._segments.all[min(count, MAX_REMOVED_SEGMENTS)].base_offset
            if first_kept > self._start:
                self._start = first_kept
                if self._epochs.truncate_from_start(first_kept):
                    self._write_epochs()
        return self._remove_oldest(MAX_REMOVED_SEGMENTS)

    def _remove_oldest(self, bound: int) -> int:
        """Remove segments below the log's start, and their producer snapshots."""
        ends = (segment.next_offset for segment in self._segments.all[:-1])
        count = min(bound, retention.below_start(ends, self._start))
        if count:
            with self.health.failing():
                self._segments.remove_oldest(count)
                self._producer_state.start_removed()
        return count

    # --- making durable, and ending

    def flush_due(self, now_ms: float) -> bool:
        """Whether flush.messages, flush.ms or a sealed segment asks for a flush.

        `now_ms` is from any monotonic clock; ages count from the first call.
        """
        return self._flusher.due(self.config, now_ms)

    def flush(self) -> Offset:
        """Make everything durable; return the flushed offset, which is then the end. Blocks."""
        return self._flusher.now()

    async def flush_async(self) -> Offset:
        """Make the present content durable in the executor; return the flushed offset.

        It is below the end at the call only if the log was truncated meanwhile. Callers during a
        sync share the next sync. Raises LogOffline, OSError.
        """
        return await self._flusher.off_loop()

    async def durable(self, offset: Offset) -> None:
        """Return when everything below `offset` is on disk; waiters share syncs.

        Raises LogOffline if a sync fails or the log is closed, LogTruncated if the log was
        truncated meanwhile, so that the records may be gone.
        """
        await self._flusher.wait(offset)

    def close(self) -> None:
        """Complete indexes and snapshot, make everything durable, and close the files. Blocks.

        An offline log is closed as it is; the node must then not write the clean-shutdown file.
        """
        try:
            if not self.offline:
                with self.health.failing():
                    self._segments.active.finish_indexes()
                    self._producer_state.write_last_snapshot(self.end_offset)
                self._flusher.now(closing=True)
        finally:
            self._segments.close()
            self.health.end("closed")

    def delete(self) -> None:
        """Close the log and rename its directory for deletion; `sweep_deleted` removes it.

        Does not wait for the disk. Raises OSError.
        """
        self._segments.close()
        self.health.end("deleted")
        deletion.rename_for_deletion(self._disk, self._directory)

    @staticmethod
    def sweep_deleted(disk: Disk, *, max_files: int | None = None) -> int:
        """Remove deleted logs, at most `max_files` files; return how many logs remain."""
        return deletion.sweep_deleted(disk, max_files=max_files)
