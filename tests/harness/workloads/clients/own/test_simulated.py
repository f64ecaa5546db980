"""Our own clients under faults, in a simulated world: the same code, repeatable."""

import asyncio
import random
from collections import Counter

import pytest

from harness.simulation.world.cluster import SimCluster
from harness.simulation.world.network.link_faults import SimLinks
from nemesis.hosts import CLIENTS, Cut
from tests.support.clients.own_client_worlds import SimulatedWorkload, Trouble, simulate
from tests.support.tiers import in_turn

pytestmark = pytest.mark.slow

NODES = (1, 2, 3)


async def kills(cluster: SimCluster) -> None:
    """Two nodes, one after the other, die and come back."""
    for node in (1, 2):
        await asyncio.sleep(1)
        cluster.kill(node)
        await asyncio.sleep(3)
        cluster.start(node)
    await asyncio.sleep(4)


def some_faults(seed: int) -> Trouble:
    """Kills, pauses, and cuts of a node from everybody or from the clients, one way or both."""

    async def trouble(cluster: SimCluster) -> None:
        rng = random.Random(seed)
        links = SimLinks(cluster.network)
        await asyncio.sleep(1)
        for _ in range(4):
            node = rng.choice(NODES)
            kind = rng.choice(["kill", "pause", "cut off", "cut from clients", "one way"])
            peers = [CLIENTS, *NODES] if kind == "cut off" else [CLIENTS]
            cuts = [Cut(node, peer) for peer in peers if peer != node]
            if kind != "one way":
                cuts += [Cut(peer, node) for peer in peers if peer != node]
            match kind:
                case "kill":
                    cluster.kill(node)
                case "pause":
                    cluster.nodes[node].pause()
                case _:
                    links.block(*cuts)
            await asyncio.sleep(rng.uniform(0.5, 6))
            match kind:
                case "kill":
                    cluster.start(node)
                case "pause":
                    cluster.nodes[node].resume()
                case _:
                    links.unblock(*cuts)
            await asyncio.sleep(rng.uniform(0, 3))
        await asyncio.sleep(8)

    return trouble


def check(run: SimulatedWorkload) -> None:
    """What is recorded of every value is true; each is there once, in the order of its sends."""
    assert run.complete
    sends = {row["value"]: row for row in run.of("send")}
    logged = run.logged()
    found = Counter(value for values in logged.values() for value in values)
    assert len(sends) > 300
    assert set(found.values()) == {1}
    for value, row in sends.items():
        assert row["type"] != "ok" or value in found
        assert row["offset"] is None or logged[row["partition"]][row["offset"]] == value
        assert row["type"] != "fail" or value not in found
    for values in logged.values():
        for client in (1000, 1001):
            mine = [value for value in values if value >> 32 == client]
            assert mine == sorted(mine)
    polled: dict[int, list[int]] = {}
    for row in run.of("poll"):
        polled.setdefault(row["partition"], []).append(row["offset"])
    for offsets in polled.values():
        assert offsets == list(range(len(offsets))), "left out, or read twice"


def test_an_idempotent_producer_writes_everything_once_and_in_order() -> None:
    """Kills of leaders: nothing has to be given up."""
    run = simulate(1, kills, rate_per_s=30)
    check(run)
    assert {row["type"] for row in run.of("send")} == {"ok"}


def test_given_up_messages_begin_epochs_and_nothing_is_written_twice() -> None:
    """Messages time out before the cluster recovers."""
    run = simulate(2, some_faults(2), rate_per_s=20, message_timeout_ms=700)
    check(run)
    assert Counter(row["type"] for row in run.of("send")).keys() == {"ok", "fail", "info"}
    epochs = run.of("producer-epoch")
    assert epochs
    assert all(row["error"].startswith("left its epoch") for row in epochs)


@pytest.mark.parametrize(
    "seed",
    in_turn(
        "harness/workloads/clients/own/test_simulated.py::test_under_random_faults",
        range(10, 20),
        of=10,
    ),
)
def test_under_random_faults(seed: int) -> None:
    """A few of many seeds."""
    timeout_ms = (700, 1_500, 5_000)[seed % 3]
    check(simulate(seed, some_faults(seed), rate_per_s=20, message_timeout_ms=timeout_ms))


def test_one_seed_is_one_history() -> None:
    """The same rows and the same events, twice."""
    one, other = (simulate(7, kills, rate_per_s=10) for _ in range(2))
    assert (one.history.rows, one.digest) == (other.history.rows, other.digest)
