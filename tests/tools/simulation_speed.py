"""Measures the speed of the simulated world: its seconds per CPU second, and what takes the time.

    python -m tests.tools.simulation_speed --clients own --invariants [--rate 50] [--seconds 60]

Three nodes; a topic with three partitions for each acks mode; `--rate` sends per second in all. The
clients are one task per send without a reader, or (own) those of a plan: two producers and a
consumer per topic, which record what they do. `--invariants` checks the nodes' state after each
event, as `highwater simulate` does. `--profile` prints the events and the cost of each, `--calls`
the functions that took the time; both cost time themselves.
"""

import argparse
import asyncio
import cProfile
import pstats
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from time import process_time_ns
from typing import Any, Protocol

from harness.simulation.invariants import Invariants
from harness.simulation.recording import History
from harness.simulation.world.cluster import SimCluster
from harness.simulation.world.guard import guard
from harness.simulation.world.trace import Trace
from harness.simulation.world.world import World
from harness.systems.node_roles import Layout
from harness.workloads.clients.counts import Tally
from harness.workloads.environment import ClientEnvironment
from harness.workloads.own import run_workload
from harness.zoo.schedules.load import Client, make_topics
from tests.support.clients.own_client_worlds import config

TOPICS = {"acks-0": 0, "acks-1": 1, "acks-all": -1}
PARTITIONS = 3
PRODUCERS = 2
VALUE_BYTES = 1000
WARM_UP_S = 5


class Load(Protocol):
    """Clients that use a cluster."""

    @property
    def sent(self) -> int:
        """The number of sends so far."""
        ...

    @property
    def failed(self) -> int:
        """The number of sends that failed or may have failed."""
        ...

    async def run(self, rate_per_s: float) -> None:
        """Create the topics, and send for ever at the given rate."""
        ...


class Bare:
    """One task for every send."""

    def __init__(self, cluster: SimCluster) -> None:
        self._client = Client(cluster)

    @property
    def sent(self) -> int:
        return self._client.sent

    @property
    def failed(self) -> int:
        return self._client.failed

    async def run(self, rate_per_s: float) -> None:
        client = self._client
        await make_topics(client.cluster, dict.fromkeys(TOPICS, PARTITIONS))
        turn = 0
        running: dict[asyncio.Task[bool], None] = {}
        while True:
            topic = list(TOPICS)[turn % 3]
            send = client.send(topic, turn // 3 % PARTITIONS, TOPICS[topic], VALUE_BYTES)
            task = asyncio.get_running_loop().create_task(send)
            running[task] = None
            task.add_done_callback(running.pop)
            turn += 1
            await asyncio.sleep(1 / rate_per_s)


class Own:
    """Our own producers and consumers."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._tallies: list[Tally] = []

    @property
    def sent(self) -> int:
        return sum(tally.sent for tally in self._tallies)

    @property
    def failed(self) -> int:
        return sum(tally.failed + tally.info for tally in self._tallies)

    async def run(self, rate_per_s: float) -> None:
        cluster = self._cluster
        await make_topics(cluster, dict.fromkeys(TOPICS, PARTITIONS))
        stream = cluster.world.stream("clients")
        outside = ClientEnvironment(rng=stream, wall_clock_ms=cluster.clients.clock.ms)
        async with asyncio.TaskGroup() as group:
            for number, (topic, acks) in enumerate(TOPICS.items()):
                wanted = config(
                    cluster,
                    topic=topic,
                    acks=acks,
                    idempotence=acks == -1,
                    producers=PRODUCERS,
                    first_client=1000 * (number + 1),
                    rate_per_s=rate_per_s / len(TOPICS) / PRODUCERS,
                    value_bytes=VALUE_BYTES,
                )
                history = History(topic, number, lambda: cluster.world.now_ns)
                work = run_workload(wanted, history, outside, asyncio.Event(), self._tallies)
                group.create_task(work)


LOADS: dict[str, Callable[[SimCluster], Load]] = {"bare": Bare, "own": Own}


class Counting(Trace):
    """A trace that counts events by the called function, and the time from each event to
    the next.
    """

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.took_ns: Counter[str] = Counter()
        self._last = ("", process_time_ns())

    def clear(self) -> None:
        """Reset all counts."""
        self.counts.clear()
        self.took_ns.clear()

    def print(self, seconds: float) -> None:
        """Print the counts of this many simulated seconds, the most expensive functions first."""
        for name, took_ns in self.took_ns.most_common(40):
            count = self.counts[name]
            each_us, all_ms = took_ns / 1000 / max(count, 1), took_ns / 1e6 / seconds
            print(f"{all_ms:6.2f} ms = {count / seconds:6.1f} x {each_us:5.1f} us: {name}")

    def called(self, now_ns: int, host: int, callback: Callable[..., Any]) -> None:
        task = getattr(callback, "__self__", None)
        name = getattr(callback, "__qualname__", None) or type(callback).__name__
        if isinstance(task, asyncio.Task):
            name = f"{name} {getattr(task.get_coro(), '__qualname__', '')}"
        name = f"{'client' if host == 1 else 'node' if host else 'kernel'}: {name}"
        self.counts[name] += 1
        before, at_ns = self._last
        now = process_time_ns()
        self.took_ns[before] += now - at_ns
        self._last = (name, now)
        super().called(now_ns, host, callback)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is measured."""

    clients: str
    rate_per_s: float
    seconds: float
    invariants: bool
    profile: bool
    calls: bool


def measure(setting: Setting) -> None:
    """Print the speed at one rate."""
    world = World(1)
    counting = Counting()
    if setting.profile:
        world.trace = counting
    cluster = SimCluster(world, Layout.combined([1, 2, 3]))
    if setting.invariants:
        Invariants(cluster)
    load = LOADS[setting.clients](cluster)
    with guard(world):
        cluster.start()
        cluster.run_client(lambda: load.run(setting.rate_per_s))
        world.run_for(WARM_UP_S)
    counting.clear()
    events, sent, frames = world.trace.events, load.sent, _packets(cluster)
    profiler = cProfile.Profile()
    began = time.process_time()
    with guard(world):
        if setting.calls:
            profiler.enable()
        world.run_for(setting.seconds)
        profiler.disable()
    took, seconds = time.process_time() - began, setting.seconds
    print(
        f"{setting.clients} clients, {setting.rate_per_s:g} sends/s: {seconds / took:.1f} simulated"
        f" s per CPU s; per simulated s: {(load.sent - sent) / seconds:.0f} sends, "
        f"{(world.trace.events - events) / seconds:.0f} events, "
        f"{(_packets(cluster) - frames) / seconds:.0f} packets; {load.failed} failed; "
        f"trace {world.trace.digest()}; troubles {world.troubles[:3]}",
        flush=True,
    )
    if setting.profile:
        print("a simulated second, by events:")
        counting.print(seconds)
    if setting.calls:
        pstats.Stats(profiler).strip_dirs().sort_stats("tottime").print_stats(60)
    cluster.close()


def _packets(cluster: SimCluster) -> int:
    machines = range(len(cluster.nodes) + 1)
    return sum(cluster.network.link(src, dst).packets for src in machines for dst in machines)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", choices=LOADS, default="bare")
    parser.add_argument("--rate", type=float, action="append")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--invariants", action="store_true", help="checked after every event")
    parser.add_argument("--profile", action="store_true", help="time by events")
    parser.add_argument("--calls", action="store_true", help="time by functions")
    arguments = parser.parse_args()
    for rate in arguments.rate or (0.01, 5, 50):
        measure(
            Setting(
                clients=arguments.clients,
                rate_per_s=rate,
                seconds=arguments.seconds,
                invariants=arguments.invariants,
                profile=arguments.profile,
                calls=arguments.calls,
            )
        )


if __name__ == "__main__":
    main()
