"""Reads the files of stopped nodes: the batches of every replica, and the metadata log.

Only Kafka's own file formats are read, so it works on Apache Kafka's log directories too. A partly
written last batch is left out. Bytes that are no batch end the replica there, as they end a
recovery. Judging differences is left to the checkers.
"""

import contextlib
import hashlib
import mmap
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from harness.systems.metadata_log import Records, committed, decode_relevant
from harness.systems.monitoring.quorum_times import QuorumTimes, Stamp
from nodes.ids import Epoch, Offset, TopicPartition
from nodes.log.batch import BatchHeader, decode_records, iter_batches
from nodes.log.checkpoints import (
    META_PROPERTIES,
    REPLICATION_OFFSETS,
    MetaProperties,
    OffsetCheckpoint,
    decode_uuid,
)
from nodes.log.errors import CorruptBatch
from nodes.metadata.image import ClusterImage, Delta, PartitionImage, PartitionKey
from nodes.raft.errors import SnapshotCorrupt
from nodes.raft.snapshot import Snapshot, id_of
from nodes.raft.snapshot import read as read_snapshot
from nodes.storage.local import LocalDisk

METADATA_DIRECTORY = "__cluster_metadata-0"
DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One record batch of a file; `data` is valid until the next batch is read."""

    header: BatchHeader
    data: memoryview


def read_batches(directory: Path) -> Iterator[Batch]:
    """Yield the batches of a partition's directory in file order; none if it does not exist."""
    for segment in sorted(directory.glob("*.log")):
        if segment.stat().st_size == 0:
            continue
        with (
            segment.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
            memoryview(mapped) as view,
        ):
            batches = iter_batches(view)
            while True:
                try:
                    position, header = next(batches)
                except StopIteration:
                    break
                except CorruptBatch:
                    return
                with view[position : position + header.size] as data:
                    yield Batch(header=header, data=data)


def replica_rows(
    node: int, log_dir: Path, partition: TopicPartition
) -> Iterator[tuple[int, str, int, int, int, int, int, str, int]]:
    """Yield rows of checkers.history.history.REPLICAS for one replica, in the order of columns."""
    for batch in read_batches(log_dir / str(partition)):
        header = batch.header
        yield (
            node, partition.topic, partition.partition, header.base_offset, header.last_offset,
            header.partition_leader_epoch, header.crc,
            hashlib.blake2b(batch.data, digest_size=DIGEST_BYTES).hexdigest(), header.size,
        )  # fmt: skip


def first_offset(log_dir: Path, partition: TopicPartition) -> int:
    """Return the first offset of a replica's log, by its first segment's name; 0 without one."""
    names = sorted(path.stem for path in (log_dir / str(partition)).glob("*.log"))
    return int(names[0]) if names else 0


def directory_id(log_dir: Path) -> UUID | None:
    """Return a log directory's id; None if it was never formatted. Raises CheckpointError.

    A voter of the metadata quorum is a node together with its directory id (KIP-853).
    """
    found = MetaProperties.read(LocalDisk(log_dir))
    if found is None or found.directory_id is None:
        return None
    return decode_uuid(META_PROPERTIES, found.directory_id)


def high_watermarks(log_dir: Path) -> dict[TopicPartition, Offset]:
    """Return every replica's high watermark checkpoint. Raises
    nodes.log.checkpoints.CheckpointError."""
    return OffsetCheckpoint(LocalDisk(log_dir), REPLICATION_OFFSETS).read()


def metadata_rows(
    log_dirs: Sequence[Path], started_wall_ns: int, times: QuorumTimes
) -> Iterator[dict[str, Any]]:
    """Yield the controllers' decisions as rows of checkers.history.history.CLUSTER: leader, fenced,
    unfenced.

    They come from the metadata log that a quorum election would prefer: by last epoch, then by
    length. Its wall-clock timestamps, precise to a millisecond, count from `started_wall_ns` if
    `times` says that they are plausible. If its beginning was deleted, the rows before come from
    logs that still have them; what no log has is replaced by the leaders of the oldest snapshot.
    The logs are read twice, first for timestamps and topic ids only, so that the log of a week need
    not fit into memory. Rows have no topic ids, and a topic that is created again under its name
    begins its epochs anew: so of topics with one name only the last one has rows.
    """
    logs = _joined([log_dir / METADATA_DIRECTORY for log_dir in log_dirs])
    if not logs:
        return
    offsets = array("q")
    last_topics: dict[str, UUID] = {}

    def stamps() -> Iterator[Stamp]:
        for stamp, delta in _changes(logs, started_wall_ns):
            offsets.append(stamp.offset)
            made = (key for key, change in delta.partitions.items() if change.after is not None)
            last_topics.update({key.topic: key.topic_id for key in made})
            yield stamp

    placed = times.place(stamps())
    for stamp, delta in _changes(logs, started_wall_ns):
        number = bisect_left(offsets, stamp.offset)
        if number < len(offsets):  # a cluster that was left running goes on writing
            for row in _decision_rows(delta, last_topics):
                origin = {"log_offset": stamp.offset, "source": "metadata-log"}
                yield {"at_ns": placed[number], **origin, **row}


@dataclass(frozen=True, slots=True, kw_only=True)
class _MetadataLog:
    """A copy of the metadata log; below `start` it has nothing, and only up to `end` it counts."""

    directory: Path
    start: Offset
    end: Offset


def _joined(directories: Sequence[Path]) -> list[_MetadataLog]:
    """Return the log that an election would prefer, last, and before it other copies that have what
    it lacks: each has everything from its start to the start of the next one."""
    if not directories:
        return []
    known = {each: _extent(each) for each in directories}
    best = max(directories, key=lambda each: known[each].position)
    logs = [_MetadataLog(directory=best, start=known[best].start, end=Offset(1 << 62))]
    while (start := logs[0].start) > 0:
        older = [
            each for each, extent in known.items() if extent.start < start <= extent.position[1] + 1
        ]
        if not older:
            break
        first = min(older, key=lambda each: known[each].start)
        logs.insert(0, _MetadataLog(directory=first, start=known[first].start, end=start))
    return logs


def _changes(logs: Sequence[_MetadataLog], started_wall_ns: int) -> Iterator[tuple[Stamp, Delta]]:
    """Yield the changes of each batch of a metadata log, with the batch's own timestamp."""
    image = ClusterImage()
    if (snapshot := _first_snapshot(logs[0])) is not None:
        records = decode_relevant(snapshot.records)
        last = Offset(snapshot.snapshot_id.offset - 1)
        image, delta = image.apply(records, last, snapshot.snapshot_id.epoch)
        at_ns = snapshot.last_timestamp_ms * 1_000_000 - started_wall_ns
        yield Stamp(last, snapshot.snapshot_id.epoch, at_ns), delta
    for header, records in _committed(logs, after=image.offset):
        image, delta = image.apply(records, header.last_offset, header.partition_leader_epoch)
        at_ns = header.max_timestamp * 1_000_000 - started_wall_ns
        yield Stamp(header.last_offset, header.partition_leader_epoch, at_ns), delta


def _committed(
    logs: Sequence[_MetadataLog], *, after: Offset
) -> Iterator[tuple[BatchHeader, Records]]:
    """Yield the batches of a metadata log after an offset, with the records that take effect."""
    last: list[BatchHeader] = []

    def read() -> Iterator[Records]:
        for log in logs:
            for batch in read_batches(log.directory):
                if batch.header.base_offset >= log.end:
                    break
                if not batch.header.is_control and batch.header.last_offset > after:
                    last[:] = [batch.header]
                    yield decode_relevant(record.value for record in decode_records(batch.data))

    for records in committed(read()):
        yield last[0], records


def _decision_rows(delta: Delta, topics: Mapping[str, UUID]) -> Iterator[dict[str, Any]]:
    """Yield what one batch changed of brokers, and of the partitions of these topics."""
    for node, broker in delta.brokers.items():
        if broker.after is not None:
            yield {"kind": "fenced" if broker.after.fenced else "unfenced", "node": int(node)}
    for key, partition in delta.partitions.items():
        if partition.after is not None and topics.get(key.topic) == key.topic_id:
            yield _leader_row(key, partition.after)


def _leader_row(key: PartitionKey, after: PartitionImage) -> dict[str, Any]:
    return {
        "kind": "leader",
        "topic": key.topic,
        "partition": key.partition,
        "leader": after.leader if after.leader >= 0 else None,
        "leader_epoch": after.leader_epoch,
        "partition_epoch": after.partition_epoch,
        "isr": list(after.isr),
        "elr": list(after.elr),
        "replicas": list(after.replicas),
    }


def _first_snapshot(log: _MetadataLog) -> Snapshot | None:
    """Return the oldest snapshot of a log whose beginning was deleted; None if it starts at 0."""
    if log.start == 0:
        return None
    for path in sorted(log.directory.glob("*.checkpoint")):
        snapshot_id = id_of(path.name)
        with contextlib.suppress(SnapshotCorrupt):
            if snapshot_id is not None:
                return read_snapshot(snapshot_id, path.read_bytes())
    return None


class _Extent(NamedTuple):
    """Where a copy of the metadata log starts, and the position of its last batch."""

    start: Offset
    position: tuple[Epoch, Offset]


def _extent(directory: Path) -> _Extent:
    start, epoch, offset = Offset(0), Epoch(-1), Offset(-1)
    for batch in read_batches(directory):
        if offset < 0:
            start = batch.header.base_offset
        epoch, offset = batch.header.partition_leader_epoch, batch.header.last_offset
    return _Extent(start, (epoch, offset))
