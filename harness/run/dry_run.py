"""Shows what a run would do: its schedule as a table or as JSON."""

from collections.abc import Sequence
from typing import Any

from harness.run.prepare import Prepared
from nemesis.faults.catalogue import find
from nemesis.faults.fault import Params
from nemesis.schedule import Event


def text(prepared: Prepared) -> str:
    """Return the schedule as a table, then risks, notes and faults that cannot be injected."""
    plan, schedule = prepared.plan, prepared.schedule
    lines = [
        f"{plan.name}, seed {schedule.seed}: {len(schedule.events)} faults in "
        f"{_seconds(schedule.end_ms)}",
        *_aligned([_HEADS, *(_row(event, prepared) for event in schedule.events)]),
    ]
    lines += [f"warning: {risk.text}" for risk in prepared.risks]
    lines += prepared.notes
    if prepared.refusal is not None:
        missing = prepared.missing.items()
        lines += [f"{name} cannot be injected here: {why}" for name, why in missing]
        lines.append(f"refused: {prepared.refusal}")
    return "\n".join(lines)


_HEADS = ("when", "name", "fault", "targets", "for", "parameters", "until")


def _row(event: Event, prepared: Prepared) -> tuple[str, ...]:
    until = event.until and f"{event.until} (within {_seconds(event.until_timeout_ms)})"
    return (
        _seconds(event.at_ms),
        event.name or "",
        f"{event.fault} (impossible here)" if event.fault in prepared.missing else event.fault,
        _targets(event),
        _seconds(event.duration_ms),
        ", ".join(f"{name}={value}" for name, value in _params(event).items()),
        until or "",
    )


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as aligned lines. A column that has only a heading is left out."""
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])] or [("",)]
    widths = [max(map(len, column)) for column in columns]
    cells = [
        [cell.rjust(w) if column[0] in ("when", "for") else cell.ljust(w) for cell in column]
        for column, w in zip(columns, widths, strict=True)
    ]
    return ["  ".join(line).rstrip() for line in zip(*cells, strict=True)]


def as_json(prepared: Prepared) -> dict[str, Any]:
    """Return the same as JSON-able data; `schedule` is the content of schedule.json."""
    return {
        "plan": prepared.plan.to_json(),
        "schedule": prepared.schedule.model_dump(exclude_none=True),
        "missing": dict(prepared.missing),
        "risks": [risk.as_json() for risk in prepared.risks],
        "notes": list(prepared.notes),
        "refusal": prepared.refusal,
    }


def _targets(event: Event) -> str:
    if event.nodes is None:
        return event.targets
    return f"{event.targets} = {', '.join(map(str, event.nodes)) or 'nobody'}"


def _params(event: Event) -> dict[str, str]:
    """Return all parameters, with the fault's defaults."""
    return dict(Params.of(find(event.fault).options, event.params).values)


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.3f} s"
