"""Following passes over compacted topics: alarms that the whole run confirms, however it is cut."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from checkers.check import check
from checkers.contract.contract import Judgement
from checkers.following.keys import OF_KEYS, KeyState
from checkers.following.suspects import Suspect
from checkers.history.history import HISTORY, table
from checkers.verdict import Anomaly
from tests.support.checkers import followed
from tests.support.checkers.followed import in_time
from tests.support.histories.golden import ALL_GOLDEN
from tests.support.histories.golden import compacted_passes as passes
from tests.support.histories.golden.compacted import LAST, write
from tests.support.histories.story import ALL, Row, S, Story
from tests.support.tiers import a_third_fast

ONLY_IN_THE_END = {"key_goes_back_before_the_final_read", "passes_are_given_a_second_copy"}
"""What the final read shows, which nobody follows, or what is judged when it has come to its end.
"""
NOT_TOLD = {("phantom", "unsent")}
"""What following never tells: the send may be recorded later."""
OF_PASSES = [
    name
    for name, golden in sorted(ALL_GOLDEN.items())
    if golden.bend.__module__ == passes.__name__ and name not in ONLY_IN_THE_END
]
CUTS = 12


def follow(folder: Path, story: Story, cuts: Sequence[int]) -> tuple[Anomaly, ...]:
    """Look after each of the pieces that end at these rows; the first alarm."""
    rows = recorded(story)
    ends = zip([0, *cuts], [*cuts, len(rows)], strict=True)
    return followed.follow(folder, story, (rows[begin:end] for begin, end in ends))


def recorded(story: Story) -> list[Row]:
    """The rows before the final reads, in the order in which clients record them."""
    return followed.recorded(story, but=("final", "keyed-read"))


@pytest.mark.parametrize(
    "name",
    a_third_fast(
        "checkers/following/test_keys.py::test_following_agrees_with_the_check_of_the_whole",
        OF_PASSES,
        of=3,
    ),
)
def test_following_agrees_with_the_check_of_the_whole(name: str, tmp_path: Path) -> None:
    """What passes show raises an alarm exactly if the whole run is INVALID because of it."""
    story, rng = ALL_GOLDEN[name].story(), random.Random(name)
    in_time(story)
    whole = {
        (each.kind, each.aspect)
        for each in check(story.sources(), story.plan).anomalies
        if each.judgement is Judgement.FORBIDDEN
    }
    for attempt in range(3):
        cuts = sorted(rng.sample(range(len(recorded(story))), attempt * CUTS))
        found = {(a.kind, a.aspect) for a in follow(tmp_path / str(attempt), story, cuts)}
        assert found <= whole
        assert bool(found) == bool(whole - NOT_TOLD)


def taken(state: KeyState, rows: Sequence[Row]) -> list[Suspect]:
    """What a state says to more rows."""
    found = [*state.take(table(HISTORY, rows)), *state.settle()]
    return [each for each in found if each.kind == OF_KEYS]


def missing_key() -> Story:
    """Passes are given nothing of key 1."""
    story = ALL_GOLDEN["passes_are_given_nothing_of_a_key"].story()
    in_time(story)
    return story


def test_two_passes_are_compared_when_a_third_one_has_begun() -> None:
    """Before that, a write that has begun may not be recorded yet."""
    rows, state = recorded(missing_key()), KeyState(keys=100)
    ends = [n for n, row in enumerate(rows) if row["f"] == "keyed-pass"]
    assert taken(state, rows[: ends[1] + 1]) == []
    [suspect] = taken(state, rows[ends[1] + 1 : ends[1] + 2])
    assert (suspect.topic, suspect.partition, suspect.key) == (ALL, 0, 1)
    assert suspect.op == rows[ends[1]]["op"]


def test_a_write_without_an_outcome_holds_up_the_comparison() -> None:
    """Its operation is missing among those that began before the third pass."""
    story = missing_key()
    open_ = write(story, ALL, 97, 26, key=1, type="info", complete_ns=50 * S)
    in_time(story)
    rows, state = recorded(story), KeyState(keys=100)
    until = rows.index(open_)
    assert taken(state, rows[:until]) == []
    assert taken(state, rows[until : until + 1])


def test_a_superseded_write_behind_the_passes_raises_no_alarm_while_it_is_open(
    tmp_path: Path,
) -> None:
    """It is recorded long after both passes, and excuses them."""
    story = ALL_GOLDEN["later_write_lies_behind_the_passes"].story()
    in_time(story)
    rows = recorded(story)
    cuts = [n + 1 for n, row in enumerate(rows) if row["f"] == "keyed-pass"]
    assert follow(tmp_path, story, cuts) == ()


def endless(number: int) -> list[Row]:
    """A part of an endless run: each key is written ten times, and then left for good."""
    rows: list[dict[str, Any]] = []
    at = {"topic": "t", "partition": 0, "type": "ok", "client": 1}
    first = number * 100
    for n in range(first, first + 100):
        times = {"op": 2 * n, "invoke_ns": 2 * n, "complete_ns": 2 * n + 1}
        told = {"value": n, "offset": n, "key": n // 10, "acks": -1}
        rows.append({**at, **times, **told, "f": "keyed-write"})
        given = {"op": 2 * n + 1, "invoke_ns": 2 * n + 1, "complete_ns": 2 * n + 1}
        if n % 50 == 0:
            last = [*range(9, n, 10), n]
            for offset in last:
                record = {"value": offset, "offset": offset, "key": offset // 10}
                rows.append({**at, **given, **record, "f": "keyed-poll"})
            rows.append({**at, **given, "f": "keyed-pass", "offset": n + 1})
        else:
            rows.append({**at, **given, "f": "start", "topic": None, "partition": None})
    return rows


def test_the_state_does_not_grow_with_time() -> None:
    """From the moment when its bounds are reached, the state keeps its size."""
    state, sizes = KeyState(keys=20), []
    for number in range(30):
        assert taken(state, endless(number)) == []
        sizes.append(state.size())
    assert max(sizes[15:]) == max(sizes)
    assert max(sizes[15:]) <= max(sizes[5:15])


def test_a_key_that_was_left_long_ago_is_missed() -> None:
    """Whatever else was written since."""
    state = KeyState(keys=1_000)
    for number in range(4):
        assert taken(state, endless(number)) == []
    rows = [
        row
        for number in range(4, 6)
        for row in endless(number)
        if (row["f"], row.get("offset")) != ("keyed-poll", LAST + 13)
    ]
    assert {each.key for each in taken(state, rows)} == {2}
