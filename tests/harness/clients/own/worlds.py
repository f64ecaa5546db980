"""Our own clients in a simulated world, and the rows that they record there."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from checkers.history import HISTORY
from harness.clients.tally import Tally
from harness.final_reads import FinalReadConfig
from harness.systems.layout import Layout
from harness.targets.sim.cluster import SimCluster
from harness.targets.sim.guard import guard
from harness.targets.sim.world import World
from harness.workloads.config import ClientConfig
from harness.workloads.own import World as Outside
from harness.workloads.own import run_workload
from harness.workloads.own_reads import read_everything
from tests.harness.targets.sim.load import make_topics

PARTITIONS = 3


@dataclass(slots=True)
class Rows:
    """A recorder that keeps its rows; times are the loop's."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    ops: int = 0

    def next_op(self) -> int:
        self.ops += 1
        return self.ops

    def now_ns(self) -> int:
        return int(asyncio.get_running_loop().time() * 1e9)

    def record(self, op: int, client: int, f: str, type_: str, *values: Any, **named: Any) -> None:
        names = [name for name in HISTORY.names if name not in ("txn", "group")]
        row = dict(zip(names, (op, client, f, type_, *values), strict=False))
        self.rows.append(dict.fromkeys(names) | row | named)

    def start(self, client: int) -> None:
        now = self.now_ns()
        self.record(self.next_op(), client, "start", "ok", now, now)

    def end(self, client: int) -> None:
        now = self.now_ns()
        self.record(self.next_op(), client, "end", "ok", now, now)

    def of(self, f: str) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["f"] == f]


@dataclass(slots=True)
class Run:
    """What a workload of one topic left."""

    rows: Rows
    tallies: list[Tally]
    complete: bool
    digest: str

    def logged(self) -> Mapping[int, list[int]]:
        """The values of every partition, in the order of the log."""
        found: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
        for row in sorted(self.rows.of("final-read"), key=lambda row: row["offset"]):
            found[row["partition"]].append(row["value"])
        return found


Trouble = Callable[[SimCluster], Awaitable[None]]


def config(cluster: SimCluster, **changes: Any) -> ClientConfig:
    values: dict[str, Any] = {
        "run_id": "run",
        "base_ns": 0,
        "history_dir": "",
        "first_client": 1000,
        "bootstrap": ",".join(f"{host}:{port}" for host, port in cluster.brokers.values()),
        "topic": "t",
        "partitions": PARTITIONS,
        "acks": -1,
        "idempotence": True,
        "producers": 2,
        "consumers": 1,
        "rate_per_s": 100,
        "value_bytes": 100,
        "max_in_flight": 500,
        "linger_ms": 2,
        "message_timeout_ms": 5_000,
    }
    return ClientConfig(**values | changes)


def simulate(seed: int, trouble: Trouble, **changes: Any) -> Run:
    """A workload while `trouble` happens, then everything read."""
    world = World(seed)
    cluster = SimCluster(world, Layout.combined([1, 2, 3]))
    rows, tallies = Rows(), list[Tally]()
    wanted = config(cluster, **changes)

    async def clients() -> bool:
        outside = Outside(rng=world.stream("clients"), wall_clock_ms=cluster.clients.clock.ms)
        await make_topics(cluster, {"t": PARTITIONS})
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(run_workload(wanted, rows, outside, stop, tallies))
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
        return await read_everything(reads, rows, outside)

    complete: list[bool] = []

    async def main() -> None:
        complete.append(await clients())

    with guard(world):
        cluster.start()
        world.run_until(cluster.run_client(main), 300)
        digest = str(world.trace.digest())
        cluster.close()
        world.end()
    return Run(rows, tallies, complete[0], digest)
