"""Events that are added, and heals that are asked for, while a schedule runs."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from nemesis.executor import Nemesis
from nemesis.faults.fault import Injection
from nemesis.hosts import Cut
from nemesis.record import FaultRecord
from nemesis.schedule import LONGEST_MS, Event, scripted
from tests.support.nemesis.fakes import FakeClock, FakeJournal, FakeMachines, FakeView, Trace


class ScriptedClock(FakeClock):
    """Fake time in which somebody asks something at given moments. It begins at 1,000 ms."""

    def __init__(self) -> None:
        super().__init__()
        self.at_ms: dict[int, Callable[[], object]] = {}

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        """Wait as a fake clock, but not longer than until the next moment."""
        now_ms = self.now_ns() // 1_000_000
        due = sorted(at for at in self.at_ms if at > now_ms)
        left_s = (due[0] - now_ms) / 1000 if due else seconds
        stopped = super().wait(stop, min(seconds, left_s))
        for at in [at for at in self.at_ms if at <= self.now_ns() // 1_000_000]:
            self.at_ms.pop(at)()
        return stopped or stop.is_set()


@dataclass
class ByHand:
    """A nemesis without a schedule, and what it touches."""

    clock: ScriptedClock = field(default_factory=ScriptedClock)
    view: FakeView = field(default_factory=FakeView)
    trace: Trace = field(default_factory=Trace)
    records: list[FaultRecord] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.machines = FakeMachines(self.trace)
        self.nemesis = Nemesis(
            schedule=scripted([], seed=1, end_ms=60_000),
            hosts=self.machines.hosts(),
            view=self.view,
            journal=FakeJournal(self.trace),
            clock=self.clock,
            on_done=self.records.append,
        )


@pytest.fixture
def by_hand() -> ByHand:
    return ByHand()


def event(number: int, fault: str, targets: str = "one") -> Event:
    return Event(id=number, at_ms=0, fault=fault, targets=targets, duration_ms=LONGEST_MS)


def test_an_added_fault_begins_then_and_lasts_until_its_heal_is_asked_for(by_hand: ByHand) -> None:
    by_hand.clock.at_ms = {
        5_000: lambda: by_hand.nemesis.add(event(4, "kill", "node:2")),
        9_000: lambda: by_hand.nemesis.heal(4),
        12_000: by_hand.nemesis.stop,
    }
    by_hand.nemesis.run()
    (record,) = by_hand.records
    assert record.event.at_ms in range(4_000, 4_200)
    assert record.started_ns is not None
    assert record.healed_ns is not None
    assert 5_000 <= record.started_ns / 1e6 < 5_500
    assert 9_000 <= record.healed_ns / 1e6 < 9_500
    assert by_hand.machines.processes.states[2] == "S"


def test_the_heal_of_one_added_fault_leaves_what_another_one_holds(by_hand: ByHand) -> None:
    held: list[dict[Cut, int]] = []
    by_hand.clock.at_ms = {
        1_500: lambda: by_hand.nemesis.add(event(1, "partition.isolate-one", "node:1")),
        2_000: lambda: by_hand.nemesis.add(event(2, "partition.isolate-one", "node:2")),
        4_000: lambda: by_hand.nemesis.heal(1),
        6_000: lambda: held.append(dict(by_hand.machines.links.blocked)),
        7_000: by_hand.nemesis.stop,
    }
    by_hand.nemesis.run()
    assert {tuple(cut[:2]) for cut in held[0]} == {(1, 2), (2, 1), (2, 3), (3, 2)}
    assert by_hand.machines.links.blocked == {}


def test_what_is_in_force_at_a_stop_is_healed(by_hand: ByHand) -> None:
    by_hand.clock.at_ms = {
        1_500: lambda: by_hand.nemesis.add(event(1, "pause", "node:3")),
        3_000: by_hand.nemesis.stop,
    }
    by_hand.nemesis.run()
    assert by_hand.machines.processes.states[3] == "S"
    assert by_hand.records[0].healed_ns is not None


def test_the_heal_of_an_unknown_or_healed_fault_does_nothing(by_hand: ByHand) -> None:
    by_hand.clock.at_ms = {
        1_500: lambda: by_hand.nemesis.add(event(1, "kill", "node:3")),
        2_000: lambda: by_hand.nemesis.heal(1),
        3_000: lambda: by_hand.nemesis.heal(1),
        3_500: lambda: by_hand.nemesis.heal(77),
        4_000: by_hand.nemesis.stop,
    }
    by_hand.nemesis.run()
    assert len(by_hand.records) == 1
    assert len(by_hand.trace.of("start")) == 1


def test_a_selector_that_never_fits_is_told_and_nothing_is_injected(by_hand: ByHand) -> None:
    by_hand.clock.at_ms = {
        1_500: lambda: by_hand.nemesis.add(event(1, "kill", "node:9")),
        9_000: by_hand.nemesis.stop,
    }
    by_hand.nemesis.run()
    (record,) = by_hand.records
    assert record.started_ns is None
    assert "there is no node 9" in str(record.error)


def test_a_fault_that_a_dead_nemesis_left_is_healed(by_hand: ByHand) -> None:
    cut = Cut(1, 2)
    by_hand.machines.links.block(cut)
    left = Injection(nodes=(1,), cuts=(cut,))
    by_hand.nemesis.adopt(event(3, "partition.isolate-one", "node:1"), left, started_ns=-5)
    assert by_hand.nemesis.in_force() == ("partition.isolate-one node 1",)
    by_hand.clock.at_ms = {
        2_000: lambda: by_hand.nemesis.heal(3),
        4_000: by_hand.nemesis.stop,
    }
    by_hand.nemesis.run()
    assert by_hand.machines.links.blocked == {}
    assert by_hand.records[0].healed_ns is not None
    assert [entry[1] for entry in by_hand.trace.of("journal")][-1] == "fault-healed"


def test_an_injection_comes_back_from_the_journal_as_it_was() -> None:
    injections = (
        Injection(nodes=(1, 2), cuts=(Cut(1, 2, 9092),), links=((1, 0),), details=(("a", "b"),)),
        Injection(cuts=(Cut(1, 0, 9092, answers=True), Cut(2, 1, layer="flap/1"))),
        Injection(),
    )
    for injection in injections:
        entry = {"kind": "fault", **injection.as_json(), **injection.exact_cuts()}
        assert Injection.from_journal(entry) == injection
