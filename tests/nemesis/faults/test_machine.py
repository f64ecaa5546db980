"""Whole machines that lose their power: what is done in which order, and what counts as proof."""

import random
from collections.abc import Sequence

import pytest

from nemesis.base import BadTargets, Futile
from nemesis.faults.catalogue import find
from nemesis.faults.fault import Params, Strike
from tests.support.nemesis.fakes import FakeMachines, Trace

FAULT = find("machine-power-loss")


@pytest.fixture
def machines() -> FakeMachines:
    """Three, all on."""
    return FakeMachines(Trace())


def strike(*nodes: int, seed: int = 1) -> Strike:
    """The fault, aimed at the nodes."""
    return FAULT.aim(nodes, (1, 2, 3), random.Random(seed), Params())


def deeds(machines: FakeMachines) -> Sequence[tuple[object, ...]]:
    """What was done to whom."""
    return machines.trace.entries


def test_machines_go_off_together_and_boot_before_their_nodes_start(
    machines: FakeMachines,
) -> None:
    """The hypervisor says that they are off; the boots' ids, that they were; twice is no error."""
    hosts, aimed = machines.hosts(), strike(1, 3)
    machines.power.loses = {"log/a-0": 1_234}
    FAULT.inject(hosts, aimed)
    assert [node for node in (1, 2, 3) if hosts.ledger.held(node)] == [1, 3]
    effect = FAULT.effect(hosts, aimed)
    assert effect.took
    assert "node 3: its machine is off, by its hypervisor, 2 within 3 ms" in effect.evidence
    for _ in range(2):
        FAULT.heal(hosts, aimed)
        healing = FAULT.healing(hosts, aimed)
        assert healing.took, healing.evidence
    assert healing.evidence.startswith("nodes 1, 3 runs; node 1: its machine booted anew (boot aa")
    assert "up 20 s when it was back, 25 s after the cut" in healing.evidence
    assert "lost 1,234 bytes of logs (a-0 1,234), 0 of the metadata log" in healing.evidence
    assert deeds(machines)[:4] == [("cut", 1, 3), ("restore", 1, 3), ("start", 1), ("start", 3)]
    assert len(machines.trace.of("start")) == 2


def test_a_machine_that_kept_its_boot_has_lost_nothing(machines: FakeMachines) -> None:
    """It was saved and woken: its page cache is still there, so this is not called healed."""
    hosts, aimed = machines.hosts(), strike(2)
    machines.power.pretends = True
    FAULT.inject(hosts, aimed)
    FAULT.heal(hosts, aimed)
    healing = FAULT.healing(hosts, aimed)
    assert not healing.took
    assert "node 2: its machine goes on as if nothing had been" in healing.evidence


def test_a_cut_that_fails_is_no_effect_and_can_be_healed(machines: FakeMachines) -> None:
    """The hypervisor refused; the node may start again."""
    hosts, aimed = machines.hosts(), strike(2)
    machines.broken = {"cut"}
    with pytest.raises(OSError, match="cut is broken"):
        FAULT.inject(hosts, aimed)
    effect = FAULT.effect(hosts, aimed)
    assert (effect.took, effect.evidence) == (False, "node 2: its machine is on")
    FAULT.heal(hosts, aimed)
    assert FAULT.healing(hosts, aimed).took
    assert not hosts.ledger.held(2)


def test_what_changes_nothing_is_futile(machines: FakeMachines) -> None:
    """No node runs there, or another such fault has taken the power."""
    hosts = machines.hosts()
    FAULT.inject(hosts, strike(2))
    with pytest.raises(Futile, match="node 2 was not running"):
        FAULT.inject(hosts, strike(2, seed=2))
    with pytest.raises(Futile, match="the machine of node 2 has no power already"):
        FAULT.inject(hosts, strike(1, 2, seed=3))
    assert machines.power.off == {2}


def test_a_node_that_another_fault_keeps_down_is_not_started(machines: FakeMachines) -> None:
    """Its machine boots; the node is that fault's to start."""
    hosts, aimed, kill = machines.hosts(), strike(2), find("kill")
    killed = kill.aim((2,), (1, 2, 3), random.Random(2), Params())
    FAULT.inject(hosts, aimed)
    hosts.ledger.hold(killed.detail("tag"), 2)
    FAULT.heal(hosts, aimed)
    assert machines.trace.of("start") == []
    healing = FAULT.healing(hosts, aimed)
    assert healing.took
    assert healing.evidence.startswith("node 2 is kept down by another fault; node 2: its machine")


def test_clients_have_no_machine_of_their_own() -> None:
    """Theirs is the harness's."""
    with pytest.raises(BadTargets, match="machine-power-loss is for nodes"):
        strike(0)
