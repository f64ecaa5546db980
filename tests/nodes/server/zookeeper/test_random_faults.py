"""Random faults of brokers and of their connections to ZooKeeper: nothing acknowledged is lost.

While they happen, every change of a partition's state is checked as it is written.
"""

import asyncio
import random
from collections.abc import Callable

import pytest

from harness.zoo.schedules.load import make_topics
from harness.zoo.schedules.old_plane import BROKERS, OldPlaneStage
from nodes.ids import NodeId
from nodes.zookeeper import paths, znodes

PARTITIONS = 3
FAULTS = 8
SEEDS = range(6)


class StateWatch:
    """Checks each write of a state as the tree makes it."""

    def __init__(self, cluster: OldPlaneStage) -> None:
        self._tree = cluster.tree
        self._last: dict[str, znodes.StateZnode] = {}
        self._leaders: dict[tuple[str, int], NodeId] = {}
        self.controller_epoch = 0

    def follow(self, number: int) -> None:
        """Check the present state of a partition, and every later one."""
        path = paths.state("t", number)
        data, _ = self._tree.get(path, lambda: self.follow(number))
        state = znodes.read_state(data)
        assert state.isr, "the last member never leaves the ISR"
        assert state.leader == -1 or state.leader in state.isr, state
        before = self._last.get(path)
        if before is not None:
            assert state.leader_epoch >= before.leader_epoch, (before, state)
            if state.leader not in (-1, before.leader):
                assert state.leader_epoch > before.leader_epoch, (before, state)
                assert state.leader in before.isr, f"unclean: {before} {state}"
        leader = self._leaders.setdefault((path, state.leader_epoch), state.leader)
        assert state.leader in (-1, leader), "one leader in each epoch"
        self._last[path] = state


async def break_something(cluster: OldPlaneStage, rng: random.Random) -> None:
    """One fault and its end. A majority of the replicas keeps its disk."""
    node = rng.choice(BROKERS)
    host, ensemble = cluster.cluster.nodes[node], cluster.ensemble
    faults: list[tuple[Callable[[], None], Callable[[], None]]] = [
        (lambda: cluster.cluster.kill(node), lambda: cluster.cluster.start(node)),
        (host.terminate, lambda: None if host.running else cluster.cluster.start(node)),
        (host.pause, host.resume),
        (lambda: ensemble.cut(node), lambda: ensemble.heal(node)),
    ]
    begin, end = rng.choice(faults)
    begin()
    await asyncio.sleep(rng.choice((0.05, 0.5, 3)))
    end()
    await asyncio.sleep(rng.choice((0.01, 0.5)))
    if not host.running:
        await cluster.until("it has ended", lambda: not host.running)
        cluster.cluster.start(node)


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_acknowledged_is_lost(seed: int, batched: bool) -> None:
    """A leader comes from the ISR, there is one in each epoch, and epochs only grow."""

    async def main(cluster: OldPlaneStage) -> None:
        rng = cluster.world.stream("faults")
        await make_topics(cluster.cluster, {"t": PARTITIONS})
        watch = StateWatch(cluster)
        for number in range(PARTITIONS):
            watch.follow(number)
        stop = False

        async def send() -> None:
            while not stop:
                for number in range(PARTITIONS):
                    cluster.client.leaders["t", number] = max(1, cluster.state("t", number).leader)
                    await cluster.client.send("t", number, -1)
                await asyncio.sleep(0.05)

        sending = asyncio.ensure_future(send())
        for _ in range(FAULTS):
            await break_something(cluster, rng)
        for node, host in cluster.cluster.nodes.items():
            cluster.ensemble.heal(node)
            host.resume()
            if not host.running:
                cluster.cluster.start(node)
        await cluster.until_in_sync("t", PARTITIONS)
        stop = True
        await sending
        for number in range(PARTITIONS):
            cluster.client.leaders.clear()
            await cluster.client.send_until_acked("t", number)
            read = await cluster.client.read("t", number)
            assert set(cluster.client.acked["t", number]) <= set(read)

    OldPlaneStage(seed, {"control.batched": batched}).run(main, within_s=300)
