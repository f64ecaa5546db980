"""How the controller carries out its records: conditions, conflicts, batches."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, cast
from uuid import UUID

import pytest

from harness.simulation.world.host import Host
from harness.simulation.world.network.network import Network
from harness.simulation.world.world import World
from harness.simulation.world.zookeeper import SimEnsemble, SimZooKeeper
from nodes.ids import BrokerEpoch, Epoch, NodeId, Offset
from nodes.metadata.image import ClusterImage
from nodes.metadata.records import (
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)
from nodes.server.zookeeper.announcements import Announcements
from nodes.server.zookeeper.broker_channels import BrokerChannels
from nodes.server.zookeeper.commits import Commits, Deposed
from nodes.wire.controller_requests import LeaderAndIsrRequest, UpdateMetadataRequest
from nodes.zookeeper import paths, requests, znodes
from nodes.zookeeper.broker_view import registration

TOPIC = UUID(int=1)


class Channels:
    """Collects what is sent to each broker."""

    def __init__(self) -> None:
        self.sent: list[tuple[NodeId, Any]] = []

    def send(self, node: NodeId, found: Iterable[Any], done: object = None) -> None:
        self.sent += [(node, request) for request in found]

    def sizes(self, node: int, kind: type) -> list[int]:
        """How many partitions each request of a kind names."""
        return [
            sum(len(topic.partition_states) for topic in request.topic_states)
            for to, request in self.sent
            if to == node and isinstance(request, kind)
        ]


def nodes(*numbers: int) -> tuple[NodeId, ...]:
    return tuple(NodeId(number) for number in numbers)


def new_topic(count: int) -> list[MetadataRecord]:
    return [
        TopicRecord(name="t", topic_id=TOPIC),
        *(
            PartitionRecord(
                partition_id=number,
                topic_id=TOPIC,
                replicas=nodes(1, 2),
                isr=nodes(1, 2),
                leader=NodeId(1),
                leader_epoch=Epoch(0),
                partition_epoch=0,
            )
            for number in range(count)
        ),
    ]


def change(number: int, isr: tuple[NodeId, ...]) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=number, topic_id=TOPIC, isr=isr, leader=isr[0])


Main = Callable[[Commits, Channels, SimEnsemble], Awaitable[None]]


def with_commits(main: Main, *, batched: bool = True) -> None:
    """Run `main` with a controller of epoch 1 and two live brokers."""
    world = World(1)
    ensemble = SimEnsemble(world)
    host = Host(world, Network(world), 1)

    async def run() -> None:
        assert host.loop is not None
        client = ensemble.client(host.loop, 60_000)
        await client.connect(1000, lambda state: None)
        commits, channels = await _made(client, batched=batched)
        await main(commits, channels, ensemble)

    try:
        world.run_until(host.boot(run), 60)
    finally:
        host.kill()
        world.end()


async def _made(client: SimZooKeeper, *, batched: bool) -> tuple[Commits, Channels]:
    for path in paths.PERSISTENT:
        await client.create(path)
    stat = await client.create(paths.CONTROLLER_EPOCH, znodes.controller_epoch(1))
    channels = Channels()
    sender = requests.Sender(node_id=NodeId(1), epoch=1)
    announcements = Announcements(cast(BrokerChannels, channels), sender)
    commits = Commits(client, announcements, 1, stat.version, batched=batched)
    brokers = [registration(node, BrokerEpoch(node), (), None) for node in nodes(1, 2)]
    commits.image, _ = ClusterImage().apply(brokers, Offset(0), Epoch(1))
    return commits, channels


def decided(*records: MetadataRecord) -> Callable[[], Sequence[MetadataRecord]]:
    """A decision that is made once."""
    left = [list(records)]
    return lambda: left.pop() if left else []


def state(ensemble: SimEnsemble, number: int) -> znodes.StateZnode:
    return znodes.read_state(ensemble.tree.get(paths.state("t", number))[0])


def test_deposed_controller_writes_nothing() -> None:
    """A newer controller has raised the epoch; not even a read is left to this one's choice."""

    async def main(commits: Commits, channels: Channels, ensemble: SimEnsemble) -> None:
        await commits.commit(decided(*new_topic(1)))
        channels.sent.clear()
        ensemble.tree.set(paths.CONTROLLER_EPOCH, znodes.controller_epoch(2))
        with pytest.raises(Deposed, match="controller epoch 1 is over"):
            await commits.commit(decided(change(0, nodes(2))))
        with pytest.raises(Deposed):
            await commits.remove(paths.state("t", 0))
        assert state(ensemble, 0).isr == nodes(1, 2)
        assert channels.sent == []

    with_commits(main)


@pytest.mark.parametrize("batched", [True, False])
def test_conflict_is_read_and_told_and_decided_again(batched: bool) -> None:
    """The leader has changed the ISR meanwhile. Brokers hear of its change, and of the next."""

    async def main(commits: Commits, channels: Channels, ensemble: SimEnsemble) -> None:
        await commits.commit(decided(*new_topic(2)))
        channels.sent.clear()
        written = znodes.StateZnode(
            leader=NodeId(1), leader_epoch=Epoch(0), isr=nodes(1), controller_epoch=1
        )
        ensemble.tree.set(paths.state("t", 1), znodes.state(written))
        seen: list[tuple[NodeId, ...]] = []

        def decide() -> list[MetadataRecord]:
            records: list[MetadataRecord] = []
            for number in (0, 1):
                found = commits.image.partition("t", number)
                assert found is not None
                if found.isr == nodes(1, 2):
                    records.append(change(number, nodes(2)))
                seen.append(found.isr)
            return records

        await commits.commit(decide)
        assert seen == [nodes(1, 2), nodes(1, 2), nodes(2), nodes(1)]
        assert (state(ensemble, 0).isr, state(ensemble, 1)) == (nodes(2), written)
        told = [
            (partition.partition_index, partition.isr, partition.partition_epoch)
            for node, request in channels.sent
            if node == 2 and isinstance(request, LeaderAndIsrRequest)
            for topic in request.topic_states
            for partition in topic.partition_states
        ]
        assert told == [(0, nodes(2), 1), (1, nodes(1), 1)]

    with_commits(main, batched=batched)


@pytest.mark.parametrize(("batched", "sizes"), [(True, [7]), (False, [1, 1, 1, 1, 1, 1, 1])])
def test_partitions_are_sent_together_or_one_after_another(batched: bool, sizes: list[int]) -> None:
    """`control.batched`: one request for all partitions of a broker, or one for each."""

    async def main(commits: Commits, channels: Channels, ensemble: SimEnsemble) -> None:
        await commits.commit(decided(*new_topic(7)))
        channels.sent.clear()
        began = asyncio.get_running_loop().time()
        await commits.commit(decided(*(change(number, nodes(2)) for number in range(7))))
        took_ms = 1000 * (asyncio.get_running_loop().time() - began)
        assert channels.sizes(2, LeaderAndIsrRequest) == sizes
        assert channels.sizes(1, UpdateMetadataRequest) == sizes
        assert took_ms == pytest.approx(1 if batched else 7, rel=0.01)

    with_commits(main, batched=batched)
