"""The executor against a fake cluster in fake time."""

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from nemesis import executor
from nemesis.executor import HEAL_ATTEMPTS, RESOLVE_TIMEOUT_MS, Nemesis
from nemesis.faults.catalogue import find
from nemesis.hosts import Cut, PowerCut
from nemesis.record import VIEW_LAG_NS, FaultRecord
from nemesis.schedule import Event, scripted
from tests.support.nemesis.fakes import FakeClock, FakeJournal, FakeMachines, FakeView, Trace


@dataclass
class World:
    """Everything that a nemesis touches, and what it said."""

    trace: Trace = field(default_factory=Trace)
    clock: FakeClock = field(default_factory=FakeClock)
    view: FakeView = field(default_factory=FakeView)
    records: list[FaultRecord] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.machines = FakeMachines(self.trace)
        self.journal = FakeJournal(self.trace)

    def run(self, *events: Event, end_ms: int = 20_000, leave: bool = False) -> Nemesis:
        """Run a script to its end."""
        nemesis = Nemesis(
            schedule=scripted(events, seed=1, end_ms=end_ms),
            hosts=self.machines.hosts(),
            view=self.view,
            journal=self.journal,
            clock=self.clock,
            on_done=self.records.append,
            leave=leave,
        )
        nemesis.run()
        return nemesis

    @property
    def only(self) -> FaultRecord:
        """The record of a script of one event."""
        assert len(self.records) == 1
        return self.records[0]

    def assert_whole(self) -> None:
        """Nothing is broken any more."""
        assert self.machines.links.blocked == {}
        assert set(self.machines.processes.states.values()) == {"S"}


@pytest.fixture
def world() -> World:
    """A healthy cluster of three."""
    return World()


def event(fault: str, at_ms: int = 1_000, duration_ms: int = 2_000, **more: object) -> Event:
    """An event of a script."""
    return Event.model_validate(
        {"fault": fault, "at_ms": at_ms, "duration_ms": duration_ms, **more}
    )


@pytest.mark.parametrize(
    ("fault", "deed", "undoing"),
    [
        ("kill", "kill", "start"),
        ("pause", "pause", "resume"),
        ("partition.isolate-leader", "block", "unblock"),
    ],
)
def test_a_fault_is_journalled_before_its_injection_and_after_its_heal(
    world: World, fault: str, deed: str, undoing: str
) -> None:
    """A fault is on disk before it is made, and its heal is noted after it."""
    world.run(event(fault))
    kinds = [entry[1] if entry[0] == "journal" else entry[0] for entry in world.trace.entries]
    assert list(dict.fromkeys(kinds)) == ["fault", deed, "fault-effective", undoing, "fault-healed"]
    world.assert_whole()


def test_the_record_of_a_fault_has_all_columns(world: World) -> None:
    """Times, the resolved target, the proof; all columns of the record of faults."""
    world.run(event("partition.isolate-leader", targets="leader:a/1"))
    row = world.only.row()
    targets = json.loads(str(row["targets"]))
    assert targets["resolved"] == "leader of a/1"
    assert targets["nodes"] == [2]
    assert targets["cuts"] == [[1, 2, 0], [2, 1, 0], [2, 3, 0], [3, 2, 0]]
    assert row["label"] == "partition.isolate-leader node 2"
    assert row["took_effect"] is True
    assert row["effect"] == "28 packets dropped (1>2 7, 2>1 7, 2>3 7, 3>2 7)"
    started, healed = world.only.started_ns, world.only.healed_ns
    assert started is not None
    assert healed is not None
    assert healed - started >= 2_000_000_000
    assert row["healing"] == "no drop rule is left"
    assert row["error"] is None


def test_a_partition_without_dropped_packets_has_no_effect(world: World) -> None:
    """Without a dropped packet there was no fault, whatever was asked for."""
    world.machines.links.traffic = 0
    world.run(event("partition.halves"))
    assert world.only.row()["took_effect"] is False
    assert world.only.effective_ns is None
    assert str(world.only.effect).startswith("0 packets dropped")


def test_killing_a_dead_node_is_not_applicable_and_does_not_start_it(world: World) -> None:
    """A node that died by itself is not started behind the test's back."""
    world.machines.processes.states[2] = ""
    world.run(event("kill", targets="node:2"))
    assert world.only.row()["took_effect"] is False
    assert "was not running" in str(world.only.error)
    assert world.trace.of("start") == []


@pytest.mark.parametrize("broken", ["block", "pause", "kill"])
def test_a_failed_fault_is_healed_and_the_next_one_is_injected(world: World, broken: str) -> None:
    """An error stays with its fault."""
    world.machines.broken = {broken}
    fault = {"block": "partition.halves"}.get(broken, broken)
    other = "pause" if broken != "pause" else "partition.halves"
    world.run(event(fault), event(other, at_ms=5_000))
    first, second = world.records
    assert first.error == f"{broken} is broken"
    assert first.healed_ns is not None
    assert second.error is None
    assert second.effective_ns is not None
    world.assert_whole()


def test_a_node_that_left_the_cluster_is_not_healed_but_the_others_are(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has a disk for a node that left the cluster while it had no power."""
    disks, states = world.machines.disks, world.machines.processes.states
    cut = disks.cut_power

    def cut_power(nodes: Sequence[int]) -> Sequence[PowerCut]:
        cuts = cut(nodes)
        del states[2]
        return cuts

    def repair(node: int) -> None:
        assert node in states, f"no node {node}"

    monkeypatch.setattr(disks, "cut_power", cut_power)
    monkeypatch.setattr(disks, "repair", repair)
    world.run(event("power-loss", targets="all"))
    assert world.only.error is None
    assert world.only.healed_ns is not None
    assert set(states) == {1, 3}
    world.assert_whole()


def test_a_failed_heal_is_retried_and_then_recorded(world: World) -> None:
    """The number of attempts is bounded and the record has no healing time."""
    world.machines.broken = {"unblock"}
    world.run(event("partition.isolate-one", targets="node:1"))
    assert len(world.trace.of("unblock")) == HEAL_ATTEMPTS
    assert world.only.healed_ns is None
    assert world.only.error == "not healed: unblock is broken"


def test_a_node_that_ends_after_the_heal_because_of_the_fault_is_started(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had met a full disk, and handed over first what it led."""
    processes, passes = world.machines.processes, world.clock.wait

    def wait(stop: threading.Event, seconds: float) -> bool:
        if world.clock.ns >= 5_000_000_000 and not world.trace.of("kill"):
            processes.kill(2)
        return passes(stop, seconds)

    monkeypatch.setattr(world.clock, "wait", wait)
    world.run(event("disk.full", targets="node:2"))
    assert world.only.healed_ns is not None
    assert world.only.healed_ns < 5_000_000_000
    assert str(world.only.healing).endswith("; node 2 ended later because of it, and was started")
    world.assert_whole()


@pytest.mark.parametrize(
    ("fault", "prepared", "deed"),
    [("disk.stall", "flush", "freeze"), ("link.slow", "prepare", "degrade")],
)
@pytest.mark.parametrize("fails", [False, True])
def test_slow_preparations_happen_before_the_injection(
    world: World, fault: str, prepared: str, deed: str, fails: bool
) -> None:
    """The fault's own time does not count it; it is tried all the same when that fails."""
    if fails:
        world.machines.broken = {prepared}
    world.run(event(fault, targets="node:1"))
    kinds = [entry[1] if entry[0] == "journal" else entry[0] for entry in world.trace.entries]
    assert kinds.index(prepared) < kinds.index("fault") < kinds.index(deed)
    assert world.only.effective_ns is not None
    assert world.only.error is None


def test_no_fault_is_injected_without_a_journal_entry(world: World) -> None:
    """What cannot be written down is not done."""
    world.journal.full = True
    world.run(event("kill"))
    assert world.trace.entries == []
    assert "journal cannot be written" in str(world.only.error)


def test_a_stop_heals_everything_and_records_skipped_events(world: World) -> None:
    """After a stop nothing is in force and every event has its record."""
    world.clock.stop_at_ns = world.clock.now_ns() + 2_000_000_000
    world.run(
        event("pause", targets="node:1", duration_ms=10_000),
        event("partition.isolate-one", at_ms=1_500, duration_ms=10_000),
        event("kill", at_ms=15_000),
    )
    world.assert_whole()
    assert sorted(record.event.id for record in world.records) == [0, 1, 2]
    assert world.trace.of("kill") == []
    left_out = next(record for record in world.records if record.event.id == 2)
    assert left_out.error == "not injected: the chaos phase ended first"


def test_an_error_of_on_done_does_not_prevent_heals(world: World) -> None:
    """A full history disk must not keep a partition in place."""

    def full(record: FaultRecord) -> None:
        raise OSError("no space left on device")

    Nemesis(
        schedule=scripted([event("partition.halves")], seed=1, end_ms=5_000),
        hosts=world.machines.hosts(),
        view=world.view,
        journal=world.journal,
        clock=world.clock,
        on_done=full,
    ).run()
    world.assert_whole()


def test_overlapping_faults_do_not_heal_each_other(world: World) -> None:
    """What the longer fault holds stays broken when the shorter one is healed."""
    world.run(
        event("partition.isolate-one", targets="node:1", duration_ms=2_000),
        event("partition.isolate-one", targets="node:1", at_ms=2_000, duration_ms=4_000),
        event("kill", targets="node:2", at_ms=8_000, duration_ms=2_000),
        event("kill", targets="all", at_ms=9_000, duration_ms=4_000),
    )
    assert len(world.trace.of("unblock")) == 4
    assert [entry[1] for entry in world.trace.of("start")] == [1, 2, 3]
    world.assert_whole()


def test_a_fault_before_its_injection_holds_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first kill is healed while the second is still prepared. Found by a run in which the
    second then met a node that was down, and nobody started it."""
    monkeypatch.setattr(executor, "LONGEST_WAIT_S", 0.02)
    started, journal, start = (
        threading.Event(),
        world.journal.record,
        world.machines.processes.start,
    )

    def slow(kind: str, **columns: Any) -> None:
        if (kind, columns.get("planned_ms")) == ("fault", 2_900):
            started.wait(5)
        journal(kind, **columns)

    def first(node: int) -> None:
        start(node)
        started.set()

    world.journal.record = slow  # type: ignore[method-assign]
    world.machines.processes.start = first  # type: ignore[method-assign]
    world.run(
        event("kill", targets="node:2"),
        event("kill", targets="node:2", at_ms=2_900),
    )
    assert world.trace.of("start")[0] == ("start", 2)
    assert world.machines.processes.states[2] == "S"


def test_an_unresolved_selector_is_retried_and_then_skipped(world: World) -> None:
    """A leaderless moment delays a fault; a leaderless cluster leaves it out within a bound."""
    world.view.leaders.clear()
    world.run(event("kill", targets="leader:a/0"))
    assert world.only.error == "not injected: a/0 has no known leader"
    passed_ns = world.clock.now_ns() - 1_000_000_000
    assert passed_ns >= (1_000 + RESOLVE_TIMEOUT_MS) * 1_000_000

    later = World()
    wait, due_ns = later.clock.wait, later.clock.now_ns() + 2_500_000_000

    def elect(*args: object) -> bool:
        later.view.leaders = {("a", 0): 3} if later.clock.now_ns() >= due_ns else {}
        return wait(*args)  # type: ignore[arg-type]

    later.clock.wait = elect  # type: ignore[assignment, method-assign]
    later.view.leaders.clear()
    later.run(event("kill", targets="leader:a/0"))
    assert later.trace.of("kill") == [("kill", 3)]


def test_an_event_waits_for_its_condition_up_to_a_bound(world: World) -> None:
    """The fault strikes when its condition holds, or is left out and says which one did not."""
    world.run(event("kill", until="isr:a/0 is 1", until_timeout_ms=3_000))
    assert world.only.error == "not injected: 'isr:a/0 is 1' did not hold within 3000 ms"

    met = World()
    met.run(event("kill", targets="node:1", until="isr:a/0 size 3"))
    assert met.trace.of("kill") == [("kill", 1)]


def test_events_that_wait_for_the_whole_quorum_are_injected_one_at_a_time(world: World) -> None:
    """What is known of the cluster does not show yet what the one before did to it."""
    world.view.voting = (1, 2, 3)
    world.view.answering = dict.fromkeys((1, 2, 3), True)
    whole: dict[str, Any] = {"until": "quorum whole", "until_timeout_ms": 15_000}
    world.run(*(event("kill", targets=f"node:{node}", **whole) for node in (1, 2, 3)))
    struck = [record.started_ns for record in world.records]
    healed = [record.healed_ns for record in world.records]
    assert all(at is not None for at in (*struck, *healed))
    for over_ns, next_ns in zip(healed[:-1], struck[1:], strict=True):
        assert next_ns >= over_ns + VIEW_LAG_NS  # type: ignore[operator]


def test_equal_seeds_select_equal_nodes() -> None:
    """Random targets are drawn from the schedule's seed and the event alone."""
    worlds = [World(), World()]
    for each in worlds:
        each.run(*(event("pause", at_ms=n * 1_000, duration_ms=500) for n in range(10)))
    first, second = (each.trace.of("pause") for each in worlds)
    assert first == second
    assert len({entry[1] for entry in first}) > 1


def test_a_fault_that_hangs_does_not_delay_other_heals(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop that does not return holds up neither the next fault nor its heal."""
    monkeypatch.setattr(executor, "LONGEST_WAIT_S", 0.02)
    released = threading.Event()
    pause = world.machines.processes.pause

    def hang(node: int) -> None:
        assert released.wait(30)
        pause(node)

    world.machines.processes.pause = hang  # type: ignore[method-assign]
    unblock = world.machines.links.unblock

    def release(*cuts: Cut) -> None:
        unblock(*cuts)
        released.set()

    world.machines.links.unblock = release  # type: ignore[method-assign]
    world.run(
        event("pause", targets="node:1", duration_ms=500),
        event("partition.isolate-one", targets="node:2", at_ms=2_000, duration_ms=1_000),
    )
    cut, paused = world.records
    assert cut.event.fault == "partition.isolate-one"
    assert cut.started_ns is not None
    assert cut.healed_ns is not None
    assert cut.healed_ns - cut.started_ns < 2_000_000_000
    assert paused.healed_ns is not None
    assert paused.healed_ns > cut.healed_ns
    world.assert_whole()


def test_a_heal_that_hangs_is_abandoned_and_recorded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end is bounded, and whoever runs the nemesis learns what is still broken."""
    monkeypatch.setattr(executor, "LONGEST_WAIT_S", 0.002)
    released = threading.Event()
    resume = world.machines.processes.resume

    def hang(node: int) -> None:
        assert released.wait(30)
        resume(node)

    world.machines.processes.resume = hang  # type: ignore[method-assign]
    nemesis = world.run(event("pause", targets="node:1"), event("kill", at_ms=5_000))
    assert nemesis.in_force() == ("pause node 1",)
    hung, waited = world.records
    assert hung.error == "not healed: it hangs"
    assert hung.healed_ns is None
    assert waited.error == "not injected: the chaos phase ended first"
    released.set()


def test_the_end_waits_as_long_as_the_slowest_heal_may_take(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine's boot outlasts what would be a hanging heal of any other fault."""
    monkeypatch.setattr(executor, "LONGEST_WAIT_S", 0.002)
    late, booted = threading.Event(), threading.Event()
    restore, wait, began_ns = world.machines.power.restore, world.clock.wait, world.clock.ns

    def boot(nodes: Sequence[int]) -> None:
        assert late.wait(30)
        restore(nodes)
        booted.set()

    def pass_by(stop: threading.Event, seconds: float) -> bool:
        if world.clock.ns - began_ns > 200_000_000_000:
            late.set()
            assert booted.wait(30)
        return wait(stop, seconds)

    world.machines.power.restore = boot  # type: ignore[method-assign]
    world.clock.wait = pass_by  # type: ignore[method-assign]
    nemesis = world.run(event("machine-power-loss", targets="node:1"))
    assert nemesis.finish_s == find("machine-power-loss").heal_timeout_s > 200
    assert (world.only.error, nemesis.in_force()) == (None, ())
    world.assert_whole()


def test_faults_in_force_at_the_end_stay_with_leave(world: World) -> None:
    """For a look at a broken cluster: the last fault stays, the one before was healed."""
    nemesis = world.run(
        event("pause", targets="node:1", duration_ms=1_000),
        event("kill", targets="node:2", at_ms=4_000, duration_ms=6_000),
        end_ms=10_000,
        leave=True,
    )
    assert nemesis.in_force() == ("kill node 2",)
    healed, left = world.records
    assert healed.healed_ns is not None
    assert (left.healed_ns, left.error) == (None, "left in force")
    assert left.row()["took_effect"] is True
    assert world.trace.of("start") == []


def test_fixed_nodes_of_an_earlier_run_are_hit_again(world: World) -> None:
    """Whoever leads now: the nodes that the schedule names, in the shape of then."""
    world.run(event("partition.random-halves"), event("kill", targets="leader:a/0", at_ms=8_000))
    again = World()
    again.view.leaders = {("a", 0): 3}
    meant = [json.loads(str(record.row()["targets"]))["meant"] for record in world.records]
    again.run(
        event("partition.random-halves", nodes=meant[0]),
        event("kill", targets="leader:a/0", at_ms=8_000, nodes=meant[1]),
    )
    assert meant[1] == [1]
    assert again.trace.of("block") == world.trace.of("block")
    assert again.trace.of("kill") == [("kill", 1)]


def test_durations_of_injection_and_heal_are_recorded(world: World) -> None:
    """By the run's clock, without the journal and the proofs."""
    block = world.machines.links.block

    def slow(*cuts: Cut) -> None:
        world.clock.ns += 7_500_000
        block(*cuts)

    world.machines.links.block = slow  # type: ignore[method-assign]
    world.run(event("cut.clients", targets="node:1"))
    row = world.only.row()
    assert row["inject_ms"] == 7.5
    assert row["heal_ms"] == 0.0
