"""A change of a partition takes effect with the configuration of its time, however late."""

import asyncio
from uuid import UUID

import pytest

from nodes.ids import Epoch, NodeId, Offset, TopicPartition
from nodes.metadata.image import ClusterImage
from nodes.metadata.records import (
    TOPIC_RESOURCE,
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
)
from nodes.replication.partition import Role
from nodes.server.replicas import backlog
from nodes.server.replicas.manager import ReplicaManager
from nodes.storage.memory import MemoryDisk
from tests.support.nodes.batches import batch
from tests.support.nodes.broker_lives import CONFIG, HERE, OTHER, new_topic

ID = UUID(int=1)
T0 = TopicPartition("t", 0)


class World:
    """A broker that leads one partition, and the metadata log."""

    def __init__(self) -> None:
        self.image = ClusterImage()
        self.manager = ReplicaManager(CONFIG, MemoryDisk(), lambda: 0.0, clean_start=True)

    def change(self, *records: MetadataRecord) -> None:
        """The broker reads a batch of the metadata log."""
        offset = Offset(self.image.offset + len(records))
        self.image, delta = self.image.apply(records, offset, Epoch(1))
        self.manager.apply_delta(self.image, delta)

    async def lead(self) -> None:
        """The broker leads; its follower is in sync, and has nothing yet."""
        await self.manager.recover()
        self.manager.activate()
        self.minimum(2)
        self.change(*new_topic("t", ID))
        await settled()

    def minimum(self, replicas: int) -> None:
        """Set the topic's min.insync.replicas."""
        self.change(
            ConfigRecord(
                resource_type=TOPIC_RESOURCE,
                resource_name="t",
                name="min.insync.replicas",
                value=str(replicas),
            )
        )

    def isr(self, *nodes: NodeId, leader: NodeId | None = None) -> None:
        """Set the ISR, and a leader."""
        elected = {} if leader is None else {"leader": leader}
        self.change(PartitionChangeRecord(partition_id=0, topic_id=ID, isr=nodes, **elected))


async def settled() -> None:
    """Every step has run."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize("lowered_first", [True, False])
def test_leader_commits_alone_only_where_the_minimum_was_lower_at_the_time(
    monkeypatch: pytest.MonkeyPatch, *, lowered_first: bool
) -> None:
    """A leader that was cut off reads of its smaller ISR, its successor and a lower minimum. The
    steps of a turn are bounded, so the broker has read all three before the first takes effect.
    """
    monkeypatch.setattr(backlog, "STEPS_PER_TURN", 1)

    async def run() -> None:
        world = World()
        await world.lead()
        replica = world.manager.find(T0)
        assert replica is not None
        replica.append(batch(1))
        world.change(*new_topic("other", UUID(int=2)))  # its steps come first
        if lowered_first:
            world.minimum(1)
        world.isr(HERE)
        world.isr(OTHER, leader=OTHER)
        if not lowered_first:
            world.minimum(1)
        await settled()
        assert replica.state.role is Role.FOLLOWER
        assert replica.state.min_isr == 1
        assert replica.state.high_watermark == (1 if lowered_first else 0)

    asyncio.run(run())
