"""What plan.json and run.json must say."""

from collections.abc import Iterator, Mapping
from typing import Final

from checkers.completeness.collected import Collected
from checkers.completeness.kinds import kind_of
from checkers.history.plan_file import digest

LAST_PHASES: Final[Mapping[str, str]] = {
    "final reads": "run.json does not say that the final reads were finished",
    "collect": "run.json does not say that the nodes' files were collected",
}


def system(e: Collected) -> Iterator[str]:
    """The plan names a system."""
    if kind_of(e.plan.get("system")) is None:
        yield f"plan.json: system is {e.plan.get('system')!r}, which is no name"


def topics(e: Collected) -> Iterator[str]:
    """The plan names topics, each once, with acks and partitions."""
    if not e.topics:
        yield "plan.json names no topics"
    names = [topic["name"] for topic in e.plan.get("topics") or ()]
    yield from (f"plan.json: topic {n} appears twice" for n in e.topics if names.count(n) > 1)
    for name, topic in e.topics.items():
        partitions = topic.get("partitions")
        if topic.get("acks") is None:
            yield f"plan.json: topic {name} has no acks"
        if not isinstance(partitions, int) or partitions < 1:
            yield f"plan.json: topic {name} has {partitions} partitions"


def run_file(e: Collected) -> Iterator[str]:
    """run.json says how far the run came."""
    if e.run.finished is None:
        yield "run.json is missing, or does not say which phases were finished"


def phases(e: Collected) -> Iterator[str]:
    """The last phases were finished."""
    if e.run.finished is not None:
        yield from (why for phase, why in LAST_PHASES.items() if phase not in e.run.finished)


def settled(e: Collected) -> Iterator[str]:
    """run.json does not deny that the cluster settled."""
    if e.run.settled is False:
        yield "run.json says that the cluster had not settled"


def read(e: Collected) -> Iterator[str]:
    """run.json does not deny that the final reads were complete."""
    if e.run.final_reads_complete is False:
        yield "run.json says that the final reads were not complete"


def same_plan(e: Collected) -> Iterator[str]:
    """plan.json is the plan that was run, and was not changed later."""
    if e.run.plan_digest not in (None, digest(e.plan)):
        yield "plan.json is not the plan that was run: it was changed later"
