"""Faults of processes, against fakes: the order of what they do, and how they overlap."""

import contextlib
import random
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemesis.base import BadSchedule, BadSelector, NotApplicable
from nemesis.faults.catalogue import find
from nemesis.faults.fault import Fault, Injection, Params
from nemesis.faults.process import FAULTS
from nemesis.faults.process.base import ProcessFault
from nemesis.hosts import Hosts
from tests.support.nemesis.fakes import FakeMachines, Trace

AIMED = [fault.name for fault in FAULTS if isinstance(fault, ProcessFault)]
"""The faults that end processes."""


@dataclass
class InjectedEvents:
    """A fault in force on fake machines, whose cluster serves whoever runs."""

    machines: FakeMachines
    hosts: Hosts
    fault: Fault
    injection: Injection

    def at(self, elapsed_ms: int) -> None:
        """A pulse, the cluster having seen what was."""
        self.see()
        self.fault.tick(self.hosts, self.injection, elapsed_ms)

    def see(self) -> None:
        """The cluster takes notice of who runs."""
        running = {n: self.hosts.processes.is_running(n) for n in self.machines.processes.states}
        self.machines.view.answering = dict(running)
        self.machines.view.out_of_service = {n: not runs for n, runs in running.items()}

    def done(self) -> list[tuple[object, ...]]:
        """What was done to nodes, in order."""
        return [e for e in self.machines.trace.entries if e[0] in ("kill", "start", "terminate")]

    def evidence(self) -> str:
        """Of the effect."""
        return self.fault.measure_effect(self.hosts, self.injection).evidence

    def heal(self) -> str:
        """Heal twice; the proof."""
        self.fault.heal(self.hosts, self.injection)
        self.fault.heal(self.hosts, self.injection)
        proof = self.fault.measure_heal(self.hosts, self.injection)
        assert proof.confirmed, proof.evidence
        return proof.evidence


def injection(
    name: str,
    *nodes: int,
    on: InjectedEvents | None = None,
    seed: int = 1,
    params: dict[str, str] | None = None,
) -> InjectedEvents:
    """Inject a fault."""
    machines = on.machines if on else FakeMachines(Trace())
    hosts = on.hosts if on else machines.hosts()
    fault = find(name)
    given = Params.of(fault.options, params or {})
    aimed = fault.plan_injection(nodes, machines.processes.node_ids(), random.Random(seed), given)
    fault.inject(hosts, aimed)
    return InjectedEvents(machines, hosts, fault, aimed)


@pytest.mark.parametrize("name", AIMED)
def test_every_node_runs_after_the_heal(name: str) -> None:
    """Also when nobody pulsed, also twice, also when a node left the cluster meanwhile."""
    struck = injection(name, 1, 2)
    del struck.machines.processes.states[2]
    assert "node 1 runs" in struck.heal()
    assert struck.machines.processes.states == {1: "S", 3: "S"}


@pytest.mark.parametrize("name", [*AIMED, "pause"])
def test_ending_a_node_that_does_not_run_is_not_applicable(name: str) -> None:
    """A fault that would change nothing says so."""
    first = injection("kill", 2)
    with pytest.raises(NotApplicable, match="node 2 was not running"):
        injection(name, 2, on=first)


@pytest.mark.parametrize("name", [*AIMED, "pause"])
def test_process_faults_refuse_clients(name: str) -> None:
    """They have a fault of their own."""
    with pytest.raises(BadSelector, match=r"pause\.clients"):
        injection(name, 0)


@pytest.mark.parametrize("other", ["kill", "crash-loop", "kill-during-recovery"])
def test_a_node_stays_down_until_the_last_fault_releases_it(other: str) -> None:
    """Whichever was first, and whatever kind of fault it is."""
    first = injection("kill", 1, 2)
    second = injection(other, 2, 3, on=first, seed=2)
    assert "node 2 is kept down by another fault" in first.heal()
    assert first.machines.processes.states == {1: "S", 2: "", 3: ""}
    second.heal()
    assert first.machines.processes.states == {1: "S", 2: "S", 3: "S"}


def test_faults_of_one_kind_share_their_nodes() -> None:
    """The executor removes shared nodes from an injection before its heal; it still releases them.

    Otherwise the node would stay down for good.
    """
    first = injection("kill", 1, 2)
    second = injection("kill", 2, 3, on=first, seed=2)
    first.injection = first.injection.without([second.injection], same_fault=[second.injection])
    assert first.heal() == "node 1 runs"
    assert second.machines.processes.states == {1: "S", 2: "", 3: ""}
    second.heal()
    assert second.machines.processes.states == {1: "S", 2: "S", 3: "S"}


def test_two_restarts_of_one_node_leave_it_running() -> None:
    """The first has done its work on the node that the second tells again, and that ends late."""
    first = injection("restart", 2)
    first.at(100)
    first.machines.processes.deaf = {2}
    second = injection("restart", 2, 3, on=first, seed=2)
    second.injection = second.injection.without([first.injection], same_fault=[first.injection])
    assert second.heal() == "node 3 runs"
    assert second.done()[-3:] == [("kill", 2), ("start", 2), ("start", 3)]
    first.heal()
    assert first.machines.processes.states == {1: "S", 2: "S", 3: "S"}
    assert len(first.done()) == 7


def test_a_restart_leaves_a_node_to_another_restart_that_waits_for_its_end() -> None:
    """It will start the node, or kill it when its own time has come."""
    first = injection("pause", 3)  # only for its machines
    first.machines.processes.deaf = {2}
    first = injection("restart", 2, on=first)
    second = injection("restart", 2, on=first, seed=2)
    assert second.heal() == "node 2 is kept down by another fault"
    first.heal()
    assert first.done()[2:] == [("kill", 2), ("start", 2)]


def test_a_restart_starts_a_node_that_has_ended() -> None:
    """As soon as that is seen, and tells how long all of it took."""
    struck = injection("restart", 2)
    assert struck.fault.measure_effect(struck.hosts, struck.injection).confirmed is False
    struck.at(40)
    struck.at(300)
    assert struck.done() == [("terminate", 2), ("start", 2)]
    assert struck.evidence() == (
        "node 2 ended with code 0 after 40 ms, was in service again after 300 ms"
    )


def test_a_node_that_does_not_end_is_killed() -> None:
    """After the patience that the event has, or at the heal."""
    struck = injection("pause", 3)  # only for its machines
    struck.machines.processes.deaf = {1, 2}
    one = injection("restart", 1, on=struck, params={"patience_ms": "500"})
    one.at(400)
    assert ("kill", 1) not in struck.done()
    one.at(600)
    one.at(650)
    assert struck.done() == [("terminate", 1), ("kill", 1), ("start", 1)]
    assert "by SIGKILL because of patience_ms after 600 ms" in one.evidence()
    injection("restart", 2, on=struck).heal()
    assert struck.done()[3:] == [("terminate", 2), ("kill", 2), ("start", 2)]


def test_a_rolling_restart_restarts_one_node_after_the_other() -> None:
    """The next one's turn comes when the last is in service again, or its bound has passed."""
    struck = injection("rolling-restart", 1, 2, 3, params={"bound_ms": "1000"})
    struck.at(100)
    assert struck.done() == [("terminate", 1), ("start", 1)]
    struck.at(200)  # sees it in service
    assert struck.done()[2:] == [("terminate", 2)]
    struck.at(300)
    struck.machines.view.out_of_service[2] = True  # it runs, but nobody lets it serve
    struck.fault.tick(struck.hosts, struck.injection, 1_100)
    assert struck.done()[2:] == [("terminate", 2), ("start", 2)]
    struck.fault.tick(struck.hosts, struck.injection, 1_300)
    assert struck.done()[4:] == [("terminate", 3)]
    assert struck.evidence().startswith("3 of 3 had their turn: node 1 ended with code 0 after")


def test_a_crash_loop_kills_and_starts_in_turn() -> None:
    """Down and up as long as it was told, with the deaths counted."""
    struck = injection("crash-loop", 1, params={"down_ms": "100", "up_ms": "200"})
    for elapsed_ms in range(50, 750, 50):
        struck.at(elapsed_ms)
    kills = [what for what, _ in struck.done()]
    assert kills == ["kill", "start", "kill", "start", "kill", "start"]
    assert struck.evidence() == "node 1 killed 3 times, 0 before it was in service"


def test_kill_during_recovery_kills_the_given_number_of_times() -> None:
    """Then it may end; the proof is a kill before the node was in service."""
    params = {"times": "2", "least_ms": "100", "most_ms": "100"}
    struck = injection("kill-during-recovery", 1, params=params)
    assert not struck.fault.measure_effect(struck.hosts, struck.injection).confirmed
    struck.see()  # it is seen to be gone, and not seen again
    for elapsed_ms in range(20, 600, 20):
        struck.fault.tick(struck.hosts, struck.injection, elapsed_ms)
    assert [what for what, _ in struck.done()] == ["kill", "start"] * 3
    assert struck.fault.measure_effect(struck.hosts, struck.injection).confirmed
    assert struck.evidence() == "node 1 killed 3 times, 2 before it was in service"


def test_a_kill_of_a_node_in_service_does_not_confirm_kill_during_recovery() -> None:
    """Who has recovered by then was not killed while it recovered."""
    params = {"times": "1", "least_ms": "100", "most_ms": "100"}
    struck = injection("kill-during-recovery", 1, params=params)
    for elapsed_ms in range(20, 200, 20):
        struck.at(elapsed_ms)
    assert struck.evidence() == "node 1 killed 2 times, 0 before it was in service"
    assert not struck.fault.measure_effect(struck.hosts, struck.injection).confirmed


def test_running_times_are_drawn_from_the_seed() -> None:
    """The same for the same event, within the range that was given."""
    lives = [
        injection("kill-during-recovery", 1, seed=seed).injection.detail("lives_ms")
        for seed in (1, 1, 2)
    ]
    assert lives[0] == lives[1] != lives[2]
    assert all(100 <= int(each) <= 1200 for each in lives[0].split())


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("kill-during-recovery", {"times": "0"}),
        ("crash-loop", {"up_ms": "soon"}),
        ("restart", {"patience_ms": "-1"}),
    ],
)
def test_invalid_parameters_are_refused_with_the_allowed_values(
    name: str, params: dict[str, str]
) -> None:
    """In words that say what they can be."""
    with pytest.raises(BadSchedule, match="whole number from 1 to"):
        injection(name, 1, params=params)
    with pytest.raises(BadSelector, match="least_ms 9 is more than most_ms 8"):
        injection("kill-during-recovery", 1, params={"least_ms": "9", "most_ms": "8"})


def test_all_clients_are_paused_until_the_last_such_fault_is_healed() -> None:
    """All of them, until no such fault stops them any more."""
    struck = injection("pause.clients", 0)
    assert struck.fault.label(struck.injection) == "pause.clients clients"
    assert struck.evidence() == "2 of 2 processes of clients in state T"
    other = injection("pause.clients", 0, on=struck)
    struck.injection = struck.injection.without([other.injection], same_fault=[other.injection])
    assert struck.heal() == "another fault still stops the clients"
    assert struck.machines.clients.letters == {101: "T", 102: "T"}
    assert other.heal() == "all 2 processes of clients continue"


def test_pausing_missing_clients_is_not_applicable() -> None:
    """That would change nothing."""
    machines = FakeMachines(Trace())
    machines.clients.letters = {}
    with pytest.raises(NotApplicable, match="no process of clients"):
        find("pause.clients").inject(machines.hosts(), Injection(nodes=(0,)))


def test_a_node_is_back_only_after_the_view_had_it_out_of_service() -> None:
    """Its view lags behind: in service again is only who was seen out of service before."""
    params = {"times": "1", "least_ms": "100", "most_ms": "100"}
    struck = injection("kill-during-recovery", 1, params=params)
    struck.machines.view.answering = {1: True}
    for elapsed_ms in range(20, 200, 20):
        struck.fault.tick(struck.hosts, struck.injection, elapsed_ms)
    assert struck.evidence() == "node 1 killed 2 times, 1 before it was in service"


@pytest.mark.parametrize(
    ("name", "params", "kills"),
    [
        ("crash-loop", {"down_ms": "100", "up_ms": "200"}, 6),
        ("kill-during-recovery", {"times": "3", "least_ms": "100", "most_ms": "100"}, 3),
    ],
)
def test_a_node_that_was_down_already_is_started_and_killed_like_the_others(
    name: str, params: dict[str, str], kills: int
) -> None:
    """Who had ended by itself before the injection: the injection did not end it, and starts it."""
    before = injection("pause", 3)  # only for its machines
    before.machines.processes.states[2] = ""
    struck = injection(name, 1, 2, on=before, params=params)
    for elapsed_ms in range(50, 2_050, 50):
        struck.at(elapsed_ms)
    did = [what for what, node in struck.done() if node == 2]
    assert did == ["start", "kill"] * kills + ["start"] * (len(did) % 2)
    struck.heal()
    assert before.machines.processes.states == {1: "S", 2: "S", 3: "T"}


@given(
    st.sampled_from(AIMED),
    st.sets(st.sampled_from([1, 2, 3]), max_size=2),
    st.lists(st.tuples(st.sampled_from(["die", "start", "see", "blind"]), st.sampled_from([1, 2]))),
)
def test_no_tick_fails_and_the_heal_starts_all_whatever_the_nodes_do(
    name: str, down: set[int], node_changes: list[tuple[str, int]]
) -> None:
    """They end, are started by others, and the cluster notices or does not, at any moment."""
    before = injection("pause", 3)  # only for its machines
    states = before.machines.processes.states
    states.update(dict.fromkeys(down - {1}, ""))
    struck = injection(name, 1, 2, on=before)
    for number, (deed, node) in enumerate(node_changes):
        match deed:
            case "die":
                states[node] = ""
            case "start":
                states[node] = states[node] or "S"
            case "see":
                struck.see()
            case _:
                before.machines.view.answering = {}
        struck.fault.tick(struck.hosts, struck.injection, 100 * (number + 1))
        assert struck.evidence()
    struck.heal()
    assert states[1] == states[2] == "S"


deeds_of_faults = st.tuples(
    st.sampled_from(["injection", "pulse", "end", "heal"]),
    st.sampled_from(AIMED) | st.just("restart"),
    st.sampled_from([1, 2]),
    st.sampled_from([1, 2, 3]),
)


@settings(max_examples=1_000)
@given(st.lists(deeds_of_faults, max_size=12))
def test_all_nodes_run_after_the_last_heal_of_overlapping_faults(
    node_changes: list[tuple[str, str, int, int]],
) -> None:
    """Process faults are injected and healed in any order, while nodes take their time to end."""
    only = injection("pause", 3)  # only for its machines
    processes = only.machines.processes
    processes.states = dict.fromkeys([1, 2, 3], "S")
    processes.deaf = {1, 2, 3}
    in_force: list[InjectedEvents] = []
    for number, (deed, name, node, other) in enumerate(node_changes):
        match deed:
            case "injection":
                with contextlib.suppress(NotApplicable):
                    in_force.append(injection(name, *{node, other}, on=only, seed=number))
            case "end":
                if node in processes.ending:
                    processes.ending.remove(node)
                    processes.states[node] = ""
            case "heal" if in_force:
                heal_one(in_force, in_force[node % len(in_force)])
            case _:
                for struck in in_force:
                    struck.at(200 * number)
    while in_force:
        heal_one(in_force, in_force[-1])
    assert processes.states == dict.fromkeys([1, 2, 3], "S")
    assert not processes.ending


def heal_one(in_force: list[InjectedEvents], struck: InjectedEvents) -> None:
    """As the executor heals one of several."""
    in_force.remove(struck)
    same = [each.injection for each in in_force if each.fault is struck.fault]
    struck.injection = struck.injection.without(
        [each.injection for each in in_force], same_fault=same
    )
    struck.heal()
