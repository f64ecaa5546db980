"""Our own clients in a simulated world, and the rows that they record there."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.simulation.recording import History
from harness.simulation.world.cluster import SimCluster
from harness.simulation.world.guard import guard
from harness.simulation.world.world import World
from harness.systems.node_roles import Layout
from harness.workloads.clients.counts import Tally
from harness.workloads.config import ClientConfig
from harness.workloads.environment import ClientEnvironment
from harness.workloads.final_reads import FinalReadConfig
from harness.workloads.own import run_workload
from harness.workloads.own_final_reads import read_everything
from harness.zoo.schedules.load import make_topics
from tests.support.clients.workloads import client_config

PARTITIONS = 3


@dataclass(slots=True)
class SimulatedWorkload:
    """The rows and the log that a workload of one topic left."""

    history: History
    tallies: list[Tally]
    complete: bool
    digest: str

    def of(self, f: str) -> list[dict[str, Any]]:
        """The rows of one kind of operation, in order."""
        return [row for row in self.history.named() if row["f"] == f]

    def logged(self) -> Mapping[int, list[int]]:
        """The values of every partition, in the order of the log."""
        found: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
        for row in sorted(self.of("final-read"), key=lambda row: row["offset"]):
            found[row["partition"]].append(row["value"])
        return found


Trouble = Callable[[SimCluster], Awaitable[None]]


def config(cluster: SimCluster, **changes: Any) -> ClientConfig:
    values: dict[str, Any] = {
        "base_ns": 0,
        "bootstrap": ",".join(f"{host}:{port}" for host, port in cluster.brokers.values()),
        "partitions": PARTITIONS,
        "idempotence": True,
        "producers": 2,
        "rate_per_s": 100,
        "value_bytes": 100,
        "max_in_flight": 500,
        "message_timeout_ms": 5_000,
    }
    return client_config(Path(), **values | changes)


def simulate(seed: int, trouble: Trouble, **changes: Any) -> SimulatedWorkload:
    """Run a workload while `trouble` happens, then read everything."""
    world = World(seed)
    cluster = SimCluster(world, Layout.combined([1, 2, 3]))
    history, tallies = History("clients", 1, lambda: world.now_ns), list[Tally]()
    wanted = config(cluster, **changes)

    async def clients() -> bool:
        outside = ClientEnvironment(
            rng=world.stream("clients"), wall_clock_ms=cluster.clients.clock.ms
        )
        await make_topics(cluster, {"t": PARTITIONS})
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(run_workload(wanted, history, outside, stop, tallies))
            await trouble(cluster)
            stop.set()
        reads = FinalReadConfig(
            run_id="run",
            base_ns=0,
            history_dir="",
            bootstrap=wanted.bootstrap,
            topics={"t": PARTITIONS},
            value_bytes=wanted.value_bytes,
            timeout_s=30,
        )
        return await read_everything(reads, history, outside)

    complete: list[bool] = []

    async def main() -> None:
        complete.append(await clients())

    with guard(world):
        cluster.start()
        world.run_until(cluster.run_client(main), 300)
        digest = str(world.trace.digest())
        cluster.close()
        world.end()
    return SimulatedWorkload(history, tallies, complete[0], digest)
