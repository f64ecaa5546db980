"""Following a tested program: alarms of its output, before the end of the run."""

from pathlib import Path
from typing import Any

import pytest

from checkers.check import check
from checkers.following.outputs import OutputState
from checkers.history.history import PRODUCER_EPOCH
from checkers.history.settings import OFFSETS_TOPIC
from checkers.verdict import Outcome
from tests.checkers.following.test_follow import follow
from tests.support.histories.golden.state_losses import log_file, taken
from tests.support.histories.story import ALL, ONE, PRODUCER, Story, healthy, v

PROGRAM = 51
EVERY = tuple(range(1, 21))
GROUP = "billing"


def story_of(
    outputs: tuple[int | None, ...],
    *,
    claim: str = "exactly-once",
    error: str | None = None,
    sink: str = "topic",
    later: bool = True,
) -> Story:
    """A run whose program reads ALL. later: the producer sends more after the outputs."""
    s = healthy()
    s.plan["more_workloads"] = [
        {
            "kind": "app",
            "group": GROUP,
            "input": ALL,
            "processing": claim,
            "ordered_by": "key",
            "sink": {sink: "out"},
        }
    ]
    s.row("start", PROGRAM, 1)
    for position, sequence in enumerate(outputs):
        columns = {
            "partition": 0,
            "offset": position,
            "value": None if sequence is None else v(ALL, sequence),
            "error": error if sequence is None else None,
        }
        s.row("app-output", PROGRAM, 25 + position / 100, **columns)
    if later:
        s.send(ALL, 21, 20, 28)
        s.poll(ALL, 29, {20: v(ALL, 21)})
        s.read_in_the_end(ALL, 20, v(ALL, 21))
        s.row("app-output", PROGRAM, 30, partition=0, offset=len(outputs), value=v(ALL, 21))
    s.row("app-end", PROGRAM, 40)
    s.row("end", PROGRAM, 61)
    return s


def alarms(folder: Path, story: Story) -> set[str]:
    """The kinds of forbidden anomalies that following tells; the whole run confirms them."""
    found = {each.kind for each in follow(folder, story)}
    outcome = check(story.sources(), story.plan).outcome
    assert outcome is Outcome.INVALID or not found
    return found


def test_output_that_is_there_again_raises_an_alarm(tmp_path: Path) -> None:
    """If the program claims that it is not."""
    story = story_of((*EVERY, 4))
    assert alarms(tmp_path / "a", story) == {"duplicated-output"}
    (alarm,) = follow(tmp_path / "b", story)
    assert alarm.what == f"duplicated-output in {ALL}"


def test_moved_output_raises_an_alarm(tmp_path: Path) -> None:
    """The inputs 3 and 11 have one key."""
    moved = (1, 2, 11, *(n for n in EVERY if n not in (1, 2, 11)))
    assert alarms(tmp_path, story_of(moved)) == {"reordered-output"}


@pytest.mark.parametrize(
    ("error", "kind"), [("torn", "torn-output"), ("unreadable", "unknown-output")]
)
def test_output_without_an_id_raises_an_alarm(tmp_path: Path, error: str, kind: str) -> None:
    """It names no input, whatever comes."""
    assert alarms(tmp_path, story_of((*EVERY, None), error=error)) == {kind}


def test_permitted_output_raises_no_alarm(tmp_path: Path) -> None:
    """At least once: it may be there again. What is missing may still come."""
    story = story_of((*(n for n in EVERY if n != 7), 4), claim="at-least-once")
    assert alarms(tmp_path, story) == set()


def test_rows_of_a_database_raise_no_alarm(tmp_path: Path) -> None:
    """The program may still correct them."""
    assert alarms(tmp_path, story_of((*EVERY, 4), sink="sql")) == set()


def test_input_that_may_be_in_the_log_twice_raises_no_alarm(tmp_path: Path) -> None:
    """Its producer left an epoch, or is not idempotent; or the topic loses what it acknowledged."""
    story = story_of((*EVERY, 4))
    story.row(PRODUCER_EPOCH, PRODUCER[ALL], 24, topic=ALL, partition=0, error="timed-out")
    assert "duplicated-output" not in {each.kind for each in follow(tmp_path / "epoch", story)}
    for changes in (
        {"idempotence": False},
        {"configs": {"unclean.leader.election.enable": "true"}},
    ):
        story = story_of((*EVERY, 4))
        (planned,) = (each for each in story.plan["topics"] if each["name"] == ALL)
        planned |= changes
        found = follow(tmp_path / next(iter(changes)), story)
        assert "duplicated-output" not in {each.kind for each in found}


@pytest.mark.parametrize("took", [True, False])
def test_input_that_may_be_lost_raises_no_alarm(tmp_path: Path, *, took: bool) -> None:
    """A power loss may take an acknowledged input, and then its outputs are not judged. A fault
    that was not injected takes nothing."""
    story = story_of((*EVERY, 4))
    taken(story, 1, 2, took=took)
    found = {each.kind for each in follow(tmp_path, story)}
    assert ("duplicated-output" in found) is not took


@pytest.mark.parametrize(("topic", "needed"), [(OFFSETS_TOPIC, True), ("out", True), (ONE, False)])
def test_damage_to_a_topic_that_the_program_needs_raises_no_alarm(
    tmp_path: Path, topic: str, *, needed: bool
) -> None:
    """The program may have gone back, or lost what it had written. Other files excuse nothing."""
    story = story_of((*EVERY, 4))
    damaged = {node: [log_file(topic)] for node in (1, 2)}
    taken(story, 1, 2, fault="disk.cut-tail", details={"file": "log"}, damaged=damaged)
    found = {each.kind for each in follow(tmp_path, story)}
    assert ("duplicated-output" in found) is not needed


def state(**limits: int) -> OutputState:
    """The state of a program that reads `t`."""
    bounds = {"offsets": 100, "producers": 10, "intervals": 50, "lines": 20}
    return OutputState({"input": "t", "group": GROUP}, **(bounds | limits))


def send(sequence: int, at_ns: int, *, topic: str = "t") -> dict[str, Any]:
    """An acknowledged send to partition 0, at the offset of its number."""
    times = {"invoke_ns": at_ns, "complete_ns": at_ns}
    where = {"topic": topic, "partition": 0, "offset": sequence, "value": sequence}
    return {"f": "send", "type": "ok", **times, **where}


def element(sequence: int | None, position: int, at_ns: int, **more: Any) -> dict[str, Any]:
    """An element of the output."""
    where = {"partition": 0, "offset": position, "value": sequence, "invoke_ns": at_ns}
    return {"f": "app-output", "op": position, "error": None, **where, **more}


def test_suspect_waits_for_later_sends() -> None:
    """The producers may not have recorded yet what excuses it."""
    carried = state()
    list(carried.sent(send(3, 5)))
    rows = [element(3, 0, 10), element(3, 1, 20)]
    assert [each for row in rows for each in carried.element(row)] == []
    assert list(carried.sent(send(4, 20))) == []
    (found,) = carried.sent(send(5, 21))
    assert (found.kind, found.values, found.group) == ("duplicated-output", (3,), GROUP)
    assert list(carried.sent(send(6, 22))) == []


def test_element_may_be_recorded_before_its_send() -> None:
    """Its place in the order of its key is known when the send is."""
    carried = state()
    for row in (element(11, 0, 10), element(3, 1, 11)):
        assert list(carried.element(row)) == []
    found = [each for n in (3, 11, 12) for each in carried.sent(send(n, n + 1))]
    assert [(each.kind, each.values) for each in found] == [("reordered-output", (3, 11))]


def test_changed_output_shows_nothing_before_the_end() -> None:
    """What waits is dropped, and nothing follows."""
    carried = state()
    list(carried.sent(send(3, 5)))
    for row in (element(3, 0, 10), element(3, 1, 20)):
        list(carried.element(row))
    carried.reread()
    assert list(carried.sent(send(4, 30))) == []
    assert list(carried.element(element(None, 2, 40, error="torn"))) == []


def test_state_does_not_grow_with_time() -> None:
    """A program that writes every third output twice, and misses every fifth."""
    carried, sizes = state(), []
    for number in range(5_000):
        list(carried.sent(send(number, number)))
        for again in range(2 if number % 3 == 0 else 1):
            if number % 5:
                list(carried.element(element(number, 2 * number + again, number)))
        sizes.append(carried.size())
    assert max(sizes[1_000:]) <= sizes[999] * 1.05
