"""What a run would do, before it does anything: its schedule as a table or as JSON."""

from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from harness.planning import Prepared
from nemesis.fault import Params
from nemesis.faults import find
from nemesis.schedule import Event


def table(prepared: Prepared) -> Group:
    """When which fault strikes whom, for how long, how, and after what; and what cannot be."""
    plan, schedule = prepared.plan, prepared.schedule
    named = any(event.name for event in schedule.events)
    made = Table(
        *("when", *(["name"] if named else []), "fault", "targets", "for", "parameters", "until"),
        title=f"{plan.name}, seed {schedule.seed}: {len(schedule.events)} faults in "
        f"{_seconds(schedule.end_ms)}",
        title_justify="left",
        box=None,
        header_style="bold underline",
    )
    for event in schedule.events:
        here = "" if event.fault not in prepared.missing else "cannot be injected here: "
        until = event.until and f"{event.until} (within {_seconds(event.until_timeout_ms)})"
        made.add_row(
            _seconds(event.at_ms),
            *([event.name or ""] if named else []),
            Text(f"{here}{event.fault}", style="red" if here else ""),
            _aim(event),
            _seconds(event.duration_ms),
            ", ".join(f"{name}={value}" for name, value in _params(event).items()),
            until or "",
        )
    told = [f"{name} cannot be injected here: {why}" for name, why in prepared.missing.items()]
    if prepared.refusal is not None:
        told.append(f"refused: {prepared.refusal}")
    return Group(made, *(Text(line) for line in told))


def as_json(prepared: Prepared) -> dict[str, Any]:
    """The same for programs; `schedule` is what schedule.json would hold."""
    return {
        "plan": prepared.plan.to_json(),
        "schedule": prepared.schedule.model_dump(exclude_none=True),
        "missing": dict(prepared.missing),
        "notes": list(prepared.notes),
        "refusal": prepared.refusal,
    }


def _aim(event: Event) -> str:
    if event.nodes is None:
        return event.targets
    return f"{event.targets} = {', '.join(map(str, event.nodes)) or 'nobody'}"


def _params(event: Event) -> dict[str, str]:
    """All parameters, those that the event leaves to the fault too."""
    return dict(Params.of(find(event.fault).options, event.params).values)


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.3f} s"
