"""Whom the faults of the network mean, what they ask of links, and what they make of counters."""

import random

import pytest

from nemesis.base import BadSchedule, NotApplicable
from nemesis.faults.catalogue import find
from nemesis.faults.fault import Injection, Params
from nemesis.faults.network import FAULTS
from nemesis.faults.network.links import FAULTS as BAD_LINKS
from nemesis.hosts import CLIENTS, Cut, LinkQuality
from tests.support.nemesis.fakes import FakeMachines, Trace

NODES = (1, 2, 3)


def planned(name: str, *targets: int, **params: str) -> Injection:
    """A fault's injection against these of three nodes."""
    return planned_by_chance(1, name, *targets, **params)


def planned_by_chance(chance: int, name: str, *targets: int, **params: str) -> Injection:
    """A fault's injection, as one of several events has it."""
    fault = find(name)
    return fault.plan_injection(
        targets, NODES, random.Random(chance), Params.of(fault.options, params)
    )


@pytest.mark.parametrize(
    ("name", "params", "cuts"),
    [
        ("cut.clients", {}, {Cut(0, 1), Cut(1, 0)}),
        ("cut.clients", {"direction": "out"}, {Cut(1, 0)}),
        ("cut.port", {"direction": "in"}, {Cut(2, 1, 9092), Cut(3, 1, 9092)}),
        (
            "cut.port",
            {"port": "controller", "direction": "out"},
            {Cut(1, 2, 9093), Cut(1, 3, 9093)},
        ),
        ("cut.port", {"port": "80", "peers": "clients"}, {Cut(0, 1, 80), Cut(1, 0, 80)}),
        ("response-lost", {}, {Cut(1, 0, 9092, answers=True)}),
        (
            "response-lost",
            {"peers": "nodes"},
            {Cut(1, 2, 9092, answers=True), Cut(1, 3, 9092, answers=True)},
        ),
    ],
)
def test_parameters_choose_peers_direction_and_port_of_cuts(
    name: str, params: dict[str, str], cuts: set[Cut]
) -> None:
    """Who, which way, which port."""
    injection = planned(name, 1, **params)
    assert set(injection.cuts) == cuts
    assert injection.nodes == (1,)


def test_all_nodes_selected_means_every_link_between_them() -> None:
    """Not none because nobody else is left."""
    injection = planned("link.slow", 1, 2, 3, peers="nodes")
    assert injection.links == ((1, 2), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2))
    assert (CLIENTS, 2) in planned("link.slow", 1, 2, 3, peers="all").links


@pytest.mark.parametrize(
    ("name", "params", "quality"),
    [
        ("link.slow", {"delay_ms": "7"}, LinkQuality(delay_ms=7, jitter_ms=20)),
        ("link.lossy", {}, LinkQuality(lost=0.05)),
        ("link.reordered", {}, LinkQuality(delay_ms=20, reordered=0.25)),
        ("link.duplicated", {}, LinkQuality(duplicated=0.1)),
        ("link.limited", {"kb_per_s": "1.5"}, LinkQuality(bytes_per_s=1500)),
        (
            "link.bad",
            {},
            LinkQuality(delay_ms=50, jitter_ms=25, lost=0.02, reordered=0.05, duplicated=0.02),
        ),
    ],
)
def test_bad_links_have_the_quality_of_their_parameters_and_are_measured(
    name: str, params: dict[str, str], quality: LinkQuality
) -> None:
    """The parameters make the quality; counters that stand still are no proof; healed, none is."""
    fault, machines = find(name), FakeMachines(Trace())
    hosts, injection = machines.hosts(), planned(name, 1, direction="out", peers="nodes", **params)
    fault.inject(hosts, injection)
    assert set(machines.links.layers.values()) == {quality}
    assert fault.measure_effect(hosts, injection).confirmed
    machines.links.traffic = 0
    assert not fault.measure_effect(hosts, injection).confirmed
    assert not fault.measure_heal(hosts, injection).confirmed
    fault.heal(hosts, injection)
    assert fault.measure_heal(hosts, injection).confirmed
    assert machines.links.layers == {}


def test_overlapping_injections_of_one_fault_have_different_layers() -> None:
    """Each has a name of its own, so that healing one leaves the other, whatever it shares."""
    first, second = planned("link.slow", 1), planned_by_chance(2, "link.slow", 1)
    assert first.detail("layer") != second.detail("layer")
    assert first.without([second], same_fault=[second]).links == first.links
    flapping, other = planned("cut.flapping", 1), planned_by_chance(2, "cut.flapping", 1)
    assert not set(flapping.cuts) & set(other.cuts)
    assert flapping.without([other], same_fault=[other]).cuts == flapping.cuts


def test_the_same_event_plans_the_same_injection() -> None:
    """A replay must not differ in the names of layers."""
    for fault in FAULTS:
        targets = NODES[: 1 if fault.default_selector != "all" else 3]
        assert planned(fault.name, *targets) == planned(fault.name, *targets)


@pytest.mark.parametrize(
    ("name", "params", "complaint"),
    [
        ("cut.port", {"port": "metadata"}, "data, controller or a number"),
        ("cut.port", {"port": "65536"}, "1 to 65535"),
        ("cut.clients", {"direction": "up"}, "in, out, both"),
        ("cut.clients", {"peers": "nodes"}, "no parameter 'peers'"),
        ("link.lossy", {"lost_percent": "101"}, "from 0 to 100"),
        ("link.slow", {"delay_ms": "long"}, "a number from 0"),
        ("link.limited", {"kb_per_s": "0"}, "a number from 1"),
        ("cut.flapping", {"duty_percent": "nan"}, "from 1 to 99"),
        ("reset", {"repeat": "often"}, "no, yes"),
    ],
)
def test_invalid_parameters_are_refused(name: str, params: dict[str, str], complaint: str) -> None:
    """With what they can be."""
    with pytest.raises(BadSchedule, match=complaint):
        Params.of(find(name).options, params)


@pytest.mark.parametrize(
    ("name", "params"),
    [("link.lossy", {"lost_percent": "0"}), ("link.slow", {"delay_ms": "0", "jitter_ms": "0"})],
)
def test_a_link_without_any_impairment_is_not_applicable(name: str, params: dict[str, str]) -> None:
    """Rather than a fault that took no effect."""
    with pytest.raises(NotApplicable):
        find(name).inject(FakeMachines(Trace()).hosts(), planned(name, 1, **params))


def test_a_cut_of_a_single_node_is_not_applicable() -> None:
    """There is nobody, which is said."""
    for name in ("cut.port", "reset", "cut.flapping"):
        fault = find(name)
        params = Params.of(fault.options, {"peers": "nodes"})
        injection = fault.plan_injection([1], [1], random.Random(1), params)
        with pytest.raises(NotApplicable):
            fault.inject(FakeMachines(Trace()).hosts(), injection)


def test_a_lost_response_needs_dropped_responses_and_arrived_requests() -> None:
    """Dropped answers alone may be answers to nobody."""
    fault, machines = find("response-lost"), FakeMachines(Trace())
    injection = planned("response-lost", 1)
    fault.inject(machines.hosts(), injection)
    assert fault.measure_effect(machines.hosts(), injection).confirmed
    machines.links.blocked = dict.fromkeys(machines.links.blocked, 0)
    assert not fault.measure_effect(machines.hosts(), injection).confirmed


def test_a_reset_without_connections_has_no_effect() -> None:
    """The count is of connections, not of attempts; repeats add up."""
    fault, machines = find("reset"), FakeMachines(Trace())
    injection = planned("reset", 1, repeat="yes", peers="clients")
    machines.links.traffic = 0
    fault.inject(machines.hosts(), injection)
    assert not fault.measure_effect(machines.hosts(), injection).confirmed
    machines.links.traffic = 2
    fault.tick(machines.hosts(), injection, 1000)
    fault.tick(machines.hosts(), injection, 2000)
    assert fault.measure_effect(machines.hosts(), injection).evidence.startswith("4 connections")


def test_every_fault_has_a_description_and_every_number_a_unit() -> None:
    """The catalogue is read by people: what is done, and in which unit it is asked for."""
    assert len({fault.about for fault in FAULTS}) == len(FAULTS)
    for option in (each for fault in BAD_LINKS for each in fault.options):
        if option.default.isdigit():
            assert option.about.endswith(("ms", "percent", "kB/s"))
