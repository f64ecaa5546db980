"""The log cleaner of a broker: which log it cleans, when, and how fast."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import pytest

from nodes.config import CleanerSettings
from nodes.ids import Epoch, Offset, TopicPartition
from nodes.log.checkpoints import CLEANER_OFFSETS, OffsetCheckpoint
from nodes.log.cleaning import cleaner
from nodes.log.config import CompactionConfig
from nodes.log.log import Log
from nodes.server.replicas.log_cleaner import LogCleaner
from nodes.storage.memory import MemoryDisk, MemoryFile
from tests.nodes.server.test_broker import consume, produce
from tests.support.nodes import virtual_time
from tests.support.nodes.batches import DIRECTORY, open_log
from tests.support.nodes.cleaning import COMPACTED, folded, has_no_gap, keyed, pairs_of, roll
from tests.support.nodes.cluster import Cluster, eventually, running

SETTINGS = CleanerSettings(
    enabled=True,
    backoff_ms=15_000,
    dedupe_buffer_bytes=1 << 20,
    io_buffer_bytes=1 << 16,
    buffer_load_factor=0.9,
    max_bytes_per_second=1e308,
)
EAGER = replace(COMPACTED, compaction=CompactionConfig(min_dirty_ratio=0.0))


# --- with logs in memory, in virtual time


@dataclass
class FakeReplica:
    """A replica whose log is all committed, unless it says otherwise."""

    name: str
    disk: MemoryDisk = field(default_factory=MemoryDisk)
    committed: int | None = None
    retired: bool = False
    topic_id: UUID = field(init=False)
    partition: TopicPartition = field(init=False)
    log: Log = field(init=False)

    def __post_init__(self) -> None:
        self.topic_id, self.partition = UUID(int=len(self.name)), TopicPartition(self.name, 0)
        self.log = open_log(self.disk, config=EAGER)

    @property
    def decided_offset(self) -> Offset:
        return self.log.end_offset if self.committed is None else Offset(self.committed)

    def write(self, count: int) -> None:
        """One key again and again; all segments are sealed then."""
        for number in range(count):
            self.log.append_as_leader(keyed((b"a", b"%d" % number)), Epoch(1))
        roll(self.log, EAGER)


class FakeReplicas:
    """The replica manager and the log directory, as the cleaner sees them."""

    def __init__(self, replicas: Iterable[FakeReplica]) -> None:
        self.replicas = list(replicas)
        self.logs = self
        self.cleaned: dict[TopicPartition, Offset] = {}

    def all(self) -> list[FakeReplica]:
        return self.replicas

    def find(self, partition: TopicPartition) -> FakeReplica | None:
        return next((r for r in self.replicas if r.partition == partition and not r.retired), None)

    async def checkpoint_cleaned(self, partition: TopicPartition, end: Offset) -> None:
        self.cleaned[partition] = end


def clean_for(
    seconds: float, replicas: FakeReplicas, settings: CleanerSettings = SETTINGS
) -> LogCleaner:
    """Let a cleaner run in virtual time."""

    async def run() -> LogCleaner:
        loop = asyncio.get_running_loop()
        made: Any = replicas
        found = LogCleaner(settings, made, lambda: loop.time() * 1000, lambda: 5000)
        found.start()
        await asyncio.sleep(seconds)
        found.stop()
        return found

    return virtual_time.run(run())


def test_every_due_log_is_cleaned_and_checkpointed() -> None:
    replicas = FakeReplicas([FakeReplica("a"), FakeReplica("bb")])
    for replica in replicas.replicas:
        replica.write(9)
    clean_for(1, replicas)
    for replica in replicas.replicas:
        assert pairs_of(replica.log) == [(8, b"a", b"8")]
        assert replicas.cleaned[replica.partition] == 9


def test_only_committed_records_are_cleaned() -> None:
    """KAFKA-13194. The others supersede nothing either; whole segments are cleaned."""
    replica = FakeReplica("a", committed=7)
    replica.write(9)
    clean_for(1, FakeReplicas([replica]))
    assert [offset for offset, _, _ in pairs_of(replica.log)] == [4, 5, 6, 7, 8]


def test_log_is_cleaned_again_after_the_backoff_when_it_is_dirty_again() -> None:
    replica = FakeReplica("a")
    replica.write(9)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        made: Any = FakeReplicas([replica])
        found = LogCleaner(SETTINGS, made, lambda: loop.time() * 1000, lambda: 5000)
        found.start()
        await asyncio.sleep(1)
        replica.write(9)
        await asyncio.sleep(13.5)
        assert len(pairs_of(replica.log)) == 10
        await asyncio.sleep(1)
        assert len(pairs_of(replica.log)) == 1
        found.stop()

    virtual_time.run(run())


def test_disabled_cleaner_cleans_nothing() -> None:
    replica = FakeReplica("a")
    replica.write(9)
    clean_for(1, FakeReplicas([replica]), replace(SETTINGS, enabled=False))
    assert len(pairs_of(replica.log)) == 9


def test_log_that_is_not_compacted_is_left_alone() -> None:
    replica = FakeReplica("a")
    replica.write(9)
    replica.log.configure(replace(EAGER, compaction=None))
    clean_for(1, FakeReplicas([replica]))
    assert len(pairs_of(replica.log)) == 9


def test_damaged_log_is_left_alone_and_the_others_are_cleaned() -> None:
    replicas = FakeReplicas([FakeReplica("a"), FakeReplica("bb")])
    for replica in replicas.replicas:
        replica.write(9)
    damaged, other = replicas.replicas
    damaged.disk.corrupt(f"{DIRECTORY}/{0:020d}.log", 68)
    clean_for(40, replicas)
    assert not damaged.log.offline
    assert len(pairs_of(other.log)) == 1
    assert [*replicas.cleaned] == [other.partition]


def test_reads_and_writes_are_throttled(monkeypatch: pytest.MonkeyPatch) -> None:
    """9 batches are read twice, and one is written: about 1,300 bytes."""
    monkeypatch.setattr(cleaner, "SLICE_US", 0.0)
    replica = FakeReplica("a")
    replica.write(9)
    slow = replace(SETTINGS, max_bytes_per_second=100.0)
    replicas = FakeReplicas([replica])
    clean_for(9, replicas, slow)
    assert not replicas.cleaned
    clean_for(14, replicas, slow)
    assert replicas.cleaned


def test_failing_disk_takes_the_log_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the node stops, as after every failed write."""
    replica = FakeReplica("a")
    replica.write(9)
    replica.log.flush()

    def fail(file: MemoryFile, data: bytes) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(MemoryFile, "append", fail)
    clean_for(40, FakeReplicas([replica]))
    assert "the disk is full" in replica.log.offline


def test_cleaner_that_is_stopped_leaves_no_files() -> None:
    replica = FakeReplica("a")
    replica.write(9)
    clean_for(3, FakeReplicas([replica]), replace(SETTINGS, max_bytes_per_second=100.0))
    assert len(pairs_of(replica.log)) == 9
    assert not [name for name in replica.disk.listdir(DIRECTORY) if name.endswith(".cleaned")]


# --- on whole nodes

T0 = TopicPartition("t", 0)
CONFIGS = {"cleanup.policy": "compact", "segment.bytes": "400", "min.cleanable.dirty.ratio": "0.01"}


def log_of(cluster: Cluster, node: int) -> Log:
    """A node's log of the partition."""
    instance = cluster.nodes[node]
    assert instance is not None
    assert instance.broker is not None
    replica = instance.broker.replicas.find(T0)
    assert replica is not None
    return replica.log


async def create(cluster: Cluster, replicas: int) -> int:
    """The compacted topic; its leader."""
    configs = [{"name": name, "value": value} for name, value in CONFIGS.items()]
    await cluster.create_topic("t", num_partitions=1, replication_factor=replicas, configs=configs)
    return await cluster.leader("t", isr=replicas)


async def write(cluster: Cluster, leader: int, first: int, count: int) -> None:
    for number in range(first, first + count):
        pair = b"%d" % (number % 3), b"%d" % number
        assert (await produce(cluster, leader, keyed(pair))).error_code == 0


def test_each_replica_is_cleaned_and_a_new_one_copies_the_cleaned_log() -> None:
    """Their batches differ, and mean the same; the reader gets what stands after an old offset."""

    async def run() -> None:
        async with running(2, log_cleaner_backoff_ms="20") as cluster:
            leader = await create(cluster, 2)
            follower = 3 - leader
            await write(cluster, leader, 0, 40)

            async def cleaned() -> bool:
                return all(len(pairs_of(log_of(cluster, node))) < 12 for node in cluster.ids)

            await eventually(cleaned)
            state = folded(log_of(cluster, leader))
            assert state == {b"0": b"39", b"1": b"37", b"2": b"38"}
            assert folded(log_of(cluster, follower)) == state
            got = await consume(cluster, leader, 5)
            assert got.error_code == 0
            assert got.records
            await cluster.stop(follower)
            await write(cluster, leader, 40, 20)
            disk = cluster.disks[follower]
            for name in disk.listdir("t-0"):
                disk.unlink(f"t-0/{name}")
            disk.remove_dir("t-0")
            await cluster.start(follower)
            await cluster.leader("t", isr=2)
            copy = log_of(cluster, follower)
            assert has_no_gap(copy)
            assert folded(copy) == {b"0": b"57", b"1": b"58", b"2": b"59"}
            assert copy.end_offset == 60

    asyncio.run(run())


def test_checkpoint_is_removed_with_the_topic() -> None:
    """Otherwise a topic of the same name would count as clean."""

    async def run() -> None:
        async with running(1, log_cleaner_backoff_ms="20") as cluster:
            leader = await create(cluster, 1)
            await write(cluster, leader, 0, 20)

            async def checkpointed() -> bool:
                return T0 in OffsetCheckpoint(cluster.disks[1], CLEANER_OFFSETS).read()

            await eventually(checkpointed)
            await cluster.ask(1, 20, 6, topics=[{"name": "t"}], timeout_ms=5000)
            await create(cluster, 1)
            assert not await checkpointed()

    asyncio.run(run())


def test_broker_without_compacted_topics_has_no_cleaner() -> None:
    """Until one gets the policy; no file is written before."""

    async def run() -> None:
        async with running(1, log_cleaner_backoff_ms="20") as cluster:
            await cluster.create_topic("t", num_partitions=1, replication_factor=1)
            await cluster.leader("t")
            instance = cluster.nodes[1]
            assert instance is not None
            assert instance.broker is not None
            assert instance.broker._cleaner._task is None
            change = [
                {"name": name, "config_operation": 0, "value": value}
                for name, value in CONFIGS.items()
            ]
            resource = {"resource_type": 2, "resource_name": "t", "configs": change}
            await cluster.ask(1, 44, 1, resources=[resource])
            await write(cluster, 1, 0, 40)

            async def cleaned() -> bool:
                return len(pairs_of(log_of(cluster, 1))) < 12

            await eventually(cleaned)

    asyncio.run(run())
