"""The logs on this broker's disk: opens, recovers, sets aside and removes them.

Every log is opened and recovered before the broker registers, so that the registration can report
whether something was lost (KIP-966). Only later, from the metadata log, does the broker know which
of the logs are still replicas; nothing is removed before that.

A log that is damaged in its middle is set aside, never deleted: its directory becomes
`<topic>-<partition>.<n>-corrupt` (no topic's partition can have that name). The log that takes its
place is empty and must not lead: if the controller elected it all the same, everything acknowledged
would be lost silently. So the directory that was set aside holds a mark until the new copy was in
sync under another leader. The mark is written before the directory is renamed.

After a power loss, a log that was never flushed may have lost its topic's id. It is set aside too,
but without a mark: it lacks no more than any replica that lost its unflushed records, and may lead.
Its recovery point is 0, or its start if it began where its leader's log began.

The checkpoints on the disk never claim more of a log than is true:
- A recovery point is lowered before the log is truncated below it.
- A log start is lowered before a log with a lower start grows, and the offset below which a
  compacted log is clean before a truncated log grows (KAFKA-3330).
- The offsets of a deleted log are removed before another log of the same name is made. Otherwise
  the new log would not be validated where it was not flushed, or it would start above its first
  records and lose them.

Left to others: roles and high watermarks (`manager`), and the times at which the checkpoints are
written (`housekeeping`).
"""

import asyncio
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID

from nodes.ids import Offset, TopicPartition
from nodes.log.checkpoints import (
    CLEANER_OFFSETS,
    LOG_START_OFFSETS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    REPLICATION_OFFSETS,
    CheckpointError,
    PartitionMetadata,
)
from nodes.log.config import LogConfig
from nodes.log.errors import LogCorrupt
from nodes.log.log import Log
from nodes.server.replicas.new_directory import NewDirectory
from nodes.server.replicas.offset_checkpoints import TrackedCheckpoint
from nodes.storage.disk import Disk

log = logging.getLogger("nodes.logs")

Offsets = Callable[[], dict[TopicPartition, Offset]]

METADATA_TOPIC = "__cluster_metadata"
REFETCH_MARK = "refetch"
PROGRESS_EVERY_LOGS = 1000
NAME_MAX_BYTES = 255

_PARTITION = re.compile(r"([a-zA-Z0-9._-]+)-(\d+)")
_SET_ASIDE = re.compile(r".+\.\d+-corrupt")


class PartitionMetadataFile:
    """The partition.metadata file of a new log: it holds the topic's id.

    The file is written before the first records, so that no crash leaves records of an unknown
    topic, and it is durable before they are. An empty log that begins at 0 has no such file,
    because thousands of new partitions would take minutes to sync.
    """

    def __init__(self, disk: Disk, directory: str, topic_id: UUID) -> None:
        self._disk = disk
        self._directory = directory
        self._topic_id = topic_id

    def write(self) -> None:
        """Write the file; called before the first append. Raises OSError."""
        PartitionMetadata(topic_id=self._topic_id).write(self._disk, self._directory, durable=False)

    async def sync(self) -> None:
        """Make the file durable; called before the first records are flushed. Raises OSError."""
        file = self._disk.open(f"{self._directory}/{PARTITION_METADATA}")
        try:
            await self._disk.sync(file)
        finally:
            file.close()
        await self._disk.sync(self._directory)

    def sync_now(self) -> None:
        """As `sync`, but blocks."""
        _sync_metadata_file(self._disk, self._directory)


def _sync_metadata_file(disk: Disk, directory: str) -> None:
    file = disk.open(f"{directory}/{PARTITION_METADATA}")
    try:
        file.rewrite()  # an earlier process may have written it, and its sync may have failed
        file.sync()
    finally:
        file.close()
    disk.sync_dir(directory)


@dataclass(slots=True)
class HostedLog:
    """A log in the directory; `topic_id` is None if the directory has no partition.metadata."""

    disk: Disk
    partition: TopicPartition
    topic_id: UUID | None
    log: Log

    def missing_metadata_file(self, topic_id: UUID) -> PartitionMetadataFile | None:
        """The partition.metadata file to write before the first records; None if it is written."""
        if self.topic_id:
            return None
        return PartitionMetadataFile(self.disk, str(self.partition), topic_id)


class LogDirectory:
    """See the module. `clean`: the last run of the node closed its logs in order."""

    def __init__(self, disk: Disk, *, clean: bool) -> None:
        self._disk = disk
        self._clean = clean
        self._hosted: dict[TopicPartition, HostedLog] = {}
        self._sweeping = False
        self._marks: dict[TopicPartition, list[str]] = {}
        self._recovery_points = TrackedCheckpoint(disk, RECOVERY_POINTS)
        self._starts = TrackedCheckpoint(disk, LOG_START_OFFSETS)
        self._watermarks = TrackedCheckpoint(disk, REPLICATION_OFFSETS)
        self._cleaned = TrackedCheckpoint(disk, CLEANER_OFFSETS)
        self.cleaned = self._cleaned.read(optional=True)
        """The offset below which each log that was ever cleaned is clean."""
        self.high_watermarks = self._watermarks.read(optional=True)
        """The last checkpoint of the high watermarks; at first that of the last run."""
        self.intact = clean
        """False if the last stop was not clean, or some log was found damaged."""
        self.failure = ""
        """Why some log cannot be written; empty while all can."""

    # -- starting ------------------------------------------------------------------------------

    async def recover(self, config: LogConfig) -> None:
        """Open every log; the event loop runs between two logs.

        `config` holds until the topics' own configuration is known. Raises CheckpointError if the
        log start offsets cannot be read, and OSError.
        """
        # Without recovery points everything is validated. Without high watermarks they begin at the
        # log starts. But without log starts, records that were deleted would be back.
        points = self._recovery_points.read(optional=True)
        starts = self._starts.read(optional=False)
        Log.sweep_deleted(self._disk)
        names = self._disk.listdir("")
        for name in names:
            if _SET_ASIDE.fullmatch(name):
                self._remember_mark(name)
        partitions = sorted(_partitions(names))
        for number, partition in enumerate(partitions):
            if number and number % PROGRESS_EVERY_LOGS == 0:
                log.info("opened %d of %d logs", number, len(partitions))
            self._recover(
                partition,
                config,
                points.get(partition, Offset(0)),
                starts.get(partition, Offset(0)),
            )
            await asyncio.sleep(0)
        for offsets in (self.high_watermarks, self.cleaned):
            for partition in [p for p in offsets if p not in self._hosted]:
                del offsets[partition]
        # A log that lost its end, or whose truncation was interrupted, ends below its checkpoints.
        self.after_truncation()
        validated = sum(each.log.recovery.validated_segments for each in self._hosted.values())
        cut = sum(each.log.recovery.cut_bytes for each in self._hosted.values())
        log.info(
            "opened %d logs after %s: %d segments validated, %d bytes cut off",
            len(self._hosted),
            "a clean stop" if self._clean else "an unclean end",
            validated,
            cut,
        )

    def _remember_mark(self, directory: str) -> None:
        """Note which partition was set aside as `directory`, if the mark is still there."""
        mark = f"{directory}/{REFETCH_MARK}"
        if self._disk.exists(mark):
            for partition in _partitions([self._disk.read(mark).decode()]):
                self._marks.setdefault(partition, []).append(mark)

    def _recover(
        self,
        partition: TopicPartition,
        config: LogConfig,
        recovery_point: Offset,
        log_start: Offset,
    ) -> None:
        try:
            stored = PartitionMetadata.read(self._disk, str(partition))
            opened = Log.open(
                self._disk,
                str(partition),
                config,
                clean=self._clean,
                recovery_point=recovery_point,
                log_start=log_start,
            )
            if stored and not self._clean:  # its records were just made durable: so must this be
                with opened.health.failing():
                    _sync_metadata_file(self._disk, str(partition))
            elif not (
                self._clean
                or recovery_point not in (0, opened.start_offset)
                or opened.end_offset == opened.start_offset
            ):
                opened.close()
                log.warning(
                    "%s was never flushed, and a power loss took its topic id: set aside as %s",
                    partition,
                    self._set_aside(partition),
                )
                return
        except (LogCorrupt, CheckpointError) as error:
            log.error("%s: %s", partition, error)
            self._set_aside_as_damaged(partition)
            return
        if opened.recovery.cut_bytes:
            log.warning("%s: recovery: %s", partition, opened.recovery)
        topic_id = None if stored is None else stored.topic_id
        self._host(HostedLog(self._disk, partition, topic_id, opened))

    def _set_aside_as_damaged(self, partition: TopicPartition) -> None:
        """Mark the damaged directory, then rename it."""
        self.intact = False
        self._disk.write_atomic(f"{partition}/{REFETCH_MARK}", str(partition).encode())
        target = self._set_aside(partition)
        self._remember_mark(target)
        log.error(
            "%s is set aside as %s: this replica fetches the partition again from its leader, and "
            "will not lead before it is in sync",
            partition,
            target,
        )

    def _set_aside(self, partition: TopicPartition) -> str:
        """Rename the directory; return its new name."""
        directory = str(partition)
        number = 1
        while self._disk.exists(target := _set_aside_name(directory, number)):
            number += 1
        self._disk.rename(directory, target)
        self._disk.sync_dir("")
        self.high_watermarks.pop(partition, None)
        self.cleaned.pop(partition, None)
        return target

    # -- the open logs -------------------------------------------------------------------------

    def hosted(self) -> Iterator[HostedLog]:
        """Every open log, in order of opening."""
        yield from list(self._hosted.values())

    def find(self, partition: TopicPartition) -> HostedLog | None:
        """The partition's log, even if it belongs to an earlier topic of that name."""
        return self._hosted.get(partition)

    def must_refetch(self, partition: TopicPartition) -> bool:
        """Whether the log replaces a damaged one, and so may lack acknowledged records."""
        return partition in self._marks

    def refetched(self, partition: TopicPartition) -> None:
        """The partition's log is complete again, or no longer needed: remove its marks."""
        for mark in self._marks.pop(partition, []):
            self._disk.unlink(mark)

    def create(self, partition: TopicPartition, config: LogConfig) -> HostedLog:
        """Create an empty log; nothing of it is on the disk before it has records.

        Blocks while a checkpoint still names a deleted log of this name: the checkpoint is then
        written again, once for all such logs.
        """
        for checkpoint, offsets in self._all_offsets():
            if checkpoint.possible_offset(partition) is not None:
                checkpoint.save(offsets())
        disk = NewDirectory(self._disk, str(partition))
        new = Log.open(disk, str(partition), config, clean=True)
        hosted = HostedLog(disk, partition, None, new)
        self._host(hosted)
        return hosted

    def _host(self, hosted: HostedLog) -> None:
        hosted.log.health.on_failure = self._failed
        self._hosted[hosted.partition] = hosted

    def remove(self, partition: TopicPartition) -> None:
        """Delete the partition's log; the next write of the checkpoints leaves it out."""
        self._hosted.pop(partition).log.delete()
        self._sweeping = True
        self.high_watermarks.pop(partition, None)
        self.cleaned.pop(partition, None)
        self.refetched(partition)

    def sweep(self, max_files: int) -> bool:
        """Remove up to `max_files` files of deleted logs; true while there are more.

        Raises OSError.
        """
        self._sweeping = self._sweeping and Log.sweep_deleted(self._disk, max_files=max_files) > 0
        return self._sweeping

    def keep_aside(self, partition: TopicPartition) -> None:
        """Close a log that has records but no topic id, and set its directory aside."""
        self._hosted.pop(partition).log.close()
        self._set_aside_as_damaged(partition)

    # -- checkpoints ---------------------------------------------------------------------------

    def _flushed_offsets(self) -> dict[TopicPartition, Offset]:
        return {p: each.log.flushed_offset for p, each in self._hosted.items()}

    def _start_offsets(self) -> dict[TopicPartition, Offset]:
        return {p: each.log.start_offset for p, each in self._hosted.items()}

    def _all_offsets(self) -> Iterator[tuple[TrackedCheckpoint, Offsets]]:
        yield self._recovery_points, self._flushed_offsets
        yield self._starts, self._start_offsets
        yield self._watermarks, lambda: dict(self.high_watermarks)
        if self.cleaned or self._cleaned.is_used:
            yield self._cleaned, lambda: dict(self.cleaned)

    def before_truncation(self, partition: TopicPartition, end: Offset) -> None:
        """Lower the recovery point to `end`; called before a log is truncated to `end` or above.

        If the power were lost during the truncation and the recovery point were higher, a sound log
        would look damaged. Blocks if the recovery point on the disk has to be lowered. Raises
        OSError.
        """
        if (self._recovery_points.possible_offset(partition) or 0) > end:
            points = self._flushed_offsets()
            points[partition] = min(points[partition], end)
            self._recovery_points.save(points)

    def after_truncation(self) -> None:
        """Lower the checkpoints of truncated logs; called before anything is appended to them.

        A checkpoint that is too high would exempt a log's new end from validation, call it
        committed, or hide the log's new start. Blocks, once for all logs, if some offset on the
        disk has to be lowered. Raises OSError.
        """
        for partition, each in self._hosted.items():
            if self.high_watermarks.get(partition, 0) > each.log.end_offset:
                self.high_watermarks[partition] = each.log.end_offset
            if self.cleaned.get(partition, 0) > each.log.end_offset:
                self.cleaned[partition] = each.log.end_offset
        for checkpoint, present in self._all_offsets():
            offsets = present()
            if any((checkpoint.possible_offset(p) or 0) > offset for p, offset in offsets.items()):
                checkpoint.save(offsets)

    async def checkpoint_recovery_points(self) -> None:
        """Return when the flushed offset of each log is on disk. Raises OSError."""
        await self._recovery_points.save_off_loop(self._flushed_offsets)

    async def checkpoint_starts(self) -> None:
        """Return when the log starts of now, or later ones, are on disk. Raises OSError."""
        await self._starts.save_off_loop(self._start_offsets)

    async def checkpoint_high_watermarks(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Return when the high watermarks are on disk. Raises OSError.

        Logs that `offsets` does not name keep their earlier high watermark.
        """
        self.high_watermarks.update(offsets)
        await self._watermarks.save_off_loop(lambda: dict(self.high_watermarks))

    async def checkpoint_cleaned(self, partition: TopicPartition, end: Offset) -> None:
        """Return when it is on disk that the log is clean below `end`. Raises OSError."""
        self.cleaned[partition] = end
        await self._cleaned.save_off_loop(lambda: dict(self.cleaned))

    # -- ending --------------------------------------------------------------------------------

    def _failed(self, why: str) -> None:
        self.failure = self.failure or why

    def close(self, high_watermarks: Mapping[TopicPartition, Offset]) -> bool:
        """Flush and close every log and write the checkpoints; false if some log had failed."""
        failed = bool(self.failure)
        for each in self._hosted.values():
            if not each.log.offline:
                each.log.flush()
        if not failed:
            self.high_watermarks.update(high_watermarks)
            for checkpoint, offsets in self._all_offsets():
                checkpoint.save(offsets())
        for each in self._hosted.values():
            each.log.close()
        return not failed


def _partitions(names: list[str]) -> Iterator[TopicPartition]:
    for name in names:
        match = _PARTITION.fullmatch(name)
        if match and match[1] != METADATA_TOPIC:
            yield TopicPartition(match[1], int(match[2]))


def _set_aside_name(directory: str, number: int) -> str:
    suffix = f".{number}-corrupt"
    return directory[: NAME_MAX_BYTES - len(suffix)] + suffix
