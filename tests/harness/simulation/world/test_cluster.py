"""Three real nodes in a simulated world: their behaviour, and that it repeats."""

import asyncio
import os
import subprocess
import sys

import pytest

from harness.simulation.world.cluster import SimCluster
from harness.simulation.world.guard import guard
from harness.simulation.world.network.link_faults import SimLinks
from harness.simulation.world.world import World
from harness.systems.node_roles import Layout
from harness.zoo.schedules.load import Client, make_topics
from nemesis.hosts import CLIENTS, Cut
from tests.support.simulation import scenario


@pytest.mark.parametrize("seed", range(3))
def test_power_loss_of_the_leader_loses_no_acknowledged_record(seed: int) -> None:
    """Election, topic, sends, power loss, new leader, return: all replicas converge."""
    outcome = scenario.run(seed)
    assert len(outcome.acked) == scenario.SENDS
    assert set(outcome.acked) <= set(outcome.read)
    assert len(set(outcome.ends)) == 1, "the replicas' logs differ in size"
    assert not outcome.troubles


def test_equal_seeds_have_equal_traces_and_other_seeds_differ() -> None:
    """A run is a function of its seed, in one process too."""
    first, again, other = (scenario.run(seed, sends=30) for seed in (1, 1, 2))
    assert first == again
    assert first.digest != other.digest


def test_trace_does_not_depend_on_hashes_or_addresses() -> None:
    """Other string hashes, another heap, another run before: the traces are equal to the event."""

    def start(hash_seed: int, *options: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.support.simulation.scenario",
                "4",
                "--sends",
                "40",
                *options,
            ],
            env={**os.environ, "PYTHONHASHSEED": str(hash_seed), "PADDING": "x" * hash_seed},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    runs = [start(1), start(4321, "--perturb", "7777", "--after-another")]
    outcomes = [run.communicate(timeout=120)[0] for run in runs]
    assert "complete" in outcomes[0]
    assert outcomes[0] == outcomes[1]


def test_leader_cut_off_from_other_nodes_is_replaced_and_rejoins() -> None:
    """Its clients can still reach it."""
    world = World(3)
    cluster = SimCluster(world, Layout.combined([1, 2, 3]))
    links = SimLinks(cluster.network)
    client = Client(cluster)

    async def main() -> tuple[int, int]:
        await make_topics(cluster, {"t": 1})
        assert await client.send("t", 0, -1)
        old = await client.leader("t", 0)
        cuts = [
            cut
            for other in cluster.nodes
            if other != old
            for cut in (Cut(old, other), Cut(other, old))
        ]
        links.block(*cuts)
        await client.send_until_acked("t", 0)
        assert all((links.dropped(cut) or 0) > 0 for cut in cuts)
        new = await client.leader("t", 0)
        links.unblock(*cuts)
        await asyncio.sleep(20)
        assert sorted(await client.read("t", 0)) == sorted(
            {*client.acked["t", 0], *await client.read("t", 0)}
        )
        return old, new

    with guard(world):
        cluster.start()
        old, new = world.run_until(cluster.run_client(main), 120)
        cluster.close()
    assert old != new
    assert not world.troubles


def test_sigterm_stops_nodes_in_order() -> None:
    """They hand over leaderships, flush files, mark a clean stop, and end with exit code 0."""
    world = World(5)
    cluster = SimCluster(world, Layout.combined([1, 2, 3]))
    with guard(world):
        cluster.start()
        world.run_until(cluster.run_client(lambda: make_topics(cluster, {"t": 3})), 60)
        cluster.nodes[1].terminate()
        world.run_for(10)
        disk = cluster.nodes[1].disk
        cluster.close()
    assert cluster.nodes[1].exit_code == 0
    assert disk is not None
    assert ".kafka_cleanshutdown" in disk.content.listdir("")


def test_separate_controllers_work_with_a_wrong_wall_clock() -> None:
    """A wall clock an hour ahead does not end a session."""
    world = World(6)
    cluster = SimCluster(world, Layout.split(controllers=3, brokers=2, racks=("a", "b")))
    cluster.nodes[4].clock.skew("test", 3_600_000)
    client = Client(cluster)

    async def main() -> bool:
        await make_topics(cluster, {"t": 1})
        await asyncio.sleep(10)
        return await client.send("t", 0, -1)

    with guard(world):
        cluster.start()
        assert world.run_until(cluster.run_client(main), 60)
        cluster.close()
    assert cluster.clients.number == CLIENTS


def test_a_changed_clock_is_known_after_its_machine_was_removed() -> None:
    """What the node wrote by that clock is still there."""
    cluster = SimCluster(World(7), Layout.split(controllers=1, brokers=2, racks=("a",)))
    assert not cluster.clocks_changed
    cluster.nodes[2].clock.skew("test", 0)
    cluster.nodes[2].clock.unskew("test")
    assert cluster.clocks_changed
    cluster.remove_node(2)
    assert cluster.clocks_changed
