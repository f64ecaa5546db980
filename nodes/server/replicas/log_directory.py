"""The logs on this broker's disk, whoever they belong to now: found, recovered, set aside, removed.

Every log is opened and recovered before the broker registers, so that the registration can tell
whether something was lost (KIP-966). Which of them are still replicas is known only later, from the
metadata log; nothing is removed before that.

A log that is damaged in its middle is set aside, never deleted: `<topic>-<partition>.<n>-corrupt`
(no topic's partition can have that name). What takes its place is empty and must not lead: should
the controller elect it all the same, everything acknowledged would be given up silently. So the
directory that was set aside holds a mark, put there before it is renamed, until the new copy has
been seen in sync under another leader. What a loss of power left of a log that was never flushed
is set aside too when nobody can tell its topic any more, but without a mark: such a replica lacks
no more than one whose records the power took, and may lead.

The checkpoints on the disk never say more of a log than is true of it: a recovery point is lowered
before the log is cut below it, a log start before a log that begins lower grows, and the offsets of
a log that was deleted are gone before another one of its name is made. That one would not be
validated where it was not flushed, or would begin above its first records, and they would be lost.

Left to others: roles and high watermarks (`replicas`), and when to write the checkpoints otherwise
(`housekeeping`).
"""

import asyncio
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID

from nodes.ids import Offset, TopicPartition
from nodes.log.checkpoints import (
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
from nodes.server.replicas.offset_checkpoints import KeptOffsets
from nodes.storage.disk import Disk

log = logging.getLogger("nodes.logs")

Offsets = Callable[[], dict[TopicPartition, Offset]]

METADATA_TOPIC = "__cluster_metadata"
REFETCH_MARK = "refetch"
SAY_EVERY_LOGS = 1000
NAME_MAX_BYTES = 255

_PARTITION = re.compile(r"([a-zA-Z0-9._-]+)-(\d+)")
_SET_ASIDE = re.compile(r".+\.\d+-corrupt")


class Identity:
    """Which topic a new log belongs to, written beside it when the first records come.

    Written before they are, so that no end of the process leaves records that nobody can tell the
    topic of; durable before they are. A log without records needs none: thousands of new partitions
    would take minutes to sync.
    """

    def __init__(self, disk: Disk, directory: str, topic_id: UUID) -> None:
        self._disk = disk
        self._directory = directory
        self._topic_id = topic_id

    def write(self) -> None:
        """Before the first append. Raises OSError."""
        PartitionMetadata(topic_id=self._topic_id).write(self._disk, self._directory, durable=False)

    async def sync(self) -> None:
        """Before the first records are flushed. Raises OSError."""
        file = self._disk.open(f"{self._directory}/{PARTITION_METADATA}")
        try:
            await self._disk.sync(file)
        finally:
            file.close()
        await self._disk.sync(self._directory)

    def sync_now(self) -> None:
        """As `sync`; blocks."""
        _sync_identity(self._disk, self._directory)


def _sync_identity(disk: Disk, directory: str) -> None:
    file = disk.open(f"{directory}/{PARTITION_METADATA}")
    try:
        file.write_again()  # of an earlier process, perhaps, whose sync failed
        file.sync()
    finally:
        file.close()
    disk.sync_dir(directory)


@dataclass(slots=True)
class HostedLog:
    """A log in the directory; `topic_id` is None where the directory does not tell it."""

    disk: Disk
    partition: TopicPartition
    topic_id: UUID | None
    log: Log

    def identity(self, topic_id: UUID) -> Identity | None:
        """What is to be written when records come; None when it is written."""
        return None if self.topic_id else Identity(self.disk, str(self.partition), topic_id)


class LogDirectory:
    """See the module. `clean`: the node closed its logs in order before it ended."""

    def __init__(self, disk: Disk, *, clean: bool) -> None:
        self._disk = disk
        self._clean = clean
        self._hosted: dict[TopicPartition, HostedLog] = {}
        self._sweeping = False
        self._marks: dict[TopicPartition, list[str]] = {}
        self._recovery_points = KeptOffsets(disk, RECOVERY_POINTS)
        self._starts = KeptOffsets(disk, LOG_START_OFFSETS)
        self._watermarks = KeptOffsets(disk, REPLICATION_OFFSETS)
        self.high_watermarks = self._watermarks.read(dispensable=True)
        """As they were checkpointed last, by the incarnation before at first."""
        self.intact = clean
        """False when the last stop was not clean, or some log turned out to be damaged."""
        self.failure = ""
        """Why some log could not be written; empty while all can."""

    # -- starting ------------------------------------------------------------------------------

    async def recover(self, config: LogConfig) -> None:
        """Open every log there is; lets the loop run between two.

        `config` holds until the topics' own is known. Raises CheckpointError when it is not known
        any more where the logs begin, and OSError.
        """
        # Without recovery points everything is validated, without high watermarks they begin at the
        # logs' starts; but without those, records that were deleted would be back.
        points = self._recovery_points.read(dispensable=True)
        starts = self._starts.read(dispensable=False)
        Log.sweep_deleted(self._disk)
        names = self._disk.listdir("")
        for name in names:
            if _SET_ASIDE.fullmatch(name):
                self._remember_mark(name)
        partitions = sorted(_partitions(names))
        for number, partition in enumerate(partitions):
            if number and number % SAY_EVERY_LOGS == 0:
                log.info("opened %d of %d logs", number, len(partitions))
            self._recover(
                partition,
                config,
                points.get(partition, Offset(0)),
                starts.get(partition, Offset(0)),
            )
            await asyncio.sleep(0)
        for partition in [p for p in self.high_watermarks if p not in self._hosted]:
            del self.high_watermarks[partition]
        self.truncated()  # a log that died while it was cut, or lost its end, is below what is told
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
        """Note which partition was set aside as `directory`, unless it is whole again."""
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
            if stored and not self._clean:  # the records were made durable just now: so must this
                with opened.health.failing():
                    _sync_identity(self._disk, str(partition))
            elif not (self._clean or recovery_point or opened.end_offset == opened.start_offset):
                opened.close()
                log.warning(
                    "%s was never flushed, and lost its topic's id with the power: set aside as %s",
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
        """Keep the damaged directory under another name, marked before it gets it."""
        self.intact = False
        self._disk.write_atomic(f"{partition}/{REFETCH_MARK}", str(partition).encode())
        target = self._set_aside(partition)
        self._remember_mark(target)
        log.error(
            "%s is set aside as %s: this replica has to be fetched anew from the partition's "
            "leader, and will not lead before it is in sync again",
            partition,
            target,
        )

    def _set_aside(self, partition: TopicPartition) -> str:
        """Keep the directory under another name, which is returned."""
        directory = str(partition)
        number = 1
        while self._disk.exists(target := _aside(directory, number)):
            number += 1
        self._disk.rename(directory, target)
        self._disk.sync_dir("")
        self.high_watermarks.pop(partition, None)
        return target

    # -- what is here --------------------------------------------------------------------------

    def hosted(self) -> Iterator[HostedLog]:
        """Every log that is open, in order of opening."""
        yield from list(self._hosted.values())

    def find(self, partition: TopicPartition) -> HostedLog | None:
        """The partition's log, whichever topic of that name it belongs to."""
        return self._hosted.get(partition)

    def must_refetch(self, partition: TopicPartition) -> bool:
        """Whether the partition's log here replaces one that was set aside, and may lack records
        that were acknowledged.
        """
        return partition in self._marks

    def refetched(self, partition: TopicPartition) -> None:
        """The partition's log here is whole again, or nobody wants it any more."""
        for mark in self._marks.pop(partition, []):
            self._disk.unlink(mark)

    def create(self, partition: TopicPartition, config: LogConfig) -> HostedLog:
        """Begin an empty log, of which nothing is on the disk before it has records.

        Blocks, once for all of them, if a deleted log of such a name is not forgotten there yet.
        """
        for kept, offsets in self._all_offsets():
            if kept.may_say(partition) is not None:
                kept.save(offsets())
        disk = NewDirectory(self._disk, str(partition))
        new = Log.open(disk, str(partition), config, clean=True)
        hosted = HostedLog(disk, partition, None, new)
        self._host(hosted)
        return hosted

    def _host(self, hosted: HostedLog) -> None:
        hosted.log.health.on_failure = self._failed
        self._hosted[hosted.partition] = hosted

    def remove(self, partition: TopicPartition) -> None:
        """Delete the partition's log; the checkpoints forget it when they are written next."""
        self._hosted.pop(partition).log.delete()
        self._sweeping = True
        self.high_watermarks.pop(partition, None)
        self.refetched(partition)

    def sweep(self, max_files: int) -> bool:
        """Remove some files of deleted logs; true while there are more. Raises OSError."""
        self._sweeping = self._sweeping and Log.sweep_deleted(self._disk, max_files=max_files) > 0
        return self._sweeping

    def keep_aside(self, partition: TopicPartition) -> None:
        """Close a log that has records of a topic that it cannot name, and keep its directory."""
        self._hosted.pop(partition).log.close()
        self._set_aside_as_damaged(partition)

    # -- checkpoints ---------------------------------------------------------------------------

    def _flushed(self) -> dict[TopicPartition, Offset]:
        return {p: each.log.flushed_offset for p, each in self._hosted.items()}

    def _begun(self) -> dict[TopicPartition, Offset]:
        return {p: each.log.start_offset for p, each in self._hosted.items()}

    def _all_offsets(self) -> Iterator[tuple[KeptOffsets, Offsets]]:
        yield self._recovery_points, self._flushed
        yield self._starts, self._begun
        yield self._watermarks, lambda: dict(self.high_watermarks)

    def cutting(self, partition: TopicPartition, end: Offset) -> None:
        """Before a log is cut, to `end` at least: no recovery point may be left above.

        Were the power lost in the middle of it, what is left would look damaged where it had been
        whole. Blocks if the recovery point on the disk has to be lowered. Raises OSError.
        """
        if (self._recovery_points.may_say(partition) or 0) > end:
            points = self._flushed()
            points[partition] = min(points[partition], end)
            self._recovery_points.save(points)

    def truncated(self) -> None:
        """Before logs that were cut are appended to: no checkpoint may exempt their new ends from
        validation, call them committed, or hide their new beginnings.

        Blocks, once for all of them, if some offset on the disk has to be lowered. Raises OSError.
        """
        for partition, each in self._hosted.items():
            if self.high_watermarks.get(partition, 0) > each.log.end_offset:
                self.high_watermarks[partition] = each.log.end_offset
        for kept, offsets in (
            (self._recovery_points, self._flushed()),
            (self._starts, self._begun()),
            (self._watermarks, dict(self.high_watermarks)),
        ):
            if any((kept.may_say(p) or 0) > offset for p, offset in offsets.items()):
                kept.save(offsets)

    async def checkpoint_recovery_points(self) -> None:
        """Return when the disk says up to where each log is on it. Raises OSError."""
        await self._recovery_points.save_off_loop(self._flushed)

    async def checkpoint_starts(self) -> None:
        """Return when the disk says where each log begins now, at least. Raises OSError."""
        await self._starts.save_off_loop(self._begun)

    async def checkpoint_high_watermarks(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Return when the high watermarks are on disk; those of logs that `offsets` lacks stay as
        they were. Raises OSError.
        """
        self.high_watermarks.update(offsets)
        await self._watermarks.save_off_loop(lambda: dict(self.high_watermarks))

    # -- ending --------------------------------------------------------------------------------

    def _failed(self, why: str) -> None:
        self.failure = self.failure or why

    def close(self, high_watermarks: Mapping[TopicPartition, Offset]) -> bool:
        """Flush and close every log and write the checkpoints; false when some log had failed."""
        failed = bool(self.failure)
        for each in self._hosted.values():
            if not each.log.offline:
                each.log.flush()
        if not failed:
            self.high_watermarks.update(high_watermarks)
            for kept, offsets in self._all_offsets():
                kept.save(offsets())
        for each in self._hosted.values():
            each.log.close()
        return not failed


def _partitions(names: list[str]) -> Iterator[TopicPartition]:
    for name in names:
        match = _PARTITION.fullmatch(name)
        if match and match[1] != METADATA_TOPIC:
            yield TopicPartition(match[1], int(match[2]))


def _aside(directory: str, number: int) -> str:
    suffix = f".{number}-corrupt"
    return directory[: NAME_MAX_BYTES - len(suffix)] + suffix
