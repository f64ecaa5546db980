"""Clock faults: what they ask of the clocks and when, and what they take for a proof."""

import random

import pytest

from nemesis.base import BadSchedule, NotApplicable
from nemesis.faults.catalogue import find
from nemesis.faults.clock import JUMPS_MS, RATES
from nemesis.faults.fault import Injection, Params
from tests.support.nemesis.fakes import FakeMachines, Trace

CLOCK_FAULTS = ("clock.jump", "clock.strobe", "clock.drift")


def aimed(name: str, *nodes: int, seed: int = 1, **given: str) -> Injection:
    """An injection of the fault on the nodes."""
    fault = find(name)
    return fault.plan_injection(
        nodes, (1, 2, 3), random.Random(seed), Params.of(fault.options, given)
    )


@pytest.fixture
def machines() -> FakeMachines:
    """Three nodes that run."""
    return FakeMachines(Trace())


@pytest.mark.parametrize(
    ("name", "given", "elapsed_ms", "wanted_ms"),
    [
        ("clock.jump", {"offset_ms": "-500"}, 0, -500),
        ("clock.jump", {"offset_ms": "-500"}, 9_000, -500),
        ("clock.strobe", {}, 0, 200),
        ("clock.strobe", {}, 199, 200),
        ("clock.strobe", {}, 200, 0),
        ("clock.strobe", {}, 399, 0),
        ("clock.strobe", {}, 400, 200),
        ("clock.strobe", {"offset_ms": "-7", "period_ms": "1000"}, 1_499, -7),
        ("clock.strobe", {"offset_ms": "-7", "period_ms": "1000"}, 1_500, 0),
        ("clock.drift", {"rate": "1.05"}, 0, 0),
        ("clock.drift", {"rate": "1.05"}, 10_000, 500),
        ("clock.drift", {"rate": "0.9"}, 10_000, -1_000),
    ],
)
def test_clock_offsets_follow_parameters_and_elapsed_time(
    machines: FakeMachines, name: str, given: dict[str, str], elapsed_ms: int, wanted_ms: float
) -> None:
    """By the fault's parameters and the time since it began, whatever was pulsed before."""
    fault, injection = find(name), aimed(name, 2, seed=1, **given)
    fault.inject(machines.hosts(), injection)
    fault.tick(machines.hosts(), injection, elapsed_ms)
    assert machines.clocks.requested_offset_ms(2) == pytest.approx(wanted_ms)
    assert machines.clocks.requested_offset_ms(1) == 0


@pytest.mark.parametrize("name", CLOCK_FAULTS)
def test_effect_and_heal_are_measured_by_the_shown_time(machines: FakeMachines, name: str) -> None:
    """A clock that shows what was asked proves the fault, one that does not disproves it."""
    fault, injection = find(name), aimed(name, 1, 3)
    fault.inject(machines.hosts(), injection)
    fault.tick(machines.hosts(), injection, 4_000)
    assert fault.measure_effect(machines.hosts(), injection).confirmed
    machines.clocks.deaf = True
    assert not fault.measure_effect(machines.hosts(), injection).confirmed
    machines.clocks.deaf = False
    assert not fault.measure_heal(machines.hosts(), injection).confirmed
    fault.heal(machines.hosts(), injection)
    fault.heal(machines.hosts(), injection)
    assert fault.measure_heal(machines.hosts(), injection).confirmed
    assert "+0.000 s" in fault.measure_heal(machines.hosts(), injection).evidence


def test_a_drift_is_not_confirmed_before_it_is_measurable(machines: FakeMachines) -> None:
    """What cannot be told from the truth is no effect yet."""
    fault, injection = find("clock.drift"), aimed("clock.drift", 1)
    fault.inject(machines.hosts(), injection)
    assert not fault.measure_effect(machines.hosts(), injection).confirmed


def test_overlapping_clock_faults_add_up_and_heal_separately(machines: FakeMachines) -> None:
    """Also two of the same kind on one node: the first to be healed leaves the other whole."""
    jump, strobe = find("clock.jump"), find("clock.strobe")
    first = aimed("clock.jump", 1, 2, seed=1, offset_ms="1000")
    second = aimed("clock.jump", 1, seed=2, offset_ms="30")
    third = aimed("clock.strobe", 1)
    hosts = machines.hosts()
    for fault, injection in ((jump, first), (jump, second), (strobe, third)):
        fault.inject(hosts, injection)
        assert fault.measure_effect(hosts, injection).confirmed
    assert machines.clocks.requested_offset_ms(1) == 1230
    left = first.without([second, third], same_fault=[second])
    assert left.nodes == (2,)
    jump.heal(hosts, left)
    assert jump.measure_heal(hosts, left).confirmed
    assert (machines.clocks.requested_offset_ms(1), machines.clocks.requested_offset_ms(2)) == (
        230,
        0,
    )
    jump.heal(hosts, second)
    strobe.heal(hosts, third)
    assert machines.clocks.requested_offset_ms(1) == 0


def test_any_is_drawn_once_and_kept_in_the_injection(machines: FakeMachines) -> None:
    """The injection says what was drawn, so that the journal does."""
    jumps = {aimed("clock.jump", 1, seed=n).detail("offset_ms") for n in range(100)}
    rates = {aimed("clock.drift", 1, seed=n).detail("rate") for n in range(100)}
    assert jumps == {str(jump) for jump in JUMPS_MS}
    assert rates == {str(rate) for rate in RATES}
    assert aimed("clock.jump", 1) == aimed("clock.jump", 1)


def test_clock_faults_need_a_running_node(machines: FakeMachines) -> None:
    """None of them running is futile; one that dies later heals without a word."""
    fault, injection = find("clock.jump"), aimed("clock.jump", 1, 2)
    machines.processes.kill(1)
    fault.inject(machines.hosts(), injection)
    effect = fault.measure_effect(machines.hosts(), injection)
    assert (effect.confirmed, "node 1 does not run" in effect.evidence) == (False, True)
    machines.processes.kill(2)
    fault.heal(machines.hosts(), injection)
    assert fault.measure_heal(machines.hosts(), injection).confirmed
    with pytest.raises(NotApplicable):
        fault.inject(machines.hosts(), injection)


@pytest.mark.parametrize(
    ("name", "option", "values"),
    [
        ("clock.jump", "offset_ms", ("0", "x", "1.5", "999999999999999")),
        ("clock.strobe", "offset_ms", ("0", "any")),
        ("clock.strobe", "period_ms", ("100", "-400", "700000", "x")),
        ("clock.drift", "rate", ("1", "0", "-1", "11", "nan", "x")),
    ],
)
def test_invalid_clock_parameters_are_refused(
    name: str, option: str, values: tuple[str, ...]
) -> None:
    """Refused with what they may be, before anything runs."""
    for value in values:
        with pytest.raises(BadSchedule, match=option):
            Params.of(find(name).options, {option: value})


def test_labels_contain_the_offset() -> None:
    """For a timeline that people read."""
    injection = aimed("clock.jump", 2, offset_ms="-3600000")
    assert find("clock.jump").label(injection) == "clock.jump node 2 by -3600 s"
