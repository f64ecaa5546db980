"""Sends find their records where they lie, and elsewhere, and whoever else was sent with them."""

from collections.abc import Iterator
from typing import Any

import pytest

from checkers.engines.engine import DuckDbEngine
from checkers.frames.frames import Frames
from checkers.frames.send_outcomes import PLACES
from tests.support.histories.story import ALL, Story, healthy, v

TOPIC = ALL


@pytest.fixture
def engine() -> Iterator[DuckDbEngine]:
    """The embedded one."""
    made = DuckDbEngine()
    yield made
    made.close()


def fates(engine: DuckDbEngine, story: Story) -> dict[str, list[Any]]:
    """For each outcome of a send of the story's first value, where that was read; and how many
    records nobody sent."""
    frames = Frames(engine, story.sources(), story.plan)
    found: dict[str, list[Any]] = {"unsent": [] if frames.unsent is None else ["some"]}
    for row in engine.rows(frames.send_outcomes):
        if row["value"] == v(TOPIC, 1):
            found.setdefault(row["type"], []).append([row[name] for name in PLACES])
    return found


@pytest.mark.parametrize("offset", [None, 0, 17], ids=["unknown", "in its place", "elsewhere"])
def test_a_value_sent_twice_lies_where_it_lies_for_both(
    engine: DuckDbEngine, offset: int | None
) -> None:
    """Though its record has met the first of them already."""
    story = healthy()
    story.send(TOPIC, 1, offset, 90, type="info")
    assert fates(engine, story) == {"ok": [[0, 0]], "info": [[0, 0]], "unsent": []}


def test_a_value_that_met_its_record_twice_lies_in_one_place(engine: DuckDbEngine) -> None:
    """Also for whoever else was sent with it."""
    story = healthy()
    story.send(TOPIC, 1, 0, 90)
    story.send(TOPIC, 1, None, 91, type="info")
    assert fates(engine, story) == {"ok": [[0, 0], [0, 0]], "info": [[0, 0]], "unsent": []}


def test_a_value_read_twice_lies_where_it_was_first(engine: DuckDbEngine) -> None:
    """Whatever was acknowledged."""
    story = healthy()
    story.read_in_the_end(TOPIC, 30, v(TOPIC, 1))
    assert fates(engine, story) == {"ok": [[0, 0]], "unsent": []}


def test_record_at_another_offset_is_matched_by_value(engine: DuckDbEngine) -> None:
    """It is looked for by its value."""
    story = healthy()
    for row in story.rows("send", TOPIC):
        if row["value"] == v(TOPIC, 1):
            row["offset"] = 17
    assert fates(engine, story) == {"ok": [[0, 0]], "unsent": []}
