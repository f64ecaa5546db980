"""A cluster of three real nodes in a simulated world, whose leader loses power under load.

    python -m tests.support.simulation.scenario SEED [--perturb N] [--after-another]

prints the trace's hash and the results of the sends, so that runs can be compared. `--perturb`
changes the layout of the process's heap first, `--after-another` runs another seed first.
"""

import argparse
import asyncio
import random
from dataclasses import dataclass
from typing import Any

from harness.simulation.world.cluster import SimCluster
from harness.simulation.world.guard import guard
from harness.simulation.world.world import World
from harness.systems.node_roles import Layout
from harness.zoo.schedules.load import Client, make_topics

PARTITIONS = 2
SENDS = 150


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run."""

    digest: str
    events: int
    acked: tuple[int, ...]
    read: tuple[int, ...]
    failed: int
    troubles: tuple[Any, ...]
    ends: tuple[tuple[int, ...], ...]
    """The sizes of all nodes' logs of the topic's partitions, at the end."""


def run(seed: int, *, sends: int = SENDS) -> Outcome:
    """Elect, create the topic, send, cut the leader's power, send, restart it, read, settle."""
    world = World(seed)
    cluster = SimCluster(world, Layout.combined([1, 2, 3]))
    client = Client(cluster)

    async def main() -> list[int]:
        await make_topics(cluster, {"t": PARTITIONS})
        for number in range(sends):
            if number == sends // 3:
                victim = await client.leader("t", 0)
                cluster.kill(victim, "power")
            if number == 2 * sends // 3:
                down = [node for node, host in cluster.nodes.items() if not host.running]
                cluster.start(*down)
            partition = number % PARTITIONS
            await client.send_until_acked("t", partition)
            await asyncio.sleep(0.01)
        await asyncio.sleep(10)
        return [
            value for partition in range(PARTITIONS) for value in await client.read("t", partition)
        ]

    with guard(world):
        cluster.start()
        read = world.run_until(cluster.run_client(main), 300)
        ends = tuple(
            tuple(
                sum(
                    size
                    for path, size in host.disk.content.files()
                    if path.startswith(f"t-{partition}/") and path.endswith(".log")
                )
                for partition in range(PARTITIONS)
            )
            for host in cluster.nodes.values()
            if host.disk is not None
        )
        cluster.close()
    acked = tuple(value for values in client.acked.values() for value in values)
    return Outcome(
        world.trace.digest(),
        world.trace.events,
        acked,
        tuple(read),
        client.failed,
        tuple(world.troubles),
        ends,
    )


def perturbed(number: int) -> list[object]:
    """Return objects to keep alive, with holes between them: another layout of the heap."""
    rng = random.Random(number)
    things: list[object] = [
        bytearray(rng.randrange(1, 500)) if rng.random() < 0.5 else [{}, object()]
        for _ in range(number)
    ]
    rng.shuffle(things)
    return things[: number // 2]


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--perturb", type=int, default=0)
    parser.add_argument("--after-another", action="store_true")
    parser.add_argument("--sends", type=int, default=SENDS)
    arguments = parser.parse_args()
    kept = perturbed(arguments.perturb)
    if arguments.after_another:
        run(arguments.seed + 1, sends=20)
    outcome = run(arguments.seed, sends=arguments.sends)
    print(
        outcome.digest,
        outcome.events,
        len(outcome.acked),
        len(outcome.read),
        outcome.ends,
        "lost" if set(outcome.acked) - set(outcome.read) else "complete",
        flush=True,
    )
    del kept


if __name__ == "__main__":
    main()
