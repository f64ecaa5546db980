"""Replicas that may all have lost records report their logs: one power loss loses nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode

from harness.simulation.world.cluster import SimCluster
from harness.simulation.world.guard import guard
from harness.simulation.world.host import Mode
from harness.simulation.world.world import World
from harness.systems.node_roles import Layout
from harness.zoo.schedules.load import METADATA, Client, make_topics

pytestmark = pytest.mark.slow

CONTROLLERS = (1, 2, 3)
BROKERS = (4, 5)
SENDS = 40
SEEDS = range(5)
ELECT_LEADERS, UNCLEAN = 43, 1


@dataclass(slots=True, kw_only=True)
class Outage:
    """A cluster of which all nodes are down, both replicas by unclean ends."""

    cluster: SimCluster
    client: Client
    leader: int
    follower: int

    def lost(self, left: list[int]) -> set[int]:
        """What was acknowledged and is not left."""
        return set(self.client.acked["t", 0]) - set(left)

    async def leads(self) -> int:
        """Who leads, -1: nobody; as a live broker says."""
        brokers = (n for n, host in self.cluster.nodes.items() if host.running and n in BROKERS)
        answer = await self.client.ask(next(brokers), METADATA, 12, topics=[{"name": "t"}])
        return int(answer.topics[0].partitions[0].leader_id)

    async def come_back(self, *nodes: int) -> list[int]:
        """These nodes start, a record more is acknowledged; what is in the partition."""
        self.cluster.start(*nodes)
        await self.client.send_until_acked("t", 0)
        return await self.client.read("t", 0)


def after_outage(
    seed: int, leader: Mode, follower: Mode, main: Callable[[Outage], Awaitable[None]]
) -> None:
    """Write, end the controllers first and then both replicas, as is said; then `main`."""
    world = World(seed)
    cluster = SimCluster(world, Layout.split(controllers=len(CONTROLLERS), brokers=len(BROKERS)))
    client = Client(cluster)

    async def run() -> None:
        await make_topics(cluster, {"t": 1})
        for _ in range(SENDS):
            await client.send_until_acked("t", 0)
        first = await client.leader("t", 0)
        second = next(node for node in BROKERS if node != first)
        for node in CONTROLLERS:
            cluster.kill(node)
        cluster.kill(first, leader)
        cluster.kill(second, follower)
        await asyncio.sleep(1)
        client.leaders.clear()
        await main(Outage(cluster=cluster, client=client, leader=first, follower=second))

    with guard(world):
        cluster.start()
        world.run_until(cluster.run_client(run), 120)
        cluster.close()
    assert not world.troubles


def test_replica_with_the_longest_log_leads_after_one_power_loss() -> None:
    """The leader lost power, the follower was only killed: no acknowledged record is lost."""
    moved = []

    async def main(outage: Outage) -> None:
        assert outage.lost(await outage.come_back(*CONTROLLERS, *BROKERS)) == set()
        moved.append(await outage.leads() != outage.leader)

    for seed in SEEDS:
        after_outage(seed, "power", "process", main)
    assert any(moved), "no leader lost anything by its power loss: nothing was shown"


def test_two_power_losses_lose_records() -> None:
    """The better of two incomplete logs is all there is."""
    lost = []

    async def main(outage: Outage) -> None:
        lost.append(len(outage.lost(await outage.come_back(*CONTROLLERS, *BROKERS))))

    for seed in SEEDS:
        after_outage(seed, "power", "power", main)
    assert max(lost) > 0


def test_no_leader_while_a_replica_is_down_except_by_unclean_election() -> None:
    """The missing replica may have more. An unclean election asks only live replicas."""

    async def main(outage: Outage) -> None:
        outage.cluster.start(*CONTROLLERS, outage.follower)
        await asyncio.sleep(20)
        assert await outage.leads() == -1
        answer = await outage.client.ask(
            outage.follower,
            ELECT_LEADERS,
            2,
            election_type=UNCLEAN,
            topic_partitions=[{"topic": "t", "partitions": [0]}],
            timeout=timedelta(seconds=5),
        )
        (row,) = answer.replica_election_results[0].partition_result
        assert row.error_code is ErrorCode.none
        await asyncio.sleep(1)
        assert await outage.leads() == outage.follower
        assert outage.lost(await outage.come_back(outage.leader)) == set()

    after_outage(1, "power", "process", main)
