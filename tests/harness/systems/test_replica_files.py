"""What is read of a stopped node's files: batches, ends, and the controllers' decisions."""

import hashlib
from pathlib import Path
from uuid import UUID

from harness.systems.monitoring.quorum_times import QuorumTimes
from harness.systems.replica_files import (
    METADATA_DIRECTORY,
    first_offset,
    high_watermarks,
    metadata_rows,
    read_batches,
    replica_rows,
)
from nodes.ids import Epoch, NodeId, Offset, TopicPartition
from nodes.log.batch import Record, encode_batch
from nodes.metadata.records import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
    encode,
)
from nodes.raft.positions import SnapshotId
from nodes.raft.snapshot import SnapshotEncoder, file_name
from nodes.raft.voters import VoterSet

P = TopicPartition("t", 0)
TOPIC_ID = UUID(int=5)


def batch(base: int, count: int, epoch: int = 3) -> bytes:
    records = [Record(value=b"v%d" % n) for n in range(count)]
    return encode_batch(
        records, base_offset=Offset(base), leader_epoch=Epoch(epoch), timestamp_ms=1_000
    )


def segment(directory: Path, base: int, data: bytes) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{base:020d}.log").write_bytes(data)


def test_replica_rows_follow_the_segments(tmp_path: Path) -> None:
    """Batches of all segments in order, each with offsets, epoch, size and digest of its bytes."""
    first, second = batch(10, 2), batch(12, 3, epoch=4)
    segment(tmp_path / "t-0", 10, first)
    segment(tmp_path / "t-0", 12, second)
    segment(tmp_path / "t-0", 15, b"")
    rows = list(replica_rows(1, tmp_path, P))
    assert [row[:6] for row in rows] == [(1, "t", 0, 10, 11, 3), (1, "t", 0, 12, 14, 4)]
    assert rows[1][7] == hashlib.blake2b(second, digest_size=16).hexdigest()
    assert [row[8] for row in rows] == [len(first), len(second)]
    assert first_offset(tmp_path, P) == 10


def test_incomplete_batch_or_garbage_ends_the_replica(tmp_path: Path) -> None:
    """An incomplete batch, or bytes that are none, are where the replica ends."""
    segment(tmp_path / "torn", 0, batch(0, 1) + batch(1, 1)[:-1])
    segment(tmp_path / "bad", 0, batch(0, 1) + bytes(100))
    assert [each.header.base_offset for each in read_batches(tmp_path / "torn")] == [0]
    assert [each.header.base_offset for each in read_batches(tmp_path / "bad")] == [0]
    assert list(read_batches(tmp_path / "missing")) == []
    assert first_offset(tmp_path, P) == 0


def test_high_watermarks_come_from_the_checkpoint_file(tmp_path: Path) -> None:
    """A missing file gives none."""
    assert high_watermarks(tmp_path) == {}
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\nt 0 17\n")
    assert high_watermarks(tmp_path) == {P: 17}


def metadata_batch(base: int, *records: bytes, timestamp_ms: int, control: bool = False) -> bytes:
    return encode_batch(
        [Record(value=each) for each in records],
        base_offset=Offset(base),
        leader_epoch=Epoch(1),
        timestamp_ms=timestamp_ms,
        control=control,
    )


def partition_record(leader_epoch: int = 0, *, topic: UUID = TOPIC_ID, leader: int = 1) -> bytes:
    """Partition 0 on nodes 1 and 2."""
    return encode(
        PartitionRecord(
            partition_id=0,
            topic_id=topic,
            replicas=(NodeId(1), NodeId(2)),
            isr=(NodeId(1), NodeId(2)),
            leader=NodeId(leader),
            leader_epoch=Epoch(leader_epoch),
            partition_epoch=2 * leader_epoch,
        )
    )


def test_leader_changes_come_from_the_longest_metadata_log(tmp_path: Path) -> None:
    """Creation and change of a partition are rows at their time since the run's start."""
    created = metadata_batch(
        1,
        encode(TopicRecord(name="t", topic_id=TOPIC_ID)),
        partition_record(),
        timestamp_ms=2_000,
    )
    changed = metadata_batch(
        3,
        encode(
            PartitionChangeRecord(
                partition_id=0, topic_id=TOPIC_ID, isr=(NodeId(2),), leader=NodeId(2)
            )
        ),
        timestamp_ms=2_500,
    )
    mark = metadata_batch(0, b"leader change", timestamp_ms=1_500, control=True)
    segment(tmp_path / "a" / METADATA_DIRECTORY, 0, mark + created)
    segment(tmp_path / "b" / METADATA_DIRECTORY, 0, mark + created + changed)
    log_dirs = [tmp_path / "a", tmp_path / "b", tmp_path / "none"]
    rows = list(metadata_rows(log_dirs, 1_000_000_000, QuorumTimes()))
    assert [
        (row["at_ns"], row["leader"], row["leader_epoch"], row["partition_epoch"], row["isr"])
        for row in rows
    ] == [(1_000_000_000, 1, 0, 0, [1, 2]), (1_500_000_000, 2, 1, 1, [2])]
    assert {row["source"] for row in rows} == {"metadata-log"}
    seen = QuorumTimes()  # the second change came by 1.2 s, whatever its writer's clock says
    seen.record(
        epoch=0, log_end=3, high_watermark=3, asked_ns=1_100_000_000, answered_ns=1_100_000_000
    )
    seen.record(
        epoch=0, log_end=4, high_watermark=4, asked_ns=1_200_000_000, answered_ns=1_200_000_000
    )
    rows = list(metadata_rows(log_dirs, 1_000_000_000, seen))
    assert [row["at_ns"] for row in rows] == [1_000_000_000, 1_200_000_000]


def test_a_topic_that_is_made_again_has_rows_of_its_last_life_only(tmp_path: Path) -> None:
    """Its epochs begin anew: with the rows of both lives, epoch 0 would have two leaders.

    Seed 2220 made a topic again under its name and was INVALID.
    """
    again = UUID(int=TOPIC_ID.int + 1)
    lives = [
        (encode(TopicRecord(name="t", topic_id=TOPIC_ID)), partition_record()),
        (encode(RemoveTopicRecord(topic_id=TOPIC_ID)),),
        (encode(TopicRecord(name="t", topic_id=again)), partition_record(topic=again, leader=2)),
    ]
    log, base = b"", 0
    for records in lives:
        log += metadata_batch(base, *records, timestamp_ms=2_000)
        base += len(records)
    segment(tmp_path / METADATA_DIRECTORY, 0, log)
    rows = list(metadata_rows([tmp_path], 1_000_000_000, QuorumTimes()))
    assert [(row["leader"], row["leader_epoch"]) for row in rows] == [(2, 0)]


def test_metadata_log_without_its_beginning_starts_with_its_snapshot(tmp_path: Path) -> None:
    """The leaders of the snapshot come first, and each is given once."""
    topic = encode(TopicRecord(name="t", topic_id=TOPIC_ID))
    partition = partition_record(leader_epoch=4)
    changed = encode(
        PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=(NodeId(2),), leader=NodeId(2))
    )
    directory = tmp_path / METADATA_DIRECTORY
    snapshot_id = SnapshotId(Offset(12), Epoch(3))
    encoder = SnapshotEncoder(snapshot_id, 1_700)
    parts = (
        encoder.header(1_600, VoterSet(())),
        encoder.batch([topic, partition]),
        encoder.footer(),
    )
    old = metadata_batch(10, topic, partition, timestamp_ms=1_500)
    segment(directory, 10, old + metadata_batch(12, changed, timestamp_ms=2_500))
    (directory / file_name(snapshot_id)).write_bytes(b"".join(parts))
    rows = list(metadata_rows([tmp_path], 1_000_000_000, QuorumTimes()))
    assert [(row["at_ns"], row["leader"], row["leader_epoch"], row["isr"]) for row in rows] == [
        (600_000_000, 1, 4, [1, 2]),
        (1_500_000_000, 2, 5, [2]),
    ]


def test_rows_that_a_snapshot_replaced_come_from_another_copy(tmp_path: Path) -> None:
    """The copy that an election prefers begins at offset 12; the other one has what is before."""
    topic = encode(TopicRecord(name="t", topic_id=TOPIC_ID))
    created = partition_record()
    shrunk, moved = (
        encode(
            PartitionChangeRecord(
                partition_id=0, topic_id=TOPIC_ID, isr=(NodeId(2),), leader=NodeId(leader)
            )
        )
        for leader in (1, 2)
    )
    whole, short = (tmp_path / name / METADATA_DIRECTORY for name in ("whole", "short"))
    begun = metadata_batch(0, topic, created, timestamp_ms=1_100)
    change = metadata_batch(2, shrunk, timestamp_ms=1_200)
    last = metadata_batch(3, moved, timestamp_ms=1_300)
    segment(whole, 0, begun + change)
    segment(short, 3, last)
    rows = list(metadata_rows([tmp_path / "whole", tmp_path / "short"], 10**9, QuorumTimes()))
    assert [(row["log_offset"], row["leader"], row["isr"]) for row in rows] == [
        (1, 1, [1, 2]),
        (2, 1, [2]),
        (3, 2, [2]),
    ]
