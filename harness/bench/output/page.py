"""The result as one HTML page: plots as inline SVG, and every number in tables.

The page opens offline; its content security policy forbids it to load anything. Every text from
outside is escaped. The page shows numbers and does not judge them.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from harness.bench.options import BenchError
from harness.bench.output import plots, words
from harness.bench.output.table import failure, grid, notes, title
from harness.bench.points import QUANTITIES, Client, Measure, Point, reference
from harness.bench.results import Result
from harness.plans.plan import acks_name
from harness.recording.store import write_atomic
from harness.reports import html
from harness.reports.scales import px


def save(result: Result, path: Path, *, command: str, baseline: Result | None = None) -> None:
    """Write the page atomically. Raises BenchError when it cannot be written."""
    try:
        write_atomic(path, render(result, command=command, baseline=baseline))
    except OSError as error:
        raise BenchError(f"{path}: cannot be written ({error.strerror})") from error


def render(result: Result, *, command: str, baseline: Result | None = None) -> str:
    """Return the page as text."""
    css = resources.files("harness.bench").joinpath("templates", "bench.css").read_text()
    return (
        _environment()
        .get_template("bench.html.j2")
        .render(
            css=Markup(css),
            result=result,
            headlines=headlines(result),
            ranges=plots.ranges(result),
            plots=plots.plots(result),
            plot=plots,
            tables=[
                (title(measure, sweep), grid(result, list(points), baseline))
                for (measure, sweep), points in groupby(
                    result.points, lambda p: (p.measure, p.sweep)
                )
            ],
            failures=[failure(sample) for sample in result.failures],
            notes=notes(result),
            command=command,
            facts=_facts(result),
        )
    )


@cache
def _environment() -> Environment:
    made = html.environment("harness.bench")
    made.filters.update(px=px)
    return made


def headlines(result: Result) -> list[dict[str, str]]:
    """Return the first system's main figures: name, value, unit, and the figure of 2013."""
    first = result.names[0]
    raw = [point for point in result.points if point.client is Client.RAW]
    made = []
    for acks in (1, -1):
        found = [p for p in raw if p.measure is Measure.LATENCY and p.acks == acks]
        made += [_headline(result, first, f"publish, acks={acks_name(acks)}, p50", found)]
    for measure, name in (
        (Measure.PRODUCER, "produce, acks=all, best"),
        (Measure.CONSUMER, "consume, best"),
        (Measure.SHUTDOWN, "controlled shutdown, longest gap"),
    ):
        found = [p for p in raw if p.measure is measure and p.acks in (-1, 0)]
        if measure is Measure.PRODUCER:
            found = [p for p in found if p.acks == -1]
        made += [_headline(result, first, name, found)]
    return [each for each in made if each]


def _headline(result: Result, name: str, text: str, points: Sequence[Point]) -> dict[str, str]:
    """Return the greatest median of these points' first quantity; empty without a value."""
    known = [
        (found.median, point)
        for point in points
        if (found := result.spread(point, name, QUANTITIES[point.measure][0].name))
    ]
    if not known:
        return {}
    value, point = max(known, key=lambda each: each[0])
    talk = reference(point)
    unit = "ms" if QUANTITIES[point.measure][0].name.endswith("_ms") else "MB/s"
    return {
        "name": text,
        "value": words.number(value),
        "unit": unit,
        "talk": f"2013: {talk.text} {unit}" if talk else "",
    }


def _facts(result: Result) -> list[tuple[str, str]]:
    machine: Mapping[str, Any] = result.machine
    rows = [
        ("started", result.started),
        ("duration", f"{result.seconds:.0f} s"),
        ("commit", machine["commit"]),
        ("processor", machine["cpu"]),
        ("cores", machine["cores"]),
        ("memory", machine["memory"]),
        ("load before", ", ".join(map(str, machine["load_before"]))),
        ("load after", ", ".join(map(str, machine["load_after"]))),
        *sorted(machine["versions"].items()),
        *((name, json.dumps(value)) for name, value in result.options.items()),
        *((f"system {each['name']}", each["bootstrap"] or "built-in") for each in result.systems),
    ]
    return [(str(name), str(value)) for name, value in rows if value not in (None, "")]
