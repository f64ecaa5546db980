"""Schedules: which fault strikes when, decided before anything runs.

A schedule is plain data with symbolic targets. Generated from a seed it is a pure function of its
arguments, and its JSON is byte-stable: the same plan and seed give the same file. Generated events
never overlap and never target a majority unless the mix asks for it, so that a random schedule
tests recovery and not only a cluster that is down; a list written by hand may do as it likes.
Everything is healed by `end_ms` at the latest.
"""

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nemesis import conditions, targets
from nemesis.base import BadSchedule, BadTargets
from nemesis.fault import Params
from nemesis.faults import find

MAX_EVENTS = 10_000
UNTIL_TIMEOUT_MS = 10_000


class Event(BaseModel):
    """One fault to come. Times are ms since the chaos phase began."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: int = -1
    """Its place in the schedule, given when the schedule is made."""
    at_ms: int = Field(ge=0)
    fault: str
    targets: str = ""
    """A target expression; none is the fault's own default."""
    duration_ms: int = Field(gt=0)
    params: dict[str, str] = {}
    until: str | None = None
    """A condition awaited from `at_ms` on, before the fault strikes."""
    until_timeout_ms: int = Field(default=UNTIL_TIMEOUT_MS, ge=0)
    """How long it is awaited; the event is left out, and says so, when it never held."""


class Schedule(BaseModel):
    """Events in the order of their times, and the moment of the final heal."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int
    end_ms: int = Field(gt=0)
    events: tuple[Event, ...]

    def to_json(self) -> bytes:
        """The schedule's file: equal schedules give equal bytes."""
        return (json.dumps(self.model_dump(), indent=2, sort_keys=True) + "\n").encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """What a generated schedule is made of."""

    faults: Sequence[str]
    targets: Sequence[str]
    """For the faults that can be aimed at anything; the others take their own."""
    interval_ms: tuple[int, int]
    """Least and greatest quiet time before each fault."""
    duration_ms: tuple[int, int]
    """Least and greatest time that a fault is in force."""


def generate(mix: Mix, *, seed: int, end_ms: int) -> Schedule:
    """A random schedule that fills `end_ms`, every fault of the mix once before any comes again.

    Raises UnknownFault or BadTargets.
    """
    rng = random.Random(f"schedule/{seed}")
    events: list[Event] = []
    bag: list[str] = []
    now_ms = 0
    for number in range(MAX_EVENTS if mix.faults else 0):
        at_ms = now_ms + rng.randint(*mix.interval_ms)
        # The last one is cut short rather than left out, as long as it is no blink.
        duration_ms = min(rng.randint(*mix.duration_ms), end_ms - at_ms)
        if duration_ms < mix.duration_ms[0]:
            break
        bag = bag or rng.sample(mix.faults, len(mix.faults))
        fault = find(bag.pop())
        aim = rng.choice(mix.targets) if fault.aimable and mix.targets else fault.default_targets
        events.append(
            Event(id=number, at_ms=at_ms, fault=fault.name, targets=aim, duration_ms=duration_ms)
        )
        now_ms = at_ms + duration_ms
    return checked(Schedule(seed=seed, end_ms=end_ms, events=tuple(events)))


def scripted(events: Iterable[Event], *, seed: int, end_ms: int) -> Schedule:
    """A schedule of events written by hand, numbered in the order of their times.

    Raises BadSchedule, UnknownFault, BadTargets.
    """
    ordered = sorted(events, key=lambda event: event.at_ms)
    numbered = tuple(
        event.model_copy(
            update={"id": number, "targets": event.targets or find(event.fault).default_targets}
        )
        for number, event in enumerate(ordered)
    )
    return checked(Schedule(seed=seed, end_ms=end_ms, events=numbered))


def from_json(data: bytes) -> Schedule:
    """Read a schedule's file. Raises BadSchedule, UnknownFault, BadTargets."""
    try:
        return checked(Schedule.model_validate_json(data))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise BadSchedule(f"the schedule cannot be read: {where}: {first['msg']}") from error


def checked(schedule: Schedule) -> Schedule:
    """The schedule itself, when it can be run. Raises BadSchedule, UnknownFault, BadTargets."""
    if len(schedule.events) > MAX_EVENTS:
        raise BadSchedule(f"{len(schedule.events)} events are more than {MAX_EVENTS}")
    for event in schedule.events:
        here = f"event {event.id} ({event.fault})"
        try:
            Params.of(find(event.fault).options, event.params)
        except BadSchedule as error:
            raise BadSchedule(f"{here}: {error}") from error
        try:
            targets.parse(event.targets)
        except BadTargets as error:
            raise BadTargets(f"{here}: {error}") from error
        if event.until is not None:
            conditions.parse(event.until)
        if event.at_ms + event.duration_ms > schedule.end_ms:
            raise BadSchedule(
                f"{here} ends at {event.at_ms + event.duration_ms} ms, "
                f"after the chaos phase, which lasts {schedule.end_ms} ms"
            )
    return schedule
