"""Measure how long faults take to inject and heal: `python -m tests.tools.fault_times [FAULT ...]`.

The brokers are real and idle, with their own disks. Each fault has its default parameters and its
default selector. The times are those of the calls, without the journal entry before and the proofs
after, as in the record of a run. Preparation, which breaks nothing yet, is measured separately. The
output is Markdown.
"""

import argparse
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Final

from confluent_kafka import Producer

from harness.plans.plan import build
from harness.recording import store
from harness.run.administration.administrator import Administrator
from harness.run.hosts import hosts_of
from harness.systems.brokers import BrokerSystem
from harness.targets.base import TargetError
from harness.targets.linux import kernel
from harness.targets.linux.disks.files import HARNESS_PREFIX
from harness.targets.linux.disks.volumes import Volume
from harness.targets.local import LocalTarget
from nemesis.base import NemesisError
from nemesis.faults.catalogue import FAULTS
from nemesis.faults.fault import Ability, Fault, Injection, Params
from nemesis.hosts import Hosts
from nemesis.selectors import resolve
from tests.support.clusters.disk_cluster import NoObserver
from tests.support.nemesis.fakes import FakeView
from tests.support.targets.machine import local_target

PLAN: Final = build(
    {"name": "times", "seed": 0, "topics": [{"name": "a", "acks": "all", "partitions": 2}]},
    where="times",
)
HELD_S: Final = 0.15
"""How long a fault is in force, and how long the pause after it is."""
RECOVERY_S: Final = 40.0
"""How long a cluster may take until all brokers are back."""
DIRTY: Final = f"{HARNESS_PREFIX}dirty"
HEALS: Final = 30
"""How often a heal is tried that the cluster refuses."""


@dataclass(slots=True, kw_only=True)
class Times:
    """The times of one fault, in ms."""

    fault: str
    prepare: list[float] = field(default_factory=list)
    inject: list[float] = field(default_factory=list)
    heal: list[float] = field(default_factory=list)
    why: str = ""
    """Why times are missing."""

    def row(self) -> str:
        """Return a line of the table."""
        cells = [
            f"{statistic(times):.1f}"
            for times in (self.prepare, self.inject, self.heal)
            if times
            for statistic in (median, max)
        ]
        return f"| {self.fault} | {' | '.join(cells or ['', '', '', '', '', self.why])} |"


@contextmanager
def cluster(nodes: int, *, clocks: bool) -> Iterator[tuple[LocalTarget, Hosts]]:
    """Run brokers, and the topic `a` with two partitions."""
    with tempfile.TemporaryDirectory(prefix="highwater-times-") as name:
        place = Path(name)
        run = store.create(place / "store", "times", versions={}, commit=None)
        volume = Volume.IMAGE_EXT4
        with local_target(place, nodes=nodes, volume=volume, clocks=clocks) as target:
            system = BrokerSystem(PLAN, target, run)
            system.configure()
            system.start()
            system.create_topics()
            target.spawn_client(["sleep", "100000"])
            with target.in_client_netns():  # librdkafka's threads stay in it
                producer = Producer({"bootstrap.servers": system.bootstrap})
            for partition in (0, 1):
                producer.produce("a", bytes(1000), partition=partition)
            producer.flush(RECOVERY_S)
            del producer
            administrator = Administrator(system, target, NoObserver())
            try:
                yield target, hosts_of(target, FakeView(), administrator)
            finally:
                administrator.finish(0)


def measure(
    fault: Fault, target: LocalTarget, hosts: Hosts, *, rounds: int, dirty_mb: int
) -> Times:
    """Inject and heal `rounds` times, each time with `dirty_mb` of unwritten data for each disk."""
    found = Times(fault=fault.name)
    for number in range(rounds):
        try:
            injection = aimed(fault, hosts, number)
            for node in target.node_ids() if dirty_mb else ():
                (target.data_dir(node) / DIRTY).write_bytes(bytes(dirty_mb << 20))
            began_s = time.monotonic()
            fault.prepare(hosts, injection)
            prepared_s = time.monotonic()
            fault.inject(hosts, injection)
        except (NemesisError, TargetError) as error:
            found.why = str(error)
            return found
        found.prepare.append(1e3 * (prepared_s - began_s))
        found.inject.append(1e3 * (time.monotonic() - prepared_s))
        time.sleep(HELD_S)
        if fault.tick_ms is not None:
            fault.tick(hosts, injection, round(1e3 * HELD_S))
        found.heal.append(heal(fault, hosts, injection))
        await_whole(fault, hosts, injection)
    return found


def aimed(fault: Fault, hosts: Hosts, seed: int) -> Injection:
    """Return an injection with the fault's default selector and parameters."""
    nodes, rng = hosts.processes.node_ids(), random.Random(seed)
    targets = resolve(fault.default_selector, nodes, hosts.view, rng).nodes
    return fault.plan_injection(targets, nodes, rng, Params.of(fault.options, {}))


def heal(fault: Fault, hosts: Hosts, injection: Injection) -> float:
    """Heal, and return the time of the successful call in ms."""
    for _ in range(HEALS):
        began_s = time.monotonic()
        try:
            fault.heal(hosts, injection)
        except Exception as error:  # a cluster that has just lost a node may not answer yet
            last = error
            time.sleep(1)
        else:
            taken_ms = 1e3 * (time.monotonic() - began_s)
            fault.measure_heal(hosts, injection)
            return taken_ms
    raise last


def await_whole(fault: Fault, hosts: Hosts, injection: Injection) -> None:
    """Wait until the cluster has no pending work and all its brokers serve."""
    layers = [value for name, value in injection.details if name == "layer"]

    def whole() -> bool:
        if any(hosts.cluster.pending_work(layer) for layer in layers):
            return False
        nodes = list(hosts.processes.node_ids())
        if not all(hosts.processes.is_running(node) for node in nodes):
            return False
        try:
            return list(hosts.cluster.brokers()) == nodes == list(hosts.cluster.voters())
        except Exception:  # no broker answers yet
            return False

    if not kernel.wait_until(whole, RECOVERY_S, 0.1):
        print(f"{fault.name}: the cluster is not whole again", file=sys.stderr)
    time.sleep(HELD_S)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("faults", nargs="*", help="names or prefixes of names; by default all")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--dirty-mb", type=int, default=0, help="unwritten data for each disk")
    options = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that `finally` runs
    asked = tuple(options.faults)
    faults = [fault for fault in FAULTS.values() if not asked or fault.name.startswith(asked)]

    def place(fault: Fault) -> tuple[int, bool]:
        return max(3, fault.min_nodes), Ability.CLOCKS in fault.needs

    print("| fault | prepare ms | at most | inject ms | at most | heal ms | at most |")
    print("|---|---|---|---|---|---|---|")
    for (nodes, clocks), group in groupby(sorted(faults, key=place), key=place):
        with cluster(nodes, clocks=clocks) as (target, hosts):
            for fault in group:
                times = measure(
                    fault, target, hosts, rounds=options.rounds, dirty_mb=options.dirty_mb
                )
                print(times.row(), flush=True)


if __name__ == "__main__":
    main()
