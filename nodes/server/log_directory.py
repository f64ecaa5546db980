"""The logs on this broker's disk, whoever they belong to now: found, recovered, set aside, removed.

Every log is opened and recovered before the broker registers, so that the registration can tell
whether something was lost (KIP-966). Which of them are still replicas is known only later, from the
metadata log; nothing is removed before that.

A log that is damaged in its middle is set aside, never deleted: `<topic>-<partition>.<n>-corrupt`
(no topic's partition can have that name). What takes its place is empty and must not lead: should
the controller elect it all the same, everything acknowledged would be given up silently. So the
directory that was set aside holds a mark, put there before it is renamed, until the new copy has
been seen in sync under another leader.

Left to others: roles and high watermarks (`replicas`), and when to write the checkpoints
(`housekeeping`).
"""

import asyncio
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from uuid import UUID

from nodes.ids import Offset, TopicPartition
from nodes.log.checkpoints import (
    LOG_START_OFFSETS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    REPLICATION_OFFSETS,
    CheckpointError,
    OffsetCheckpoint,
    PartitionMetadata,
)
from nodes.log.config import LogConfig
from nodes.log.errors import LogCorrupt
from nodes.log.log import Log
from nodes.server.new_directory import NewDirectory
from nodes.storage.disk import Disk

log = logging.getLogger("nodes.logs")

METADATA_TOPIC = "__cluster_metadata"
REFETCH_MARK = "refetch"
SAY_EVERY_LOGS = 1000
LOGS_AT_A_GLANCE = 2000
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
        self._rounds = self._watching()
        self._marks: dict[TopicPartition, list[str]] = {}
        self._checkpoints = {
            name: OffsetCheckpoint(disk, name)
            for name in (RECOVERY_POINTS, REPLICATION_OFFSETS, LOG_START_OFFSETS)
        }
        self._recovery_points = self._checkpoints[RECOVERY_POINTS].read()
        self._starts = self._checkpoints[LOG_START_OFFSETS].read()
        self.high_watermarks = self._checkpoints[REPLICATION_OFFSETS].read()
        """As they were checkpointed by the incarnation before."""
        self.intact = clean
        """False when the last stop was not clean, or some log turned out to be damaged."""

    # -- starting ------------------------------------------------------------------------------

    async def recover(self, config: LogConfig) -> None:
        """Open every log there is; lets the loop run between two. Raises OSError.

        `config` holds until the topics' own is known.
        """
        Log.sweep_deleted(self._disk)
        names = self._disk.listdir("")
        for name in names:
            if _SET_ASIDE.fullmatch(name):
                self._remember_mark(name)
        partitions = sorted(_partitions(names))
        for number, partition in enumerate(partitions):
            if number and number % SAY_EVERY_LOGS == 0:
                log.info("opened %d of %d logs", number, len(partitions))
            self._recover(partition, config)
            await asyncio.sleep(0)
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

    def _recover(self, partition: TopicPartition, config: LogConfig) -> None:
        try:
            opened = self._open(self._disk, partition, config)
            stored = PartitionMetadata.read(self._disk, str(partition))
        except (LogCorrupt, CheckpointError) as error:
            log.error("%s: %s", partition, error)
            self._set_aside(partition)
            return
        if opened.recovery.cut_bytes:
            log.warning("%s: recovery: %s", partition, opened.recovery)
        topic_id = None if stored is None else stored.topic_id
        self._hosted[partition] = HostedLog(self._disk, partition, topic_id, opened)

    def _open(self, disk: Disk, partition: TopicPartition, config: LogConfig) -> Log:
        return Log.open(
            disk,
            str(partition),
            config,
            clean=self._clean,
            recovery_point=self._recovery_points.get(partition, Offset(0)),
            log_start=self._starts.get(partition, Offset(0)),
        )

    def _set_aside(self, partition: TopicPartition) -> None:
        """Keep the damaged directory under another name, marked before it gets it."""
        self.intact = False
        directory = str(partition)
        number = 1
        while self._disk.exists(target := _aside(directory, number)):
            number += 1
        self._disk.write_atomic(f"{directory}/{REFETCH_MARK}", directory.encode())
        self._disk.rename(directory, target)
        self._disk.sync_dir("")
        self._remember_mark(target)
        self._forget_offsets(partition)
        log.error(
            "%s is set aside as %s: this replica has to be fetched anew from the partition's "
            "leader, and will not lead before it is in sync again",
            directory,
            target,
        )

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
        """Begin an empty log, of which nothing is on the disk before it has records."""
        disk = NewDirectory(self._disk, str(partition))
        hosted = HostedLog(disk, partition, None, self._open(disk, partition, config))
        self._hosted[partition] = hosted
        return hosted

    def remove(self, partition: TopicPartition) -> None:
        """Delete the partition's log, and every trace of it in the checkpoints."""
        self._hosted.pop(partition).log.delete()
        self._sweeping = True
        self._forget_offsets(partition)
        self.refetched(partition)

    def sweep(self, max_files: int) -> bool:
        """Remove some files of deleted logs; true while there are more. Raises OSError."""
        self._sweeping = self._sweeping and Log.sweep_deleted(self._disk, max_files=max_files) > 0
        return self._sweeping

    def keep_aside(self, partition: TopicPartition) -> None:
        """Close a log that has records of a topic that it cannot name, and keep its directory."""
        self._hosted.pop(partition).log.close()
        self._set_aside(partition)

    def _forget_offsets(self, partition: TopicPartition) -> None:
        for offsets in (self._recovery_points, self._starts, self.high_watermarks):
            offsets.pop(partition, None)

    # -- checkpoints ---------------------------------------------------------------------------

    def truncated(self) -> None:
        """Before logs that were cut are appended to: no checkpoint may exempt their new ends.

        A recovery point above an end would keep what is appended next from being validated.
        Blocks, once for all of them, if some recovery point on the disk has to be lowered.
        """
        written = self._recovery_points
        if any(written.get(p, 0) > each.log.flushed_offset for p, each in self._hosted.items()):
            self.checkpoint_recovery_points(durable=True)

    def checkpoint_recovery_points(self, *, durable: bool = False) -> None:
        """Write up to where each log is on disk."""
        self._recovery_points = {p: each.log.flushed_offset for p, each in self._hosted.items()}
        self._checkpoints[RECOVERY_POINTS].write(self._recovery_points, durable=durable)

    def checkpoint_starts(self, *, durable: bool = False) -> None:
        """Write where each log begins."""
        self._starts = {p: each.log.start_offset for p, each in self._hosted.items()}
        self._checkpoints[LOG_START_OFFSETS].write(self._starts, durable=durable)

    def checkpoint_high_watermarks(
        self, offsets: Mapping[TopicPartition, Offset], *, durable: bool = False
    ) -> None:
        """Write the high watermarks; those of logs that `offsets` lacks stay as they were."""
        self.high_watermarks.update(offsets)
        self._checkpoints[REPLICATION_OFFSETS].write(self.high_watermarks, durable=durable)

    # -- ending --------------------------------------------------------------------------------

    def glance(self) -> str:
        """Why some log cannot be written any more, as far as the next few tell; every log comes up
        again before long. Empty while all is well.
        """
        for each in islice(self._rounds, LOGS_AT_A_GLANCE):
            if each is not None and each.log.offline and self._hosted.get(each.partition) is each:
                return each.log.offline
        return ""

    def _watching(self) -> Iterator[HostedLog | None]:
        while True:
            yield None  # also when there is no log at all
            yield from list(self._hosted.values())

    def failure(self) -> str:
        """Why some log cannot be written any more; empty while all can."""
        failures = (each.log.offline for each in self._hosted.values())
        return next((failure for failure in failures if failure), "")

    def close(self, high_watermarks: Mapping[TopicPartition, Offset]) -> bool:
        """Flush and close every log and write the checkpoints; false when some log had failed."""
        failed = bool(self.failure())
        for each in self._hosted.values():
            if not each.log.offline:
                each.log.flush()
        if not failed:
            self.checkpoint_recovery_points(durable=True)
            self.checkpoint_starts(durable=True)
            self.checkpoint_high_watermarks(high_watermarks, durable=True)
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
