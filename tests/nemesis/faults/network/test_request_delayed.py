"""A late request: which one, what it waits for, and what proves it."""

import random

import pytest

from nemesis.base import BadSchedule, NotApplicable
from nemesis.faults.catalogue import find
from nemesis.faults.fault import Injection, Params
from nemesis.hosts import CLIENTS
from nemesis.requests import APIS, RequestFilter, SeenRequest, WatchedRequests
from tests.support.nemesis.fakes import FakeMachines, Trace

FAULT = find("request-delayed")
END, ADD = APIS["EndTxn"], APIS["AddPartitionsToTxn"]


def planned(*selected: int, **params: str) -> Injection:
    """The injection at these of three nodes."""
    given = Params.of(FAULT.options, params)
    return FAULT.plan_injection(selected, (1, 2, 3), random.Random(1), given)


def seen(api_key: int, age_ms: float, name: str = "tx") -> SeenRequest:
    """A request that arrived so long ago."""
    return SeenRequest(api_key, 4, 17, "producer-1", name, "10.0.0.9:5000", age_ms)


def held(machines: FakeMachines, injection: Injection, *noted: SeenRequest) -> None:
    """A request waits at node 2 since a second; the others were noted at node 1."""
    layer = injection.detail("layer")
    machines.links.watches[(CLIENTS, 2), layer] = WatchedRequests(seen(END, 1000), None, ())
    machines.links.watches[(CLIENTS, 1), layer] = WatchedRequests(None, None, noted)


def has_passed(machines: FakeMachines, injection: Injection) -> bool:
    """Whether a tick lets the held request go."""
    FAULT.tick(machines.hosts(), injection, 50)
    return bool(machines.trace.of("let-go"))


def test_it_watches_the_links_to_the_nodes_for_one_request() -> None:
    """From clients by default; the filters name API, client and id."""
    machines = FakeMachines(Trace())
    injection = planned(1, 2, until="AddPartitionsToTxn", id="tx", client="producer-1")
    FAULT.inject(machines.hosts(), injection)
    hold, note = RequestFilter(END, "producer-1", "tx"), RequestFilter(ADD, "", "tx")
    assert machines.trace.of("watch") == [
        ("watch", (CLIENTS, 1), 9092, hold, note),
        ("watch", (CLIENTS, 2), 9092, hold, note),
    ]
    assert FAULT.label(injection) == "request-delayed EndTxn to nodes 1, 2"
    assert planned(1, peers="nodes").links == ((2, 1), (3, 1))


def test_a_single_node_has_no_peers_among_nodes() -> None:
    """Nothing could arrive, so nothing is injected."""
    given = Params.of(FAULT.options, {"peers": "nodes"})
    injection = FAULT.plan_injection((1,), (1,), random.Random(1), given)
    with pytest.raises(NotApplicable):
        FAULT.inject(FakeMachines(Trace()).hosts(), injection)


@pytest.mark.parametrize(("delay_ms", "passes"), [("1000", True), ("1001", False)])
def test_without_a_condition_it_is_held_for_its_time(delay_ms: str, passes: bool) -> None:
    """Since it arrived."""
    machines, injection = FakeMachines(Trace()), planned(1, 2, delay_ms=delay_ms)
    FAULT.inject(machines.hosts(), injection)
    held(machines, injection)
    assert has_passed(machines, injection) is passes


@pytest.mark.parametrize(
    ("noted", "passes"),
    [
        ([], False),
        ([seen(ADD, 500)], True),
        ([seen(ADD, 299)], False),
        ([seen(ADD, 1500)], False),
        ([seen(ADD, 500, "other")], False),
        ([seen(ADD, 500, "")], True),
    ],
)
def test_it_waits_for_a_later_request_of_the_same_id(
    noted: list[SeenRequest], passes: bool
) -> None:
    """At any node, and then for its time."""
    machines = FakeMachines(Trace())
    injection = planned(1, 2, until="AddPartitionsToTxn", delay_ms="300")
    FAULT.inject(machines.hosts(), injection)
    held(machines, injection, *noted)
    assert has_passed(machines, injection) is passes


def test_an_earlier_request_is_not_taken_for_a_later_one() -> None:
    """The links are asked one after the other: the ages that they tell are not of one time."""
    machines = FakeMachines(Trace())
    injection = planned(1, 2, until="AddPartitionsToTxn", delay_ms="0")
    FAULT.inject(machines.hosts(), injection)
    held(machines, injection, seen(ADD, 1015))
    machines.links.answer_ms = 20.0
    assert not has_passed(machines, injection)
    assert "then arrived" not in FAULT.measure_effect(machines.hosts(), injection).evidence


def test_a_later_request_of_the_same_link_counts_however_slow_the_answers_are() -> None:
    """One answer tells both ages."""
    machines = FakeMachines(Trace())
    injection = planned(1, 2, until="AddPartitionsToTxn", delay_ms="0")
    FAULT.inject(machines.hosts(), injection)
    here = (CLIENTS, 2), injection.detail("layer")
    machines.links.watches[here] = WatchedRequests(seen(END, 1000), None, (seen(ADD, 995),))
    machines.links.answer_ms = 20.0
    assert has_passed(machines, injection)
    assert "then arrived Add" in FAULT.measure_effect(machines.hosts(), injection).evidence


def test_no_second_request_is_held() -> None:
    """Once one is held, the other links only note."""
    machines, injection = FakeMachines(Trace()), planned(1, 2)
    FAULT.inject(machines.hosts(), injection)
    held(machines, injection)
    before = len(machines.trace.of("watch"))
    FAULT.tick(machines.hosts(), injection, 50)
    assert machines.trace.of("watch")[before:] == [("watch", (CLIENTS, 1), 9092, None, None)]


def test_the_evidence_names_the_request_and_how_long_it_was_held() -> None:
    """Nothing held is no effect; the heal ends all watches."""
    machines, injection = FakeMachines(Trace()), planned(1, 2, until="AddPartitionsToTxn")
    hosts = machines.hosts()
    FAULT.inject(hosts, injection)
    assert not FAULT.measure_effect(hosts, injection).confirmed
    assert not FAULT.measure_heal(hosts, injection).confirmed
    held(machines, injection, seen(ADD, 300))
    hosts.links.let_requests_go(injection.links, injection.detail("layer"))
    effect = FAULT.measure_effect(hosts, injection)
    about = "of tx (correlation id 17, client producer-1, 10.0.0.9:5000)"
    assert effect.confirmed
    assert effect.evidence == (
        f"EndTxn v4 {about} from clients to node 2 was held for 1000 ms; "
        f"then arrived AddPartitionsToTxn v4 {about}"
    )
    for _ in range(2):
        FAULT.heal(hosts, injection)
    assert FAULT.measure_heal(hosts, injection).confirmed


@pytest.mark.parametrize("params", [{"api": "Unknown"}, {"until": "any"}, {"delay_ms": "-1"}])
def test_wrong_parameters_are_refused(params: dict[str, str]) -> None:
    """With a text that lists what is allowed."""
    with pytest.raises(BadSchedule):
        Params.of(FAULT.options, params)
