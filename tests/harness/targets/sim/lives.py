"""Hosts that are killed and restarted under traffic, again and again; what is left of each.

python -m tests.harness.targets.sim.lives --cycles 1000
"""

import argparse
import asyncio
import contextlib
import gc
import resource
from typing import NamedTuple

from harness.targets.sim.world import NS
from tests.harness.targets.sim.worlds import ECHO, Bare, bare, echo_server


class Count(NamedTuple):
    """What there was after so many cycles."""

    cycles: int
    objects: int
    tasks: int
    timers: int
    sockets: int
    peak_kb: int


async def chatter(world: Bare) -> None:
    """Talk to the echo for ever, and keep something on the disk."""
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
    """Kill and restart `count` times; what there was every so often."""
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
            counts.append(_count(world, cycle))
    world.end()
    world.world.run_for(2000)
    assert world.world.pending == 0, "timers of the dead are left"
    assert not world.network.sockets, "sockets of the dead are left"
    assert world.world.now_ns > NS
    return counts


def _count(world: Bare, cycle: int) -> Count:
    gc.collect()
    loops = [host.loop for host in world.hosts if host.loop is not None]
    return Count(
        cycles=cycle,
        objects=len(gc.get_objects()),
        tasks=sum(len(loop.live_tasks()) for loop in loops),
        timers=world.world.pending,
        sockets=len(world.network.sockets),
        peak_kb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    )


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=1000)
    arguments = parser.parse_args()
    for count in cycles(arguments.cycles, sample_every=max(1, arguments.cycles // 10)):
        print(*(f"{name} {value:,}" for name, value in count._asdict().items()), sep="  ")


if __name__ == "__main__":
    main()
