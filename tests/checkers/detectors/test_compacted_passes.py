"""Passes over compacted topics at random: the detector counts what plain Python counts."""

import random
from collections import Counter

import pytest

from checkers.detectors.compacted_passes import keyed_passes
from checkers.engines.engine import DuckDbEngine
from checkers.frames.frames import Frames
from tests.support.checkers.reference_passes import find_in_passes
from tests.support.histories.golden.compacted import compact
from tests.support.histories.story import ALL, READER, Row, S, Story, healthy

PARTITIONS = 60
OFFSETS = 8
KEYS = 2


def random_story(rng: random.Random) -> Story:
    """Passes of which nothing is as it should be, in many partitions."""
    story = healthy()
    compact(story, delete_retention_ms=rng.choice((5_000, 40_000)))
    story.set_topic(ALL, partitions=PARTITIONS)
    story.plan["more_workloads"][0]["passes_every_s"] = 1.0
    of_topic = {row["op"] for row in story.history if row.get("topic") == ALL}
    story.history = [row for row in story.history if row["op"] not in of_topic]
    for partition in range(PARTITIONS):
        _writes(story, rng, partition)
        _passes(story, rng, partition)
    return story


def _writes(story: Story, rng: random.Random, partition: int) -> None:
    """A write of each offset, or an earlier one; some fail, and of some the place is unknown."""
    for offset in range(OFFSETS):
        type_ = rng.choice(("ok", "ok", "ok", "info", "fail"))
        begun_s = rng.uniform(0, 30)
        over_s = None if rng.random() < 0.1 and type_ == "info" else begun_s + rng.uniform(0, 9)
        columns: Row = {
            "partition": partition,
            "f": rng.choice(("keyed-write", "keyed-write", "keyed-delete")),
            "type": type_,
            "key": rng.randrange(KEYS),
            "complete_ns": None if over_s is None else round(over_s * S),
        }
        placed = offset if type_ == "ok" and rng.random() < 0.9 else None
        sent = story.send(ALL, 1_000 * partition + offset + 1, placed, begun_s)
        sent.update(columns)


def _passes(story: Story, rng: random.Random, partition: int) -> None:
    """Passes that were given some of the records, and the final read."""
    place = {"topic": ALL, "partition": partition}
    log = {r["offset"]: r for r in story.history if _is_in(r, partition)}
    at_s = rng.uniform(1, 5)
    while at_s < 40:
        given = [offset for offset in log if rng.random() < 0.5]
        op, reached = story.next_op(), rng.choice((OFFSETS, OFFSETS, OFFSETS // 2))
        type_ = "info" if rng.random() < 0.1 else "ok"
        for offset in given:
            row = story.row("keyed-poll", 41, at_s + offset / 1000, op=op, offset=offset, **place)
            row.update(_record(log[offset]))
        length_s = rng.uniform(0.1, 3)
        end = story.row("keyed-pass", 41, at_s, op=op, type=type_, offset=reached, **place)
        end["complete_ns"] = round((at_s + length_s) * S)
        at_s += length_s + rng.uniform(0, 8)
    for offset in log:
        if rng.random() < 0.8:
            row = story.row("keyed-read", READER, 60, offset=offset, **place)
            row.update(_record(log[offset]))
    if rng.random() < 0.9:
        story.row("final-read-end", READER, 60, offset=OFFSETS, **place)


def _is_in(row: Row, partition: int) -> bool:
    here = (row.get("topic"), row.get("partition")) == (ALL, partition)
    return here and row["f"].startswith("keyed") and row["offset"] is not None


def _record(write: Row) -> Row:
    """What a reader is given of a write."""
    return {"key": write["key"], "value": write["value"] if write["f"] == "keyed-write" else None}


@pytest.mark.parametrize("seed", range(6))
def test_random_passes_are_judged_as_plain_python_judges_them(seed: int) -> None:
    """Every kind and aspect that a broken cleaner causes comes up."""
    story = random_story(random.Random(seed))
    engine = DuckDbEngine()
    found: Counter[tuple[str, str | None, str, int]] = Counter()
    try:
        for frame in keyed_passes(Frames(engine, story.sources(), story.plan)):
            for row in engine.rows(frame):
                found[row["kind"], row["aspect"], row["topic"], row["partition"]] += 1
    finally:
        engine.close()
    assert found == Counter(find_in_passes(story))
    kinds = {(kind, aspect) for kind, aspect, *_ in found}
    missing = {("missing-key", each) for each in (None, "stale")}
    assert kinds >= missing | {("reverted-key", "stale")}
