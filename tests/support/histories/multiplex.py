"""Many stories as one run, each with topics and clients of its own.

A story whose faults are not those of the healthy run, or that tells of nodes and not of partitions
only, gets nodes of its own as well.

One check of a run of a hundred topics costs little more than one of three; and anomalies of one
topic must not change what is found in another.
"""

import copy
import json
from collections.abc import Mapping
from typing import Any

from checkers.history.history import METADATA_TOPIC
from checkers.history.settings import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tests.support.histories.story import Row, Story, healthy

CLIENTS_EACH = 1000
OPS_EACH = 1_000_000
NODES_EACH = 100
"""The nodes, and the faults, of a story that has its own."""
USUAL = healthy()


def prefix(number: int) -> str:
    """What the topics of story `number` begin with."""
    return f"{number:03d}."


def mixable(story: Story) -> bool:
    """Whether a story can be put into one run with others: its faults are over when those of the
    healthy run are, after which all others are to recover, and it says nothing of the metadata log,
    of internal topics and of a tested program, of which a run has one."""
    over_ns = max(row["healed_ns"] for row in USUAL.faults)
    if not story.history or any(row["topic"] == METADATA_TOPIC for row in story.replica_ends):
        return False
    if any(row.get("topic") in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC) for row in story.cluster):
        return False
    if any(row["f"].startswith("app-") for row in story.history):
        return False
    return all(row["healed_ns"] is not None and row["healed_ns"] <= over_ns for row in story.faults)


def alike(story: Story) -> bool:
    """Whether a story is judged in a run with others as it is alone: it is mixable, and has the
    healthy run's plan (topics aside)."""
    return mixable(story) and _rest(story.plan) == _rest(USUAL.plan)


def _rest(plan: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in plan.items() if key != "topics"}


def multiplex(stories: list[Story]) -> Story:
    """The stories as one, with the healthy run's plan; all must be `mixable`."""
    made = Story(plan=copy.deepcopy(USUAL.plan), faults=[*USUAL.faults])
    made.plan["topics"] = []
    for number, story in enumerate(stories):
        assert mixable(story)
        made.plan["topics"] += [
            topic | {"name": prefix(number) + topic["name"]} for topic in story.plan["topics"]
        ]
        shares = story.faults == USUAL.faults and all(row.get("topic") for row in story.cluster)
        nodes = 0 if shares else (number + 1) * NODES_EACH
        if nodes:
            made.faults += [_struck(row, number, nodes) for row in story.faults]
        made.history += [_moved(row, number, nodes) for row in story.history]
        made.cluster += [_moved(row, number, nodes) for row in story.cluster]
        made.replicas += [_moved(row, number, nodes) for row in story.replicas]
        made.replica_ends += [_moved(row, number, nodes) for row in story.replica_ends]
    return made


def _struck(row: Row, number: int, nodes: int) -> Row:
    """The fault, aimed at the story's own nodes and topics."""
    targets = json.loads(row["targets"])
    struck = targets if isinstance(targets, list) else targets.get("nodes", [])
    details = {} if isinstance(targets, list) else dict(targets.get("details", {}))
    if "topic" in details:
        details["topic"] = prefix(number) + details["topic"]
    aimed = {"nodes": [node + nodes for node in struck], "details": details}
    for name in ("cuts", "links"):
        if name in targets:
            aimed[name] = [[_machine(end, nodes) for end in pair] for pair in targets[name]]
    found = row | {"fault_id": row["fault_id"] + nodes, "targets": json.dumps(aimed)}
    if row.get("damaged"):
        found["damaged"] = json.dumps(
            {
                int(node) + nodes: [path.replace("/", f"/{prefix(number)}", 1) for path in paths]
                for node, paths in json.loads(row["damaged"]).items()
            }
        )
    return found


def _machine(number: int, nodes: int) -> int:
    """The clients' is number 0 for all."""
    return number + nodes if number else number


def _moved(row: Row, number: int, nodes: int) -> Row:
    moved = dict(row)
    for name in ("node", "leader"):
        if moved.get(name) is not None:
            moved[name] += nodes if moved[name] >= 0 else 0
    for name in ("isr", "replicas"):
        if moved.get(name) is not None:
            moved[name] = [node + nodes for node in moved[name]]
    if moved.get("topic") is not None:
        moved["topic"] = prefix(number) + moved["topic"]
    if "client" in moved:
        moved["client"] += number * CLIENTS_EACH
    for name in ("op", "txn"):
        if moved.get(name) is not None:
            moved[name] += number * OPS_EACH
    for name in ("value", "copies"):
        if moved.get(name) is not None:
            moved[name] += number * CLIENTS_EACH << 32
    for name in ("group", "transactional_id"):
        if moved.get(name) is not None:
            moved[name] = prefix(number) + moved[name]
    return moved
