"""Whole machines that lose their power: what is done in which order, and what counts as proof."""

import random
from collections.abc import Sequence

import pytest

from nemesis.base import BadSelector, NotApplicable
from nemesis.faults.catalogue import find
from nemesis.faults.fault import Injection, Params
from tests.support.nemesis.fakes import FakeMachines, Trace

FAULT = find("machine-power-loss")


@pytest.fixture
def machines() -> FakeMachines:
    """Three, all on."""
    return FakeMachines(Trace())


def injection(*nodes: int, seed: int = 1) -> Injection:
    """The fault, aimed at the nodes."""
    return FAULT.plan_injection(nodes, (1, 2, 3), random.Random(seed), Params())


def node_changes(machines: FakeMachines) -> Sequence[tuple[object, ...]]:
    """What was done to whom."""
    return machines.trace.entries


def test_machines_lose_power_together_and_boot_before_their_nodes_start(
    machines: FakeMachines,
) -> None:
    """The hypervisor says that they are off; the boots' ids, that they were; twice is no error."""
    hosts, aimed = machines.hosts(), injection(1, 3)
    machines.power.loses = {"log/a-0": 1_234}
    FAULT.inject(hosts, aimed)
    assert [node for node in (1, 2, 3) if hosts.fault_state.is_kept_down(node)] == [1, 3]
    effect = FAULT.measure_effect(hosts, aimed)
    assert effect.confirmed
    assert "node 3: its machine is off, by its hypervisor, 2 within 3 ms" in effect.evidence
    for _ in range(2):
        FAULT.heal(hosts, aimed)
        healing = FAULT.measure_heal(hosts, aimed)
        assert healing.confirmed, healing.evidence
    assert healing.evidence.startswith("nodes 1, 3 runs; node 1: its machine rebooted (boot aa")
    assert "up 20 s when it was back, 25 s after the cut" in healing.evidence
    assert "lost 1,234 bytes of logs (a-0 1,234), 0 of the metadata log" in healing.evidence
    assert node_changes(machines)[:4] == [
        ("cut", 1, 3),
        ("restore", 1, 3),
        ("start", 1),
        ("start", 3),
    ]
    assert len(machines.trace.of("start")) == 2


def test_a_machine_with_the_same_boot_id_is_not_healed(machines: FakeMachines) -> None:
    """It was saved and woken: its page cache is still there, so this is not called healed."""
    hosts, aimed = machines.hosts(), injection(2)
    machines.power.pretends = True
    FAULT.inject(hosts, aimed)
    FAULT.heal(hosts, aimed)
    healing = FAULT.measure_heal(hosts, aimed)
    assert not healing.confirmed
    assert "node 2: its machine did not reboot" in healing.evidence


def test_a_failed_power_cut_has_no_effect_and_can_be_healed(machines: FakeMachines) -> None:
    """The hypervisor refused; the node may start again."""
    hosts, aimed = machines.hosts(), injection(2)
    machines.broken = {"cut"}
    with pytest.raises(OSError, match="cut is broken"):
        FAULT.inject(hosts, aimed)
    effect = FAULT.measure_effect(hosts, aimed)
    assert (effect.confirmed, effect.evidence) == (False, "node 2: its machine is on")
    FAULT.heal(hosts, aimed)
    assert FAULT.measure_heal(hosts, aimed).confirmed
    assert not hosts.fault_state.is_kept_down(2)


def test_a_power_cut_that_changes_nothing_is_not_applicable(machines: FakeMachines) -> None:
    """No node runs there, or another such fault has taken the power."""
    hosts = machines.hosts()
    FAULT.inject(hosts, injection(2))
    with pytest.raises(NotApplicable, match="node 2 was not running"):
        FAULT.inject(hosts, injection(2, seed=2))
    with pytest.raises(NotApplicable, match="the machine of node 2 has no power already"):
        FAULT.inject(hosts, injection(1, 2, seed=3))
    assert machines.power.off == {2}


def test_a_node_that_another_fault_keeps_down_is_not_started(machines: FakeMachines) -> None:
    """Its machine boots; the node is that fault's to start."""
    hosts, aimed, kill = machines.hosts(), injection(2), find("kill")
    killed = kill.plan_injection((2,), (1, 2, 3), random.Random(2), Params())
    FAULT.inject(hosts, aimed)
    hosts.fault_state.keep_down(killed.detail("tag"), 2)
    FAULT.heal(hosts, aimed)
    assert machines.trace.of("start") == []
    healing = FAULT.measure_heal(hosts, aimed)
    assert healing.confirmed
    assert healing.evidence.startswith("node 2 is kept down by another fault; node 2: its machine")


def test_machine_power_loss_refuses_clients() -> None:
    """Theirs is the harness's."""
    with pytest.raises(BadSelector, match="machine-power-loss is for nodes"):
        injection(0)
