"""How fast the simulated world goes: its seconds in one of the processor, and what takes them.

    python -m tests.harness.targets.sim.speed [--rate 50] [--seconds 60] [--profile]

Three nodes; a topic of three partitions for each acks mode; so many sends a second in all.
"""

import argparse
import asyncio
import cProfile
import pstats
import time

from harness.systems.layout import Layout
from harness.targets.sim.cluster import SimCluster
from harness.targets.sim.guard import guard
from harness.targets.sim.world import World
from tests.harness.targets.sim.load import Client, make_topics

TOPICS = {"acks-0": 0, "acks-1": 1, "acks-all": -1}
PARTITIONS = 3


async def load(client: Client, rate_per_s: float) -> None:
    """Send for ever at the given rate, whatever becomes of the sends."""
    await make_topics(client.cluster, dict.fromkeys(TOPICS, PARTITIONS))
    turn = 0
    running: dict[asyncio.Task[bool], None] = {}
    while True:
        topic = list(TOPICS)[turn % 3]
        send = client.send(topic, turn // 3 % PARTITIONS, TOPICS[topic], 1000)
        task = asyncio.get_running_loop().create_task(send)
        running[task] = None
        task.add_done_callback(running.pop)
        turn += 1
        await asyncio.sleep(1 / rate_per_s)


def measure(rate_per_s: float, seconds: float, *, profile: bool = False) -> None:
    """Print what one rate costs."""
    world = World(1)
    cluster = SimCluster(world, Layout.combined([1, 2, 3]))
    client = Client(cluster)
    with guard(world):
        cluster.start()
        cluster.run_client(lambda: load(client, rate_per_s))
        world.run_for(5)
    events, sent, frames = world.trace.events, client.sent, _packets(cluster)
    profiler = cProfile.Profile()
    began = time.process_time()
    with guard(world):
        if profile:
            profiler.enable()
        world.run_for(seconds)
        profiler.disable()
    took = time.process_time() - began
    print(
        f"{rate_per_s:g} sends/s: {seconds / took:.1f} simulated s a processor s; per simulated s: "
        f"{(client.sent - sent) / seconds:.0f} sends, {(world.trace.events - events) / seconds:.0f}"
        f" events, {(_packets(cluster) - frames) / seconds:.0f} packets; {client.failed} failed; "
        f"trace {world.trace.digest()}; troubles {world.troubles[:3]}",
        flush=True,
    )
    if profile:
        pstats.Stats(profiler).strip_dirs().sort_stats("tottime").print_stats(45)


def _packets(cluster: SimCluster) -> int:
    machines = range(len(cluster.nodes) + 1)
    return sum(cluster.network.link(src, dst).packets for src in machines for dst in machines)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, action="append")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    for rate in arguments.rate or (0.01, 5, 50):
        measure(rate, arguments.seconds, profile=arguments.profile)


if __name__ == "__main__":
    main()
