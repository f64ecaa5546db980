"""Schedules: which fault happens when, decided before the run.

A schedule is plain data. Its events name selectors, not nodes. People can write it in TOML or JSON,
see `read`. `to_json` is byte-stable: equal schedules give equal files. Every fault is healed by
`end_ms` at the latest. `nemesis.generator` makes random schedules.
"""

import json
import tomllib
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nemesis import conditions, selectors
from nemesis.base import BadSchedule, BadSelector
from nemesis.faults.catalogue import find
from nemesis.faults.fault import Params

MAX_EVENTS = 10_000
LONGEST_MS = 366 * 86_400_000
"""The longest possible schedule."""
UNTIL_TIMEOUT_MS = 10_000


class Event(BaseModel):
    """One planned fault. Times are ms since the chaos phase began."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", coerce_numbers_to_str=True, use_attribute_docstrings=True
    )

    id: int = -1
    """Its position in the schedule, set when the schedule is made."""
    name: str | None = Field(default=None, pattern=r"^[A-Za-z][A-Za-z0-9._-]{0,63}$")
    """The name by which conditions of other events refer to it."""
    at_ms: int = Field(ge=0, le=LONGEST_MS)
    """When, ms since the chaos phase began."""
    fault: str
    """The fault's name."""
    targets: str = ""
    """The selector of the nodes to hit; empty for the fault's default selector."""
    duration_ms: int = Field(gt=0, le=LONGEST_MS)
    """How long the fault stays in force, ms."""
    params: dict[str, str] = {}
    """Parameters of the fault."""
    until: str | None = None
    """A condition that the injection waits for, from `at_ms` on."""
    until_timeout_ms: int = Field(default=UNTIL_TIMEOUT_MS, ge=0, le=LONGEST_MS)
    """How long the injection waits for the condition; then the event is skipped and recorded."""
    nodes: tuple[int, ...] | None = None
    """Fixed nodes in place of `targets`, to repeat an earlier run."""

    @property
    def names(self) -> tuple[str, ...]:
        """What conditions of other events may refer to: its name, its fault, its number."""
        named = (str(self.id), self.fault)
        return named if self.name is None else (self.name, *named)

    @property
    def place(self) -> str:
        """How errors name the event."""
        return f"event {self.id} ({self.name or self.fault})"


class Schedule(BaseModel):
    """Events in the order of their times, and the moment of the final heal."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int
    end_ms: int = Field(gt=0, le=LONGEST_MS)
    events: tuple[Event, ...]

    def needs(self) -> frozenset[str]:
        """The abilities that its faults need from the target. Raises UnknownFault."""
        return frozenset(need for event in self.events for need in find(event.fault).needs)

    def to_json(self) -> bytes:
        """The schedule's file: equal schedules give equal bytes."""
        found = self.model_dump(exclude_none=True)
        return (json.dumps(found, indent=2, sort_keys=True) + "\n").encode()


class ScheduleFile(BaseModel):
    """A schedule as people write it; the plan supplies the missing fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    events: tuple[Event, ...]
    end_ms: int | None = Field(default=None, gt=0, le=LONGEST_MS)
    seed: int | None = Field(default=None, ge=0, le=(1 << 63) - 1)


def read(data: bytes) -> ScheduleFile:
    """Read a schedule file: JSON if it begins with a brace, otherwise TOML, with one table
    `[[events]]` per event. Raises BadSchedule.
    """
    try:
        text = data.decode()
        raw = json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
        return ScheduleFile.model_validate(raw)
    except ValidationError as error:
        raise BadSchedule(f"the schedule cannot be used: {_first(error)}") from error
    except RecursionError as error:
        raise BadSchedule("the schedule's values are nested too deeply to be read") from error
    except ValueError as error:
        raise BadSchedule(f"the schedule is neither JSON nor TOML: {error}") from error


def scripted(events: Iterable[Event], *, seed: int, end_ms: int) -> Schedule:
    """Make a schedule of handwritten events, numbered in the order of their times.

    Raises BadSchedule, UnknownFault, BadSelector.
    """
    ordered = sorted(events, key=lambda event: event.at_ms)
    numbered = tuple(
        event.model_copy(
            update={"id": number, "targets": event.targets or find(event.fault).default_selector}
        )
        for number, event in enumerate(ordered)
    )
    return checked(Schedule(seed=seed, end_ms=end_ms, events=numbered))


def from_json(data: bytes) -> Schedule:
    """Read the output of `to_json`. Raises BadSchedule, UnknownFault, BadSelector."""
    try:
        return checked(Schedule.model_validate_json(data))
    except ValidationError as error:
        raise BadSchedule(f"the schedule cannot be read: {_first(error)}") from error


def checked(schedule: Schedule) -> Schedule:
    """Return the schedule if it can be run. Raises BadSchedule, UnknownFault, BadSelector."""
    if len(schedule.events) > MAX_EVENTS:
        raise BadSchedule(f"{len(schedule.events)} events are more than {MAX_EVENTS}")
    names = [event.name for event in schedule.events if event.name is not None]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BadSchedule(f"two events are called {twice[0]}; give each its own name")
    for event in schedule.events:
        _check(event, schedule)
    if stuck := _wait_cycle(schedule):
        chain = ", which waits for ".join(event.place for event in stuck)
        raise BadSchedule(f"{chain}: they wait for each other, and none would ever be injected")
    return schedule


def _wait_cycle(schedule: Schedule) -> list[Event]:
    """A cycle of events that wait for each other, with its first event at both ends; or empty.

    An event can be injected if, for each name that it waits for, some event of that name can.
    """
    waits = {
        event.id: [
            [other for other in schedule.events if other is not event and name in other.names]
            for name in conditions.parse(event.until).events
        ]
        for event in schedule.events
        if event.until is not None
    }
    stuck = {event.id: event for event in schedule.events if waits.get(event.id)}
    while free := [
        number
        for number in stuck
        if all(any(other.id not in stuck for other in others) for others in waits[number])
    ]:
        for number in free:
            del stuck[number]
    path: list[Event] = []
    event = next(iter(stuck.values()), None)
    while event is not None and event not in path:
        path.append(event)
        blocked = next(o for o in waits[event.id] if all(each.id in stuck for each in o))
        event = blocked[0]
    return [] if event is None else [*path[path.index(event) :], event]


def _check(event: Event, schedule: Schedule) -> None:
    fault = find(event.fault)
    try:
        Params.of(fault.options, event.params)
        if event.until is not None:
            _check_references(event, conditions.parse(event.until).events, schedule)
        selectors.parse(event.targets)
    except BadSelector as error:
        raise BadSelector(f"{event.place}: {error}") from error
    except BadSchedule as error:
        raise BadSchedule(f"{event.place}: {error}") from error
    if event.at_ms + event.duration_ms > schedule.end_ms:
        raise BadSchedule(
            f"{event.place} ends at {event.at_ms + event.duration_ms} ms, "
            f"after the chaos phase, which lasts {schedule.end_ms} ms"
        )


def _check_references(event: Event, wanted: Iterable[str], schedule: Schedule) -> None:
    others = [other for other in schedule.events if other is not event]
    for name in wanted:
        if not any(name in other.names for other in others):
            known = ", ".join(other.name for other in others if other.name is not None) or "none"
            raise BadSchedule(f"no other event is called {name}; named events are {known}")


def _first(error: ValidationError) -> str:
    """The first problem and its place; misspelt keys come before missing keys."""
    problems = error.errors(include_url=False)
    first = min(problems, key=lambda problem: problem["type"] != "extra_forbidden")
    where = ".".join(map(str, first["loc"])) or "the file"
    match first["type"]:
        case "extra_forbidden":
            return f"{where}: there is no such key; remove it or correct its spelling"
        case "missing":
            return f"{where}: is missing"
        case _:
            return f"{where}: {first['msg']}"
