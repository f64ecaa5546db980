"""A node that a fault of disks and a fault of processes keep down starts with the last heal."""

import random

import pytest

from nemesis.faults.catalogue import find
from nemesis.faults.fault import Fault, Injection, Params
from tests.support.nemesis.fakes import FakeMachines, Trace

FILES = {
    "log/a-0/00000000000000000000.log": bytes(100),
    "log/__cluster_metadata-0/quorum-state": b"{}",
}
KEEP_DOWN = ["power-loss", "disk.lost", "disk.bit-flip", "disk.cut-tail", "disk.misdirected"]
"""From the injection to the heal."""
END_AT_HEAL = ["disk.read-only", "disk.error"]


@pytest.fixture
def machines() -> FakeMachines:
    """Three nodes with files."""
    found = FakeMachines(Trace())
    for node in (1, 2, 3):
        found.disks.contents[node] = dict(FILES)
    return found


def aimed(name: str) -> tuple[Fault, Injection]:
    """The fault, aimed at node 2."""
    fault = find(name)
    return fault, fault.plan_injection(
        (2,), (1, 2, 3), random.Random(name), Params.of(fault.options, {})
    )


@pytest.mark.parametrize("first", ["disk", "process"])
@pytest.mark.parametrize("name", [*KEEP_DOWN, "disk.stale-copy"])
def test_the_last_heal_starts_the_node(name: str, first: str, machines: FakeMachines) -> None:
    """Whoever struck first, and whoever is healed first: no heal undoes the other fault."""
    hosts = machines.hosts()
    (disk, of_disk), (kill, of_kill) = aimed(name), aimed("kill")
    disk.inject(hosts, of_disk)
    disk.tick(hosts, of_disk, 60_000)
    machines.processes.states[2] = "S"  # somebody else started it, so that there is one to kill
    kill.inject(hosts, of_kill)
    order = [(disk, of_disk), (kill, of_kill)]
    for fault, injection in order if first == "disk" else reversed(order):
        assert not machines.processes.is_running(2)
        fault.heal(hosts, injection)
        healing = fault.measure_heal(hosts, injection)
        assert healing.confirmed, healing.evidence
        assert ("another fault" in healing.evidence) != machines.processes.is_running(2)
    assert machines.processes.is_running(2)


@pytest.mark.parametrize("name", [*END_AT_HEAL, "disk.full"])
def test_healing_a_disk_does_not_start_a_killed_node(name: str, machines: FakeMachines) -> None:
    """Its node is another fault's to start."""
    hosts = machines.hosts()
    (disk, of_disk), (kill, of_kill) = aimed(name), aimed("kill")
    disk.inject(hosts, of_disk)
    kill.inject(hosts, of_kill)
    disk.heal(hosts, of_disk)
    assert not machines.processes.is_running(2)
    assert disk.measure_heal(hosts, of_disk).confirmed
    kill.heal(hosts, of_kill)
    assert machines.processes.is_running(2)


@pytest.mark.parametrize("name", [*KEEP_DOWN, *END_AT_HEAL])
def test_a_node_that_has_left_is_not_started(name: str, machines: FakeMachines) -> None:
    """It left the cluster while its disk was broken."""
    hosts = machines.hosts()
    fault, injection = aimed(name)
    fault.inject(hosts, injection)
    del machines.processes.states[2]
    machines.disks.ailments.clear()
    machines.cluster.votes.remove(2)
    fault.heal(hosts, injection)
    assert 2 not in machines.processes.node_ids()
    assert fault.measure_heal(hosts, injection).confirmed
