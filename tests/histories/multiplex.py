"""Many stories as one run, each with topics and clients of its own.

One check of a run of a hundred topics costs little more than one of three; and anomalies of one
topic must not change what is found in another.
"""

import copy
from collections.abc import Mapping
from typing import Any

from tests.histories.story import Row, Story, healthy

CLIENTS_EACH = 1000
OPS_EACH = 1_000_000


def prefix(number: int) -> str:
    """What the topics of story `number` begin with."""
    return f"{number:03d}."


def alike(story: Story) -> bool:
    """Whether a story has the healthy run's faults and plan (topics aside), so that it can share a
    run with others."""
    usual = healthy()
    return story.faults == usual.faults and _rest(story.plan) == _rest(usual.plan)


def _rest(plan: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in plan.items() if key != "topics"}


def multiplex(stories: list[Story]) -> Story:
    """The stories as one; all must be `alike`."""
    usual = healthy()
    made = Story(plan=copy.deepcopy(usual.plan), faults=usual.faults)
    made.plan["topics"] = []
    for number, story in enumerate(stories):
        assert alike(story)
        made.plan["topics"] += [
            topic | {"name": prefix(number) + topic["name"]} for topic in story.plan["topics"]
        ]
        made.history += [_moved(row, number) for row in story.history]
        made.cluster += [_moved(row, number) for row in story.cluster]
        made.replicas += [_moved(row, number) for row in story.replicas]
        made.replica_ends += [_moved(row, number) for row in story.replica_ends]
    return made


def _moved(row: Row, number: int) -> Row:
    moved = dict(row)
    if moved.get("topic") is not None:
        moved["topic"] = prefix(number) + moved["topic"]
    if "client" in moved:
        moved["client"] += number * CLIENTS_EACH
    if "op" in moved:
        moved["op"] += number * OPS_EACH
    if moved.get("value") is not None:
        moved["value"] += number * CLIENTS_EACH << 32
    return moved
