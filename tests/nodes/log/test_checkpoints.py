"""Kafka's text files: their exact bytes, and what damage to them says."""

from uuid import UUID

import pytest

from nodes.ids import Epoch, NodeId, Offset, TopicPartition
from nodes.log.checkpoints import (
    CLEAN_SHUTDOWN,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    REPLICATION_OFFSETS,
    CheckpointError,
    CleanShutdown,
    LeaderEpochCheckpoint,
    MetaProperties,
    OffsetCheckpoint,
    PartitionMetadata,
)
from nodes.storage.memory import MemoryDisk


def test_offset_checkpoints_have_kafkas_bytes() -> None:
    """Version, count, and a row per partition; and back."""
    disk = MemoryDisk()
    checkpoint = OffsetCheckpoint(disk, REPLICATION_OFFSETS)
    assert checkpoint.read() == {}
    offsets = {TopicPartition("orders", 0): Offset(17), TopicPartition("a.b-c_d", 12): Offset(0)}
    checkpoint.write(offsets)
    assert disk.read(REPLICATION_OFFSETS) == b"0\n2\norders 0 17\na.b-c_d 12 0\n"
    assert checkpoint.read() == offsets
    disk.crash()
    assert checkpoint.read() == offsets


def test_leader_epochs_have_kafkas_bytes() -> None:
    """Version, count, and a row per epoch; and back."""
    disk = MemoryDisk()
    disk.makedirs("t-0")
    checkpoint = LeaderEpochCheckpoint(disk, "t-0")
    checkpoint.write([(Epoch(0), Offset(0)), (Epoch(3), Offset(42))])
    assert disk.read("t-0/leader-epoch-checkpoint") == b"0\n2\n0 0\n3 42\n"
    assert checkpoint.read() == [(0, 0), (3, 42)]


@pytest.mark.parametrize(
    "text", [b"", b"1\n0\n", b"0\n2\nt 0 1\n", b"0\n1\nt 0\n", b"0\n1\nt 0 x\n", b"0\nx\n", b"\xff"]
)
def test_damaged_tables_are_refused(text: bytes) -> None:
    """The error names the file."""
    disk = MemoryDisk()
    disk.write_atomic(RECOVERY_POINTS, text)
    with pytest.raises(CheckpointError, match=RECOVERY_POINTS):
        OffsetCheckpoint(disk, RECOVERY_POINTS).read()


def test_meta_properties_round_trip() -> None:
    """With and without a directory id; comments and unknown properties are passed over."""
    disk = MemoryDisk()
    assert MetaProperties.read(disk) is None
    for properties in (
        MetaProperties(cluster_id="abc", node_id=NodeId(3)),
        MetaProperties(cluster_id="abc", node_id=NodeId(3), directory_id="dir"),
    ):
        properties.write(disk)
        assert MetaProperties.read(disk) == properties
    disk.write_atomic(META_PROPERTIES, b"#Fri\nversion=1\nnode.id=7\nx=y\ncluster.id=a=b\n")
    assert MetaProperties.read(disk) == MetaProperties(cluster_id="a=b", node_id=NodeId(7))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"version=0\nbroker.id=1\n", "version 0"),
        (b"version=1\nnode.id=1\n", "cluster.id"),
        (b"version=1\nnode.id=one\ncluster.id=c\n", "'one'"),
    ],
)
def test_damaged_meta_properties_are_refused(text: bytes, message: str) -> None:
    """The error says what is wrong."""
    disk = MemoryDisk()
    disk.write_atomic(META_PROPERTIES, text)
    with pytest.raises(CheckpointError, match=message):
        MetaProperties.read(disk)


def test_the_clean_shutdown_file_stays_removed_after_a_crash() -> None:
    """KAFKA-10471: a crash while loading logs must not look clean to the next start."""
    disk = MemoryDisk()
    mark = CleanShutdown(disk)
    assert mark.take() is None
    mark.write(41)
    assert disk.read(CLEAN_SHUTDOWN) == b'{"version":0,"brokerEpoch":41}'
    disk.crash()
    assert mark.take() == 41
    disk.crash()
    assert mark.take() is None


def test_an_empty_clean_shutdown_file_has_no_broker_epoch() -> None:
    """Kafka before 3.7 wrote an empty file."""
    disk = MemoryDisk()
    disk.write_atomic(CLEAN_SHUTDOWN, b"")
    assert CleanShutdown(disk).take() == -1


def test_partition_metadata_names_the_topic() -> None:
    """Kafka's two lines, the id in URL-safe base 64."""
    disk = MemoryDisk()
    disk.makedirs("t-0")
    assert PartitionMetadata.read(disk, "t-0") is None
    written = PartitionMetadata(topic_id=UUID(int=2**127 + 62))
    written.write(disk, "t-0")
    assert disk.read("t-0/partition.metadata") == b"version: 0\ntopic_id: gAAAAAAAAAAAAAAAAAAAPg\n"
    assert PartitionMetadata.read(disk, "t-0") == written


WHOLE = b"version: 0\ntopic_id: gAAAAAAAAAAAAAAAAAAAPg\n"


@pytest.mark.parametrize("left", [*(WHOLE[:size] for size in range(len(WHOLE) - 1)), bytes(43)])
def test_a_file_that_a_power_loss_cut_short_names_no_topic(left: bytes) -> None:
    """The file is not synced when it is written. Zeros may stand where its end was."""
    disk = MemoryDisk()
    disk.makedirs("t-0")
    for found in (left, left.ljust(len(WHOLE), b"\0")):
        disk.write_atomic("t-0/partition.metadata", found)
        assert PartitionMetadata.read(disk, "t-0") is None


@pytest.mark.parametrize(
    "text", [b"version: 1\ntopic_id: gAAAAAAAAAAAAAAAAAAAPg\n", b"version: 0\n\n", b"version: 1",
             b"version: 0\ntopic_id: gAAAAAAAAAAAAAAAAA\n", b"version: 0\ntopic_id: ??\n", b"\xff"],
)  # fmt: skip
def test_damaged_partition_metadata_is_refused(text: bytes) -> None:
    """Of another version, or no id."""
    disk = MemoryDisk()
    disk.makedirs("t-0")
    disk.write_atomic("t-0/partition.metadata", text)
    with pytest.raises(CheckpointError, match=r"partition\.metadata"):
        PartitionMetadata.read(disk, "t-0")


def test_a_partly_written_table_is_refused() -> None:
    """A number cut short would be another number."""
    disk = MemoryDisk()
    checkpoint = OffsetCheckpoint(disk, LOG_START_OFFSETS)
    checkpoint.write({TopicPartition("t", 0): Offset(12345)})
    whole = disk.read(LOG_START_OFFSETS)
    assert checkpoint.read() == {TopicPartition("t", 0): 12345}
    for size in range(len(whole)):
        disk.write_atomic(LOG_START_OFFSETS, whole[:size])
        with pytest.raises(CheckpointError):
            checkpoint.read()
