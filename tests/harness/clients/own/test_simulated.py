"""Our own clients under faults, in a simulated world: the same code, repeatable."""

import asyncio
from collections import Counter

from harness.targets.sim.cluster import SimCluster
from tests.harness.clients.own.worlds import simulate


async def kills(cluster: SimCluster) -> None:
    """One node after the other dies and comes back."""
    for node in (1, 2):
        await asyncio.sleep(1)
        cluster.kill(node)
        await asyncio.sleep(3)
        cluster.start(node)
    await asyncio.sleep(4)


def test_an_idempotent_producer_writes_everything_once_and_in_order() -> None:
    """Kills of all leaders in turn: what was acknowledged is there, once, in the order of sends."""
    run = simulate(1, kills, rate_per_s=30)
    assert run.complete
    sends = {row["value"]: row for row in run.rows.of("send")}
    logged = run.logged()
    found = Counter(value for values in logged.values() for value in values)
    assert len(sends) > 300
    assert set(found.values()) == {1}
    for value, row in sends.items():
        assert row["type"] != "ok" or logged[row["partition"]][row["offset"]] == value
        assert row["type"] != "fail" or value not in found
    for values in logged.values():
        for client in (1000, 1001):
            mine = [value for value in values if value >> 32 == client]
            assert mine == sorted(mine)
    polled: dict[int, list[int]] = {}
    for row in run.rows.of("poll"):
        polled.setdefault(row["partition"], []).append(row["offset"])
    for offsets in polled.values():
        assert offsets == list(range(len(offsets))), "left out, or read twice"


def test_one_seed_is_one_history() -> None:
    """The same rows and the same events, twice."""
    one, other = simulate(7, kills, rate_per_s=10), simulate(7, kills, rate_per_s=10)
    assert (one.rows.rows, one.digest) == (other.rows.rows, other.digest)
