"""A real cluster of three nodes, and the hosts on which administrative faults act."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness.admin.client import Address
from harness.plans.plan import build
from harness.recording import store
from harness.run.administration.administrator import Administrator
from harness.run.hosts import hosts_of
from harness.systems.brokers import BrokerSystem
from harness.targets.local import LocalTarget
from nemesis.faults.catalogue import find
from nemesis.faults.fault import Injection, Measurement, Params
from nemesis.hosts import Hosts
from tests.support.nemesis.fakes import FakeView
from tests.support.targets.machine import local_target

PATIENCE_S = 30.0
TOPICS = {"one": 2, "two": 1}


@dataclass
class FakeObserver:
    """Knows nothing of the brokers; remembers which were added and removed."""

    added: list[int] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)

    def add_broker(self, node: int, address: Address) -> None:
        """A broker was added."""
        self.added.append(node)

    def remove_broker(self, node: int) -> None:
        """A broker was removed."""
        self.removed.append(node)

    def controller(self) -> int | None:
        """Unknown."""

    def answers(self, node: int) -> bool | None:
        """Unknown."""


@dataclass
class Cluster:
    """Three nodes, and what faults act on."""

    target: LocalTarget
    system: BrokerSystem
    admin: Administrator
    hosts: Hosts
    watched: FakeObserver
    strikes: int = 0

    def plan_injection(self, fault_name: str, /, *nodes: int, **params: str) -> Injection:
        """Return the injection of a fault."""
        self.strikes += 1
        fault = find(fault_name)
        given = Params.of(fault.options, params)
        return fault.plan_injection(nodes, [1, 2, 3], random.Random(self.strikes), given)

    def until(self, measure: Callable[[], Measurement]) -> str:
        """Measure the effect until it shows."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not (found := measure()).confirmed:
            assert time.monotonic() < deadline_s, found.evidence
            time.sleep(0.1)
        return found.evidence

    def until_settled(self, injection: Injection) -> None:
        """Wait until no work of the fault is pending."""
        deadline_s = time.monotonic() + PATIENCE_S
        while owed := self.admin.pending_work(injection.detail("layer")):
            assert time.monotonic() < deadline_s, owed
            time.sleep(0.1)

    def play(
        self, fault_name: str, /, *nodes: int, pulses: int = 0, **params: str
    ) -> tuple[Injection, str]:
        """Inject, and wait for the proof of the effect."""
        fault, injection = find(fault_name), self.plan_injection(fault_name, *nodes, **params)
        fault.inject(self.hosts, injection)
        for pulse in range(pulses):
            time.sleep(0.5)
            fault.tick(self.hosts, injection, 1000 * (pulse + 1))
        return injection, self.until(lambda: fault.measure_effect(self.hosts, injection))

    def heal(self, name: str, injection: Injection) -> str:
        """Heal twice, wait until all work is done, and measure."""
        fault = find(name)
        fault.heal(self.hosts, injection)
        fault.heal(self.hosts, injection)
        self.until_settled(injection)
        found = fault.measure_heal(self.hosts, injection)
        assert found.confirmed, found.evidence
        return found.evidence


@contextmanager
def running(place: Path) -> Iterator[Cluster]:
    """Three brokers and controllers, with two topics of two replicas; their files below `place`."""
    plan = build(
        {
            "name": "membership",
            "seed": 0,
            "topics": [
                {"name": name, "acks": "all", "partitions": count, "replication_factor": 2}
                for name, count in TOPICS.items()
            ],
            "broker": {"auto.leader.rebalance.enable": False},
        },
        where="membership",
    )
    run = store.create(place / "store", plan.name, versions={}, commit=None)
    with local_target(place, nodes=3) as target:
        system = BrokerSystem(plan, target, run)
        system.configure()
        watched, view = FakeObserver(), FakeView()
        admin = Administrator(system, target, watched)
        view.leaders = {(name, n): 1 for name, count in TOPICS.items() for n in range(count)}
        hosts = hosts_of(target, view, admin)
        try:
            system.start()
            system.create_topics()
            yield Cluster(target=target, system=system, admin=admin, hosts=hosts, watched=watched)
        finally:
            assert list(admin.finish(PATIENCE_S)) == []
            system.stop()
            for node in range(1, 5):
                log = place / "run/nodes" / str(node) / "node.log"
                if log.exists():
                    (place / f"node-{node}.log").write_bytes(log.read_bytes())
