"""Random schedules: what they never do, whatever the mix and the seed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemesis.base import UnknownFault
from nemesis.faults.catalogue import FAULTS, find
from nemesis.generator import (
    VOTE_RECOVERY_MS,
    VOTE_TAKING_FAULTS,
    Mix,
    Tuning,
    expand,
    generate,
    most_nodes_down,
)
from nemesis.schedule import Event

END_MS = 120_000
seeds = st.integers(0, 2**63)


@st.composite
def mixes(draw: st.DrawFn) -> Mix:
    """Any mix of any faults."""
    least = draw(st.integers(200, 3_000))
    return Mix(
        faults=draw(st.lists(st.sampled_from(sorted(FAULTS)), min_size=1, unique=True)),
        targets=("one", "leader", "minority", "isr", "node:2"),
        interval_ms=(draw(st.integers(1, 2_000)), 3_000),
        duration_ms=(least, least + draw(st.integers(0, 9_000))),
        rate_per_min=draw(st.none() | st.floats(1, 100)),
        overlap=draw(st.integers(1, 5)),
        burst=draw(st.sampled_from([(1, 1), (1, 4), (3, 3)])),
        quiet_every_ms=draw(st.none() | st.integers(least, 40_000)),
        quiet_ms=draw(st.integers(1, 20_000)),
        majority=draw(st.booleans()),
        nodes=draw(st.sampled_from([3, 5, 9])),
    )


def in_force(events: tuple[Event, ...], at_ms: int) -> list[Event]:
    """The faults that hold at a moment."""
    return [e for e in events if e.at_ms <= at_ms < e.at_ms + e.duration_ms]


@given(mixes(), seeds)
def test_at_most_overlap_faults_are_in_force_and_all_heal_in_time(mix: Mix, seed: int) -> None:
    """At every injection no more are in force than asked for, and at the end none is."""
    events = generate(mix, seed=seed, end_ms=END_MS).events
    assert events == tuple(sorted(events, key=lambda event: event.at_ms))
    for event in events:
        assert len(in_force(events, event.at_ms)) <= mix.overlap
        assert mix.duration_ms[0] <= event.duration_ms <= mix.duration_ms[1]
        assert event.at_ms + event.duration_ms <= END_MS


@given(mixes(), seeds)
def test_no_fault_is_in_force_in_quiet_times(mix: Mix, seed: int) -> None:
    """Every fault begins and ends within one stretch between two quiet times."""
    if mix.quiet_every_ms is None:
        return
    round_ms = mix.quiet_every_ms + mix.quiet_ms
    for event in generate(mix, seed=seed, end_ms=END_MS).events:
        into_ms = event.at_ms % round_ms
        assert into_ms + event.duration_ms <= mix.quiet_every_ms


@given(mixes(), seeds)
def test_overlapping_faults_leave_a_majority(mix: Mix, seed: int) -> None:
    """Two or more that may take nodes away leave more than half of them, unless the mix asks."""
    events = generate(mix, seed=seed, end_ms=END_MS).events
    for event in events:
        together = [
            most_nodes_down(find(each.fault), each.targets, mix.nodes)
            for each in in_force(events, event.at_ms)
        ]
        takers = [count for count in together if count]
        assert mix.majority or len(takers) < 2 or sum(takers) < mix.nodes / 2


@given(mixes(), seeds)
def test_a_vote_is_removed_only_while_all_votes_are_present(mix: Mix, seed: int) -> None:
    """Each fault that costs one leaves it time to come back, and waits for it before it strikes."""
    back_ms = 0
    for event in generate(mix, seed=seed, end_ms=END_MS).events:
        takes = event.fault in VOTE_TAKING_FAULTS
        assert event.until == ("quorum whole" if takes else None)
        if takes:
            assert event.at_ms >= back_ms
            back_ms = event.at_ms + event.duration_ms + VOTE_RECOVERY_MS


def test_two_lost_disks_in_a_row_wait_for_the_vote() -> None:
    """Drawn one right after the other, the second comes when the first node has its vote again."""
    events = generate(mix(faults=("disk.lost",)), seed=1, end_ms=20_000).events
    assert [event.at_ms for event in events] == [1_000, 6_500, 12_000, 17_500]


@given(mixes(), seeds)
def test_equal_mixes_and_seeds_give_equal_bytes(mix: Mix, seed: int) -> None:
    """The schedule's file is a function of its arguments."""
    once, again = (generate(mix, seed=seed, end_ms=END_MS).to_json() for _ in range(2))
    assert once == again


def mix(**changes: object) -> Mix:
    """A small mix."""
    base: dict[str, object] = {
        "faults": ("kill", "pause"),
        "targets": ("one",),
        "interval_ms": (1_000, 1_000),
        "duration_ms": (500, 500),
    }
    return Mix(**(base | changes))  # type: ignore[arg-type]


def test_overlap_is_used_where_nodes_allow_it() -> None:
    """Five nodes bear two faults of one node at once; three bear one."""
    for nodes, most in ((5, 2), (3, 1)):
        long = mix(nodes=nodes, overlap=4, duration_ms=(10_000, 10_000))
        events = generate(long, seed=1, end_ms=END_MS).events
        assert max(len(in_force(events, event.at_ms)) for event in events) == most


def test_faults_that_leave_nodes_in_service_overlap_freely() -> None:
    """A clock that is wrong takes no node away."""
    clocks = mix(faults=("clock.jump", "kill"), overlap=4, duration_ms=(10_000, 10_000))
    events = generate(clocks, seed=1, end_ms=END_MS).events
    assert max(len(in_force(events, event.at_ms)) for event in events) >= 2


@pytest.mark.parametrize(
    ("fault", "aim", "count"),
    [
        *(("kill", "one", 1), ("kill", "minority", 2), ("kill", "majority", 3), ("kill", "all", 5)),
        *(("kill", "nodes:1,4", 2), ("kill", "isr:t/0", 5), ("pause.clients", "clients", 0)),
        *(("clock.jump", "all", 0), ("link.slow", "one", 0), ("partition.halves", "all", 5)),
        *(("reassign", "all", 0), ("broker.add", "all", 0), ("broker.remove", "broker", 1)),
        ("quorum.remove-voter", "quorum-follower", 1),
        *(("kill", "zookeeper:leader", 0), ("pause", "zookeeper:all", 0)),
    ],
)
def test_the_most_nodes_that_a_fault_takes_down(fault: str, aim: str, count: int) -> None:
    """The most that it can be of five nodes; nothing of those that go on serving."""
    assert most_nodes_down(find(fault), aim, 5) == count


def test_weights_are_kept_in_every_round() -> None:
    """Three kills for each pause; a weight of nothing leaves a fault out."""
    weighted = mix(
        faults=("kill", "pause", "partition.halves"),
        tunings={"kill": Tuning(weight=3), "partition.halves": Tuning(weight=0)},
    )
    names = [event.fault for event in generate(weighted, seed=1, end_ms=END_MS).events]
    for first in range(0, len(names) - 4, 4):
        assert sorted(names[first : first + 4]) == ["kill", "kill", "kill", "pause"]


def test_a_rate_is_met_on_average() -> None:
    """Thirty a minute where there is room for them."""
    often = mix(rate_per_min=30.0, duration_ms=(100, 100))
    count = len(generate(often, seed=1, end_ms=6_000_000).events)
    assert 2_700 < count < 3_100


def test_a_burst_comes_together() -> None:
    """Three faults back to back, then the interval."""
    events = generate(mix(burst=(3, 3)), seed=1, end_ms=10_000).events
    assert [event.at_ms for event in events[:6]] == [1_000, 1_500, 2_000, 3_500, 4_000, 4_500]


def test_parameters_targets_and_durations_are_drawn_for_each_fault() -> None:
    """From a range of whole numbers, of others, from texts, or as they are."""
    tuned = mix(
        faults=("clock.drift", "clock.strobe"),
        tunings={
            "clock.drift": Tuning(params={"rate": (1.01, 1.5)}, targets=("controller",)),
            "clock.strobe": Tuning(
                params={"offset_ms": (50, 60), "period_ms": ("400", "600")},
                duration_ms=(2_000, 3_000),
            ),
        },
    )
    events = generate(tuned, seed=1, end_ms=END_MS).events
    drifts = [event for event in events if event.fault == "clock.drift"]
    strobes = [event for event in events if event.fault == "clock.strobe"]
    assert all(1.01 <= float(event.params["rate"]) <= 1.5 for event in drifts)
    assert len({event.params["rate"] for event in drifts}) > 5
    assert {event.targets for event in drifts} == {"controller"}
    assert {event.params["period_ms"] for event in strobes} == {"400", "600"}
    assert {int(event.params["offset_ms"]) for event in strobes} <= set(range(50, 61))
    assert all(2_000 <= event.duration_ms <= 3_000 for event in strobes)


def test_patterns_expand_to_fault_names() -> None:
    """Each fault once, in the order given; a pattern that means none is a mistake."""
    assert expand(["pause", "partition.*", "partition.halves"])[:2] == ["pause", "partition.halves"]
    assert expand(["*"]) == list(FAULTS)
    with pytest.raises(UnknownFault, match=r"no fault matches 'melt.\*'"):
        expand(["melt.*"])
