"""Schedules: generated from a seed, written by hand, read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemesis.base import BadSchedule, BadSelector, NemesisError, UnknownFault
from nemesis.faults.catalogue import FAULTS
from nemesis.generator import Mix, generate
from nemesis.schedule import Event, Schedule, from_json, scripted

MIX = Mix(
    faults=tuple(FAULTS),
    targets=("one", "leader", "controller"),
    interval_ms=(1_000, 5_000),
    duration_ms=(1_000, 8_000),
)
seeds = st.integers(0, 2**63)


@given(seeds)
def test_equal_seeds_give_equal_bytes(seed: int) -> None:
    """The schedule's file is a function of the mix, the seed and the length."""
    once, again = (generate(MIX, seed=seed, end_ms=60_000).to_json() for _ in range(2))
    assert once == again
    assert from_json(once).to_json() == once


def test_other_seeds_give_other_schedules() -> None:
    """Fifty seeds, fifty schedules."""
    made = {generate(MIX, seed=seed, end_ms=60_000).to_json() for seed in range(50)}
    assert len(made) == 50


def test_the_generator_stays_as_it_is() -> None:
    """A stored plan and seed must give the same faults with later versions too."""
    mix = Mix(
        faults=("kill", "pause", "partition.halves"),
        targets=("one", "leader"),
        interval_ms=(1_000, 5_000),
        duration_ms=(1_000, 8_000),
    )
    events = generate(mix, seed=7, end_ms=30_000).events
    assert [(e.at_ms, e.fault, e.targets, e.duration_ms) for e in events] == [
        (2598, "partition.halves", "all", 5758),
        (11220, "kill", "one", 4268),
        (17452, "pause", "leader", 1163),
        (20808, "kill", "one", 2459),
        (28228, "pause", "one", 1772),
    ]


@given(seeds)
def test_generated_events_never_overlap_and_end_in_time(seed: int) -> None:
    """One fault at a time, quiet time before each, everything healed before the end."""
    schedule = generate(MIX, seed=seed, end_ms=60_000)
    free_ms = 0
    for event in schedule.events:
        assert event.at_ms >= free_ms + MIX.interval_ms[0]
        assert MIX.duration_ms[0] <= event.duration_ms <= MIX.duration_ms[1]
        free_ms = event.at_ms + event.duration_ms
    assert free_ms <= schedule.end_ms


@given(seeds)
def test_every_fault_comes_once_before_any_is_repeated(seed: int) -> None:
    """A random mix leaves nothing out by chance."""
    names = [event.fault for event in generate(MIX, seed=seed, end_ms=600_000).events]
    assert sorted(names[: len(FAULTS)]) == sorted(FAULTS)


def test_events_have_the_selectors_of_the_mix_or_the_faults_default() -> None:
    """Faults that cannot be aimed take their own target, the others only those of the mix."""
    for event in generate(MIX, seed=3, end_ms=10_000_000).events:
        fault = FAULTS[event.fault]
        assert event.targets in (MIX.targets if fault.selectable else (fault.default_selector,))


def test_a_mix_without_faults_gives_an_empty_schedule() -> None:
    """An empty mix is an empty schedule, not an error: a run without faults."""
    empty = Mix(faults=(), targets=(), interval_ms=(1, 1), duration_ms=(1, 1))
    assert generate(empty, seed=1, end_ms=1_000).events == ()


def test_scripted_events_are_ordered_numbered_and_completed() -> None:
    """Events come in the order of their times, numbered, with the fault's own target."""
    schedule = scripted(
        [
            Event(at_ms=500, fault="kill", duration_ms=100, targets="node:1"),
            Event(at_ms=100, fault="partition.isolate-leader", duration_ms=900),
        ],
        seed=1,
        end_ms=1_000,
    )
    assert [(e.id, e.fault, e.targets) for e in schedule.events] == [
        (0, "partition.isolate-leader", "leader"),
        (1, "kill", "node:1"),
    ]


@pytest.mark.parametrize(
    ("event", "error", "said"),
    [
        ({"fault": "kil"}, UnknownFault, "did you mean kill"),
        ({"targets": "everyone"}, BadSelector, "event 0"),
        ({"until": "soon"}, BadSchedule, "not a condition"),
        ({"duration_ms": 2_000}, BadSchedule, "after the chaos phase"),
    ],
)
def test_bad_events_are_refused(
    event: dict[str, object], error: type[NemesisError], said: str
) -> None:
    """Each error says which event and what is wrong with it."""
    made = Event.model_validate({"at_ms": 0, "fault": "kill", "duration_ms": 1} | event)
    with pytest.raises(error, match=said):
        scripted([made], seed=1, end_ms=1_000)


@pytest.mark.parametrize("data", [b"", b"{}", b'{"seed": 1, "end_ms": 5, "events": [{}]}', b"\xff"])
def test_invalid_schedule_files_are_refused(data: bytes) -> None:
    """A torn or foreign file is a BadSchedule, never something else."""
    with pytest.raises(BadSchedule):
        from_json(data)


def test_an_overlong_script_is_refused() -> None:
    """There is a bound on the number of events."""
    event = Event(id=0, at_ms=0, fault="kill", duration_ms=1, targets="one")
    with pytest.raises(BadSchedule, match="more than"):
        from_json(Schedule(seed=1, end_ms=10, events=(event,) * 10_001).to_json())
