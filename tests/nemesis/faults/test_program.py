"""Faults of a tested program, against a fake one."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from nemesis.base import BadSchedule, NotApplicable
from nemesis.faults.catalogue import find
from nemesis.faults.clock import JUMPS_MS
from nemesis.faults.fault import Injection, Params
from nemesis.hosts import PROGRAM, ClockReading, Hosts
from nemesis.programs import NoProgram
from tests.support.nemesis.fakes import FakeClocks, FakeMachines, Trace


@dataclass
class FakeProgram:
    """Two instances; `lazy`: a killed one does not come back."""

    down: dict[int, set[str]] = field(default_factory=lambda: {1: set(), 2: set()})
    stopped: dict[int, set[str]] = field(default_factory=lambda: {1: set(), 2: set()})
    alive: dict[int, bool] = field(default_factory=lambda: {1: True, 2: True})
    lazy: bool = False
    clocks: FakeClocks = field(default_factory=lambda: FakeMachines(Trace()).clocks)

    def instances(self) -> Sequence[int]:
        return sorted(self.alive)

    def pid(self, instance: int) -> int | None:
        return 100 + instance if self.alive[instance] else None

    def kill(self, instance: int, tag: str) -> None:
        self.down[instance].add(tag)
        self.alive[instance] = False

    def release(self, instance: int, tag: str) -> None:
        self.down[instance].discard(tag)
        self.alive[instance] = not self.down[instance] and not self.lazy

    def is_kept_down(self, instance: int) -> bool:
        return bool(self.down[instance])

    def pause(self, instance: int, tag: str) -> None:
        self.stopped[instance].add(tag)

    def resume(self, instance: int, tag: str) -> None:
        self.stopped[instance].discard(tag)

    def states(self, instance: int) -> Mapping[int, str]:
        letter = "T" if self.stopped[instance] else "S"
        return {100 + instance: letter} if self.alive[instance] else {}


def hosts(program: FakeProgram) -> Hosts:
    """Machines with the program."""
    return replace(FakeMachines(Trace()).hosts(), programs=program)


def injection(name: str, instance: str, seed: int = 0, **more: str) -> Injection:
    """As the executor plans it."""
    fault = find(name)
    params = Params.of(fault.options, {"instance": instance, **more})
    return fault.plan_injection((0,), (1, 2, 3), random.Random(seed), params)


def test_kill_keeps_an_instance_down_until_the_heal() -> None:
    """The other one goes on."""
    program, fault, struck = FakeProgram(), find("app.kill"), injection("app.kill", "2")
    on = hosts(program)
    fault.inject(on, struck)
    assert program.alive == {1: True, 2: False}
    assert fault.measure_effect(on, struck).confirmed
    assert fault.label(struck) == "app.kill instance 2"
    fault.heal(on, struck)
    fault.heal(on, struck)
    assert program.alive == {1: True, 2: True}
    assert fault.measure_heal(on, struck).confirmed


def test_overlapping_kills_let_go_together() -> None:
    """The last heal starts the instance."""
    program, fault = FakeProgram(), find("app.kill")
    on, one, every = hosts(program), injection("app.kill", "1"), injection("app.kill", "all", 1)
    fault.inject(on, one)
    fault.inject(on, every)
    assert fault.label(every) == "app.kill all instances"
    fault.heal(on, every)
    assert program.alive == {1: False, 2: True}
    assert fault.measure_heal(on, every).confirmed
    fault.heal(on, one)
    assert program.alive == {1: True, 2: True}


def test_instance_that_does_not_come_back_is_not_healed() -> None:
    """The supervisor failed."""
    program, fault, struck = FakeProgram(lazy=True), find("app.kill"), injection("app.kill", "1")
    on = hosts(program)
    fault.inject(on, struck)
    fault.heal(on, struck)
    proof = fault.measure_heal(on, struck)
    assert (proof.confirmed, proof.evidence) == (False, "instance 1 does not run")


def test_pause_is_proved_by_the_states_of_processes() -> None:
    """And its heal, too."""
    program, fault, struck = FakeProgram(), find("app.pause"), injection("app.pause", "1")
    on = hosts(program)
    assert not fault.measure_effect(on, struck).confirmed
    fault.inject(on, struck)
    proof = fault.measure_effect(on, struck)
    assert proof.confirmed
    assert proof.evidence == "1 of 1 processes of instance 1 in state T"
    assert not fault.measure_heal(on, struck).confirmed
    fault.heal(on, struck)
    assert fault.measure_heal(on, struck).confirmed


@pytest.mark.parametrize("name", ["app.kill", "app.pause", "app.clock"])
def test_instance_that_does_not_run_is_not_hit(name: str) -> None:
    """Nothing would change; the same without a program, and for a number that does not exist."""
    program = FakeProgram(alive={1: False, 2: True})
    for on, number in (
        (hosts(program), "1"),
        (hosts(program), "7"),
        (replace(hosts(program), programs=NoProgram()), "all"),
    ):
        with pytest.raises(NotApplicable, match="was not running"):
            find(name).inject(on, injection(name, number))
    assert not any(program.stopped.values())


def test_instance_is_a_number_or_all() -> None:
    """Bad values are refused before the run."""
    for bad in ("0", "x", "101"):
        with pytest.raises(BadSchedule, match="a number from 1 to 100, or all"):
            injection("app.kill", bad)


def test_clock_is_proved_by_the_time_that_it_shows() -> None:
    """Two faults add up, and each ends alone."""
    program, fault = FakeProgram(), find("app.clock")
    on, minute = hosts(program), injection("app.clock", "2", offset_ms="60000")
    back = injection("app.clock", "all", 1, offset_ms="-500")
    assert fault.label(minute) == "app.clock instance 2, +60000 ms"
    assert not fault.measure_effect(on, minute).confirmed
    fault.inject(on, minute)
    fault.inject(on, back)
    proof = fault.measure_effect(on, back)
    assert proof.confirmed
    said = "the clock of instance 1 shows -0.500 s; the clock of instance 2 shows +59.500 s"
    assert proof.evidence == said
    fault.heal(on, minute)
    assert fault.measure_heal(on, minute).confirmed
    assert fault.measure_effect(on, back).confirmed
    fault.heal(on, back)
    assert program.clocks.requested_offset_ms(1) == program.clocks.requested_offset_ms(2) == 0


def test_clock_that_shows_the_old_time_is_no_effect() -> None:
    """As that of a program that does not read its clock through the C library."""
    program, fault = FakeProgram(), find("app.clock")
    on, struck = hosts(program), injection("app.clock", "1", offset_ms="60000")
    program.clocks.deaf = True
    fault.inject(on, struck)
    assert not fault.measure_effect(on, struck).confirmed


def test_clock_that_goes_on_wrong_is_not_healed() -> None:
    """What it shows counts, and not what was asked for."""
    program, fault = FakeProgram(), find("app.clock")
    on, struck = hosts(program), injection("app.clock", "1", offset_ms="60000")
    fault.inject(on, struck)
    fault.heal(on, struck)
    shown = ClockReading(59_999, 60_001, looked=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program.clocks, "read", lambda _: shown)
        assert not fault.measure_heal(on, struck).confirmed
    assert fault.measure_heal(on, struck).confirmed


def test_any_offset_is_drawn_from_the_seed() -> None:
    """And never 0."""
    drawn = {injection("app.clock", "1", seed).detail("offset_ms") for seed in range(20)}
    assert len(drawn) > 2
    assert drawn <= {str(each) for each in JUMPS_MS}
    with pytest.raises(BadSchedule, match="it is a whole number of ms, not 0"):
        injection("app.clock", "1", offset_ms="0")


def test_cut_is_between_the_program_and_nodes_only() -> None:
    """All nodes, or those of the event's target. No node counts as hit."""
    fault, params = find("app.cut"), Params({})
    every = fault.plan_injection((0,), (1, 2), random.Random(0), params)
    assert {cut[:2] for cut in every.cuts} == {
        *((PROGRAM, 1), (1, PROGRAM)),
        *((PROGRAM, 2), (2, PROGRAM)),
    }
    assert every.nodes == ()
    one = fault.plan_injection((2,), (1, 2), random.Random(1), params)
    assert {cut[:2] for cut in one.cuts} == {(PROGRAM, 2), (2, PROGRAM)}
    assert fault.label(one) == "app.cut from node 2"
    assert not {cut.layer for cut in one.cuts} & {cut.layer for cut in every.cuts}
