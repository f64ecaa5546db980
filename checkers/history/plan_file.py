"""The few fields of a plan.json that a verdict depends on, and their validation.

The harness validates its own plans, but a run directory may come from elsewhere.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from checkers.expectations import BadExpectation, of_plan
from checkers.history.settings import PROCESSING, READS

IMPORTED = "imported"
"""The `system` of an import's plan: another tool ran it, and it cannot be run again."""

EXTERNAL = "external"
"""The `system` of a plan for a cluster that the harness did not start: its files were not read."""

_SECTIONS = ("workload", "bounds", "broker", "nemesis")
_NUMBERS = {
    "workload": ("message_timeout_ms", "max_in_flight", "consumers"),
    "bounds": ("unavailable_ms", "stale_ms"),
}
_TOPIC_NUMBERS = ("partitions", "replication_factor", "min_insync_replicas")
GREATEST_NUMBER = (1 << 63) - 1
GREATEST = {"partitions": 100_000}
"""The limits of numbers that loops count up to."""
_ACKS = (None, 0, 1, -1, "0", "1", "-1", "all")


def digest(plan: Mapping[str, Any]) -> str:
    """Return a digest of a plan without its expectations, which may change each time."""
    said = {name: value for name, value in plan.items() if name not in ("expect", "bounds")}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def planned_partitions(plan: Mapping[str, Any]) -> dict[tuple[str, int], int | None]:
    """Return {(topic, partition): replication factor} of a plan; None for an unnamed factor."""
    return {
        (topic["name"], partition): topic.get("replication_factor")
        for topic in plan.get("topics") or ()
        for partition in range(int(topic.get("partitions") or 1))
    }


def topics_of_producers(plan: Mapping[str, Any]) -> list[str]:
    """Return the topics that have the producers and consumers of the plan's `workload`: those that
    it names, else all that no further workload names to write to."""
    names = [topic["name"] for topic in plan.get("topics") or ()]
    if chosen := (plan.get("workload") or {}).get("topics"):
        return [name for name in names if name in chosen]
    taken = set()
    for each in plan.get("more_workloads") or ():
        reads = each.get("kind") in READS
        taken |= {each.get("output"), *(() if reads else each.get("topics") or ())}
    return [name for name in names if name not in taken]


def wrong_with(plan: Mapping[str, Any]) -> str | None:
    """Return the first error that prevents judging by a plan; None without any."""
    return next(_wrongs(plan), None)


def _wrong_workloads(plan: Mapping[str, Any]) -> Iterator[str]:
    further = plan.get("more_workloads") or []
    if not isinstance(further, list) or not all(isinstance(each, dict) for each in further):
        yield "more_workloads: expected a list of objects"
        return
    for each in (plan.get("workload") or {}, *further):
        processing = each.get("processing")
        for key in ("topics", "inputs"):
            names = each.get(key) or []
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                yield f"workload.{key}: expected a list of names, found {names!r}"
        if processing not in (None, *PROCESSING):
            known = ", ".join(PROCESSING)
            yield f"workload.processing: expected one of {known}, found {processing!r}"
        yield from _no_numbers(each, ("transaction_timeout_ms",), "workload.")


def _wrongs(plan: Mapping[str, Any]) -> Iterator[str]:
    for section in _SECTIONS:
        found = plan.get(section)
        if found is not None and not isinstance(found, dict):
            yield f"{section}: expected an object"
        elif found is not None:
            yield from _no_numbers(found, _NUMBERS.get(section, ()), f"{section}.")
    yield from _wrong_workloads(plan)
    try:
        of_plan(plan)
    except BadExpectation as error:
        yield f"expect: {error}"
    topics = plan.get("topics")
    if topics is None:
        return
    if not isinstance(topics, list) or not all(isinstance(topic, dict) for topic in topics):
        yield "topics: expected a list of objects"
        return
    for topic in topics:
        if not isinstance(topic.get("name"), str):
            yield "topics: every topic needs a name"
            return
        where = f"topic {topic['name']}: "
        yield from _no_numbers(topic, _TOPIC_NUMBERS, where)
        if topic.get("acks") not in _ACKS:
            yield f"{where}acks: expected 0, 1 or all, found {topic['acks']!r}"
        if not isinstance(topic.get("configs") or {}, dict):
            yield f"{where}configs: expected an object"


def _no_numbers(found: Mapping[str, Any], names: tuple[str, ...], where: str) -> Iterator[str]:
    for name in names:
        value = found.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            yield f"{where}{name}: expected a number, found {value!r}"
        elif not abs(value) <= GREATEST.get(name, GREATEST_NUMBER):  # NaN is no number either
            yield (
                f"{where}{name}: expected a number up to {GREATEST.get(name, GREATEST_NUMBER):,}, "
                f"found {value!r}"
            )
