"""Changes a draft: its faults from a moment on, or a few of its times, targets, faults and
settings. Pure.

What is not changed at random comes from another draft that reached something, so that parts which
work are joined.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from harness.plans.plan import Plan
from harness.simulation.guided.draft import Draft
from harness.simulation.swarm import PARTITION_SELECTORS, SELECTORS
from nemesis.faults.catalogue import FAULTS
from nemesis.schedule import Event

Change = Callable[[Draft, Draft, random.Random], Draft]
"""Takes the draft, another draft to take parts from, and what draws."""

MOST_CHANGES: Final = 4
MOST_ADDED: Final = 3
MOST_EVENTS: Final = 40
NEAR_MS: Final = 300
"""Events so close to each other are likely to meet within one round trip or one time-out."""
STRETCHES: Final = (0.2, 0.5, 2.0, 4.0)
LEAST_MS: Final = 10
COORDINATORS: Final = ("group-coordinator", "transaction-coordinator")


def continued(draft: Draft, other: Draft, moment_ms: int, rng: random.Random) -> Draft:
    """Return the draft with other faults from a moment on.

    With the draft's seed its run is the same up to then, so what that reached is reached again.
    Without any event in both, the draft stays as it is.
    """
    known = other.events or draft.events
    if not known:
        return draft
    within_ms = rng.choice((NEAR_MS, 10 * NEAR_MS))
    began = [event for event in draft.events if event.at_ms <= moment_ms]
    later = [event for event in draft.events if event.at_ms > moment_ms and rng.random() < 0.5]
    added = [
        rng.choice(known).model_copy(
            update={"at_ms": moment_ms + rng.randint(1, within_ms), "name": None}
        )
        for _ in range(rng.randint(1, MOST_ADDED))
    ]
    return _with_events(draft, [*began, *later, *added])


def mutated(draft: Draft, other: Draft, rng: random.Random) -> Draft:
    """Return the draft with one to four changes. It may be one that cannot be run."""
    for _ in range(rng.randint(1, MOST_CHANGES)):
        draft = rng.choice(CHANGES)(draft, other, rng)
    return draft


def _moved(draft: Draft, other: Draft, rng: random.Random) -> Draft:
    """Move an event close to another one, or anywhere."""
    events = draft.events
    if not events:
        return draft
    end_ms = round(draft.plan.duration_s * 1000)
    at_ms = rng.choice(events).at_ms + rng.randint(-NEAR_MS, NEAR_MS)
    if rng.random() < 0.3:
        at_ms = rng.randrange(end_ms)
    return _with_one(draft, rng, at_ms=min(max(at_ms, 0), end_ms - LEAST_MS))


def _stretched(draft: Draft, other: Draft, rng: random.Random) -> Draft:
    """Make an event longer or shorter."""
    events = draft.events
    if not events:
        return draft
    at = rng.randrange(len(events))
    lasts_ms = max(LEAST_MS, round(events[at].duration_ms * rng.choice(STRETCHES)))
    return _with_event(draft, at, duration_ms=lasts_ms)


def _aimed(draft: Draft, other: Draft, rng: random.Random) -> Draft:
    """Aim an event at others: at what another event is aimed at, or at any."""
    if not draft.events:
        return draft
    selector = rng.choice(SELECTORS)
    topic = rng.choice(draft.plan.topics)
    if selector in PARTITION_SELECTORS and rng.random() < 0.5:
        selector = f"{selector}:{topic.name}/{rng.randrange(topic.partitions)}"
    elsewhere = rng.choice(draft.events).targets
    return _with_one(draft, rng, targets=rng.choice((selector, elsewhere)))


def _without_one(draft: Draft, other: Draft, rng: random.Random) -> Draft:
    """Leave an event out."""
    events = list(draft.events)
    if len(events) > 1:
        del events[rng.randrange(len(events))]
    return _with_events(draft, events)


def _repeated(draft: Draft, other: Draft, rng: random.Random) -> Draft:
    """Have an event once more, at another time."""
    events = draft.events
    if not events:
        return draft
    again = rng.choice(events).model_copy(
        update={"at_ms": rng.randrange(round(draft.plan.duration_s * 1000)), "name": None}
    )
    return _with_events(draft, [*events, again])


def _spliced(draft: Draft, other: Draft, rng: random.Random) -> Draft:
    """Add a few events of the other draft, which follow one another there."""
    theirs = other.events
    if not theirs:
        return draft
    first = rng.randrange(len(theirs))
    few = theirs[first : first + rng.randint(1, 4)]
    named = [event.model_copy(update={"name": None}) for event in few]
    return _with_events(draft, [*draft.events, *named])


def _their_delays(draft: Draft, other: Draft, rng: random.Random) -> Draft:
    """Take the other draft's network and disks."""
    return draft.with_settings(simulated=other.plan.simulated)


def _their_load(draft: Draft, other: Draft, rng: random.Random) -> Draft:
    """Take the other draft's clients."""
    return draft.with_settings(workload=other.plan.workload)


def _their_broker(draft: Draft, other: Draft, rng: random.Random) -> Draft:
    """Take one property of the other draft's brokers, or leave out one."""
    names = sorted({*draft.plan.broker, *other.plan.broker})
    if not names:
        return draft
    name = rng.choice(names)
    rest = {key: value for key, value in draft.plan.broker.items() if key != name}
    theirs = {name: other.plan.broker[name]} if name in other.plan.broker else {}
    return draft.with_settings(broker={**rest, **theirs})


def _their_cluster(draft: Draft, other: Draft, rng: random.Random) -> Draft:
    """Take the other draft's nodes, racks and topics."""
    theirs = other.plan
    moved = draft.with_settings(
        nodes=theirs.nodes, racks=theirs.racks, topics=theirs.topics, expect=theirs.expect
    )
    return _with_events(moved, moved.events)


def _same(draft: Draft, other: Draft, rng: random.Random) -> Draft:
    """Change nothing: the new seed alone draws other delays, and other nodes to hit."""
    return draft


CHANGES: Final[Sequence[Change]] = (
    *(_moved, _moved, _stretched, _aimed, _without_one, _repeated, _spliced, _spliced),
    *(_their_delays, _their_load, _their_broker, _their_cluster, _same),
)


def _with_events(draft: Draft, events: Iterable[Event]) -> Draft:
    """Return the draft with those of the events that its chaos and its cluster have room for.

    They are shortened, and aimed at what is there, if need be.
    """
    plan = draft.plan
    end_ms = round(plan.duration_s * 1000)
    possible = (
        event.model_copy(
            update={
                "targets": _present(event.targets, plan),
                "duration_ms": min(event.duration_ms, end_ms - event.at_ms),
            }
        )
        for event in events
        if event.at_ms + LEAST_MS <= end_ms and FAULTS[event.fault].min_nodes <= plan.nodes
    )
    return Draft(plan, tuple(sorted(possible, key=lambda event: event.at_ms)[:MOST_EVENTS]))


def _present(targets: str, plan: Plan) -> str:
    """Return the selector, or a wider one if what it names is not in the plan's cluster."""
    selector, _, place = targets.partition(":")
    if not place:
        return targets
    if selector == "node":
        return targets if int(place) <= plan.nodes else "one"
    if selector in COORDINATORS:
        return targets  # each group and each transactional id has a coordinator
    name, _, number = place.rpartition("/")
    partitions = {topic.name: topic.partitions for topic in plan.topics}
    return targets if int(number) < partitions.get(name, 0) else selector


def _with_event(draft: Draft, number: int, **changes: Any) -> Draft:
    events = list(draft.events)
    events[number] = events[number].model_copy(update=changes)
    return _with_events(draft, events)


def _with_one(draft: Draft, rng: random.Random, **changes: Any) -> Draft:
    return _with_event(draft, rng.randrange(len(draft.events)), **changes)
