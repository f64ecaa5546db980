"""Kills and restarts hosts under traffic, again and again, and counts what is left of them.

    python -m tests.tools.simulation_restarts --cycles 1000 [--nodes]

The hosts are bare hosts with an echo service, or (--nodes) a cluster of real nodes with a client.
"""

import argparse
import asyncio
import contextlib
import gc
import resource
from collections.abc import Iterable
from typing import NamedTuple

from harness.simulation import logs
from harness.simulation.world.cluster import SimCluster
from harness.simulation.world.guard import guard
from harness.simulation.world.host import Host
from harness.simulation.world.network.network import Network
from harness.simulation.world.world import NS, World
from harness.systems.node_roles import Layout
from harness.zoo.schedules.load import Client, make_topics
from tests.support.simulation.worlds import ECHO, Bare, bare, echo_server


class Count(NamedTuple):
    """The state after this many cycles."""

    cycles: int
    objects: int
    tasks: int
    timers: int
    sockets: int
    peak_kb: int


async def chatter(world: Bare) -> None:
    """Use the echo service for ever, and keep a file on the disk."""
    host = world.hosts[2]
    assert host.loop is not None
    assert host.disk is not None
    disk = host.disk.mount(host.loop)
    file = disk.open("log", create=True)

    async def write() -> None:
        while True:
            file.truncate(0)
            file.append(b"x" * 1000)
            await disk.sync(file)
            await asyncio.sleep(0.05)

    writing = asyncio.ensure_future(write())
    try:
        while True:
            with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                async with asyncio.timeout(0.5):
                    reader, writer = await asyncio.open_connection(world.hosts[1].address, ECHO)
                    try:
                        for _ in range(20):
                            writer.write(b"ping")
                            await reader.readexactly(4)
                            await asyncio.sleep(0.01)
                    finally:
                        writer.close()
            await asyncio.sleep(0.01)
    finally:
        writing.cancel()


def cycles(count: int, *, sample_every: int) -> list[Count]:
    """Kill and restart `count` times; return samples of the state."""
    world = bare(seed=5)
    rng = world.world.stream("cycles")
    mains = {1: echo_server, 2: lambda: chatter(world)}
    for number, main in mains.items():
        world.hosts[number].boot(main)
    counts = []
    for cycle in range(1, count + 1):
        world.world.run_for(rng.uniform(0.05, 0.4))
        victim = rng.choice((1, 2))
        world.hosts[victim].kill(rng.choice(("process", "power")))
        world.world.run_for(rng.uniform(0.01, 0.2))
        world.hosts[victim].boot(mains[victim])
        if cycle % sample_every == 0:
            world.world.run_for(5)  # what can end has ended
            counts.append(_count(world.world, world.network, world.hosts, cycle))
    world.end()
    world.world.run_for(2000)
    assert world.world.pending == 0, "timers of the dead are left"
    assert not world.network.sockets, "sockets of the dead are left"
    assert world.world.now_ns > NS
    return counts


def cluster_cycles(count: int, *, sample_every: int) -> list[Count]:
    """Do the same with the nodes of a cluster, of which one at a time is down."""
    world = World(5)
    rng = world.stream("cycles")
    cluster = SimCluster(world, Layout.combined([1, 2, 3]))
    client = Client(cluster)
    counts = []
    with guard(world), logs.captured(world, None):
        cluster.start()
        world.run_until(cluster.run_client(lambda: make_topics(cluster, {"t": 1})))
        cluster.run_client(lambda: _send(client))
        for cycle in range(1, count + 1):
            world.run_for(rng.uniform(0.05, 2))
            victim = rng.choice((1, 2, 3))
            cluster.kill(victim, rng.choice(("process", "power")))
            world.run_for(rng.uniform(0.01, 1))
            cluster.start(victim)
            if cycle % sample_every == 0:
                world.run_for(20)
                counts.append(_count(world, cluster.network, cluster.nodes.values(), cycle))
    assert client.acked["t", 0], "nothing was under way"
    cluster.close()
    return counts


async def _send(client: Client) -> None:
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2):
                await client.send("t", 0, -1)
        await asyncio.sleep(0.2)


def _count(world: World, network: Network, hosts: Iterable[Host], cycles: int) -> Count:
    gc.collect()
    loops = [host.loop for host in hosts if host.loop is not None]
    return Count(
        cycles=cycles,
        objects=len(gc.get_objects()),
        tasks=sum(len(loop.live_tasks()) for loop in loops),
        timers=world.pending,
        sockets=len(network.sockets),
        peak_kb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    )


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=1000)
    parser.add_argument("--nodes", action="store_true", help="of a cluster, with a client")
    arguments = parser.parse_args()
    living = cluster_cycles if arguments.nodes else cycles
    for count in living(arguments.cycles, sample_every=max(1, arguments.cycles // 10)):
        print(*(f"{name} {value:,}" for name, value in count._asdict().items()), sep="  ")


if __name__ == "__main__":
    main()
