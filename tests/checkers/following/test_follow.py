"""Following a run: alarms that the whole run confirms, with a state that stays small."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from checkers.check import check
from checkers.following.follow import Follower
from checkers.following.state import HistoryState, Limits
from checkers.history.history import HISTORY, RunSources, load_run, table
from checkers.verdict import Anomaly, Outcome
from tests.support.histories.golden import ALL_GOLDEN
from tests.support.histories.story import ALL, ONE, Story, healthy, v, value

SEGMENTS = 3


def in_time(story: Story) -> None:
    """Number the operations by when they began, as clients do; some stories do not."""
    began = {row["op"]: row["invoke_ns"] for row in story.history}
    numbers = {op: n for n, op in enumerate(sorted(began, key=lambda op: (began[op], op)))}
    for row in story.history:
        row["op"] = numbers[row["op"]]


def follow(folder: Path, story: Story, segments: int = SEGMENTS) -> tuple[Anomaly, ...]:
    """Write a story's history segment by segment, and look after each; the first alarm."""
    history = folder / "history"
    history.mkdir(parents=True)
    (folder / "plan.json").write_text("{}")

    def live() -> RunSources:
        told = story.sources()
        return replace(load_run(folder), cluster=told.cluster, faults=told.faults)

    follower = Follower(plan=story.plan, live=live)
    ended = [row for row in story.history if not row["f"].startswith("final")]
    rows = sorted(ended, key=lambda row: row["complete_ns"] or row["invoke_ns"])
    size = -(-len(rows) // segments)
    for number in range(segments):
        part = table(HISTORY, rows[number * size : (number + 1) * size])
        pyarrow.parquet.write_table(part, history / f"all-{number:06d}.parquet")
        if found := follower.look(history):
            return found
    return follower.finish()


KNOWN_AT_THE_END = {"retention_hides_where_an_epoch_began", "snapshot_hides_what_led_to_a_loss"}
"""What speaks for the broker there is where the replicas' logs start. Their files are read at the
end, so an alarm may come before."""


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ALL_GOLDEN.keys() - KNOWN_AT_THE_END))
def test_an_alarm_is_confirmed_by_the_whole(name: str, tmp_path: Path) -> None:
    """Whatever a golden history raises an alarm for, the one check of it all is INVALID too."""
    story = ALL_GOLDEN[name].story()
    in_time(story)
    if found := follow(tmp_path, story):
        assert check(story.sources(), story.plan).outcome is Outcome.INVALID, found


def twice(s: Story) -> None:
    """A value is read again, far behind."""
    s.poll(ALL, 30, {20: v(ALL, 3)})


def another_value(s: Story) -> None:
    """Two consumers get other values from one offset."""
    s.row("start", 99, 0)
    s.poll(ALL, 30, {10: v(ALL, 20)}, client=99)


def corrupt(s: Story) -> None:
    """A record whose payload is damaged."""
    s.poll(ALL, 30, {20: None}, error="checksum")


def back(s: Story) -> None:
    """A consumer goes back by itself."""
    s.poll(ALL, 30, {12: v(ALL, 13)})


def failed(s: Story) -> None:
    """A send that surely failed is read."""
    s.send(ALL, 21, None, 25, type="fail", error="INVALID_RECORD")
    s.poll(ALL, 30, {20: v(ALL, 21)})


def overwritten(s: Story) -> None:
    """Where a write was acknowledged, another one is read."""
    s.send(ALL, 21, 20, 25)
    s.poll(ALL, 30, {20: v(ALL, 22)})


def told_again(s: Story) -> None:
    """A deposed leader and its successor acknowledge one offset before anybody reads it."""
    s.send(ALL, 21, 20, 25)
    s.send(ALL, 22, 20, 26)
    s.poll(ALL, 30, {20: v(ALL, 22)})


def passed_over(s: Story) -> None:
    """A consumer passes an acknowledged offset and is given nothing."""
    s.send(ALL, 21, 20, 25)
    s.poll(ALL, 30, {21: v(ALL, 22)})


def reordered(s: Story) -> None:
    """Of an idempotent producer, what was sent first lies behind."""
    s.send(ALL, 21, 21, 25)
    s.send(ALL, 22, 20, 25.5)
    s.poll(ALL, 30, {20: v(ALL, 22), 21: v(ALL, 21)})


@pytest.mark.parametrize(
    ("bend", "kind"),
    [
        (twice, "duplicate"),
        (another_value, "inconsistent-offset"),
        (corrupt, "phantom"),
        (back, "nonmonotonic-poll"),
        (failed, "aborted-read"),
        (overwritten, "lost-write"),
        (told_again, "lost-write"),
        (passed_over, "lost-write"),
        (reordered, "reordered-send"),
    ],
)
def test_alarms(bend: object, kind: str, tmp_path: Path) -> None:
    """What the contract forbids whatever comes is told before the end of the run."""
    story = healthy()
    assert callable(bend)
    bend(story)
    assert kind in {anomaly.kind for anomaly in follow(tmp_path, story)}
    assert check(story.sources(), story.plan).outcome is Outcome.INVALID


def test_permitted_anomaly_raises_no_alarm(tmp_path: Path) -> None:
    """Without idempotence a value may be there twice."""
    story = healthy()
    story.poll(ONE, 30, {20: v(ONE, 3)})
    assert follow(tmp_path, story) == ()


def segment(number: int, sends: int = 400) -> pa.Table:
    """A part of an endless run: two producers, two partitions, every seventh write is lost."""
    rows = []
    for sequence in range(number * sends, (number + 1) * sends):
        for producer in (1, 2):
            partition = sequence % 2
            at = {"topic": "all", "partition": partition, "value": value(producer, sequence)}
            times = {"invoke_ns": sequence, "complete_ns": sequence, "op": sequence, "type": "ok"}
            offset = 2 * (sequence // 2) + producer - 1
            sent = {**at, **times, "f": "send", "client": producer, "acks": 1, "offset": offset}
            rows.append(sent)
            if sequence % 7:
                rows.append({**at, **times, "f": "poll", "client": 9, "offset": offset})
    return table(HISTORY, rows)


def test_the_state_does_not_grow_with_time() -> None:
    """Fifty segments: from the moment when its bounds are reached, the state keeps its size."""
    carried = HistoryState(limits=Limits(offsets=500, intervals=50))
    sizes = []
    for number in range(50):
        list(carried.take(segment(number)))
        sizes.append(carried.size())
    assert max(sizes[10:]) <= sizes[9] * 1.05, sizes
