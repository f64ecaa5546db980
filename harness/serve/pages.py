"""Data as HTML. Every text is escaped; whatever a page shows was handed to it."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any, Final

from jinja2 import Environment

from harness.reports import words
from harness.reports.html import SPARK_HEIGHT, SPARK_WIDTH, environment, spark
from harness.serve import filters
from harness.serve.comparison import Comparison
from harness.serve.filters import Choice, PlanTrend, Wish
from harness.serve.paths import link
from harness.serve.store_files import ENTRIES, Entry, Place
from harness.serve.summaries import MEANINGS, NIGHTLY, State, Summary

MARKS: Final[Mapping[State, str]] = {
    State.INVALID: "✕",
    State.UNMET: "≠",
    State.FAILED: "!",
    State.UNKNOWN: "?",
    State.CUT: "/",
    State.UNJUDGED: "·",
    State.RUNNING: "▸",
    State.LOSSES: "△",
    State.VALID: "✓",
}
"""A shape for each, so that nothing depends on colour."""

STATIC: Final[Mapping[str, str]] = {
    "serve.css": "text/css; charset=utf-8",
    "serve.js": "text/javascript; charset=utf-8",
}


def runs(
    choice: Choice,
    wish: Wish,
    trends: Sequence[PlanTrend],
    known: tuple[Sequence[str], Sequence[str]],
    *,
    whole: bool,
) -> str:
    """The list of runs. `known`: the plans and the faults to choose among."""
    plans, faults = known
    return _page(
        "runs.html.j2",
        choice=choice,
        wish=wish,
        trends=[(trend, spark([run.p99_ms for run in trend.runs])) for trend in trends],
        plans=plans,
        faults=faults,
        states=list(State),
        orders=filters.ORDERS,
        whole=whole,
    )


def run(shown: Summary, replay: str, entries: Sequence[Entry], live: str) -> str:
    """One run: the command that repeats it, its files, and where to ask how it goes on."""
    return _page("run.html.j2", run=shown, replay=replay, entries=entries, live=live)


def nights(suites: Sequence[Mapping[str, Any]]) -> str:
    """The nights of every suite."""
    return _page("nights.html.j2", suites=suites)


def compare(first: Summary, second: Summary, told: Comparison) -> str:
    """Two runs side by side."""
    return _page("compare.html.j2", first=first, second=second, told=told)


def files(place: Place, entries: Sequence[Entry]) -> str:
    """A directory."""
    return _page("files.html.j2", place=place, entries=entries, most=ENTRIES)


def log(place: Place, text: str, sought: str, *, whole: bool, lines: int) -> str:
    """The end of a text file, or the lines of it in which something is."""
    return _page("log.html.j2", place=place, text=text, sought=sought, whole=whole, lines=lines)


def refusal(status: int, said: str) -> str:
    """Why there is nothing to show."""
    return _page("refusal.html.j2", status=status, said=said)


def static(name: str) -> str | None:
    """A file of ours; None where there is none of that name."""
    if name not in STATIC:
        return None
    return resources.files("harness.serve").joinpath("static").joinpath(name).read_text()


def _page(template: str, **context: Any) -> str:
    return _environment().get_template(template).render(**context)


@cache
def _environment() -> Environment:
    made = environment("harness.serve")
    made.filters.update(
        num=words.number,
        ms=words.milliseconds,
        when=_when,
        span=_span,
        size=_size,
        slug=lambda state: re.sub(r"\W+", "-", str(state).lower()),
    )
    made.globals.update(
        link=link, marks=MARKS, meanings=MEANINGS, nightly=NIGHTLY,
        spark_size=(SPARK_WIDTH, SPARK_HEIGHT),
        seconds=lambda ns: None if ns is None else ns / 1e9,
    )  # fmt: skip
    return made


def _when(ns: int | None) -> str:
    """A moment, UTC."""
    if ns is None or not 0 <= ns < 1 << 62:
        return words.NOTHING
    return f"{datetime.fromtimestamp(ns / 1e9, tz=UTC):%Y-%m-%d %H:%M:%S}"


def _span(seconds: float | None) -> str:
    """A length of time."""
    if seconds is None:
        return words.NOTHING
    if seconds < 120:
        return f"{seconds:,.3g} s"
    return f"{seconds / 60:,.1f} min" if seconds < 7_200 else f"{seconds / 3_600:,.1f} h"


def _size(size_bytes: int) -> str:
    """Bytes, with the unit that fits."""
    value, unit = float(size_bytes), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:,.0f} {unit}" if unit == "B" or value >= 100 else f"{value:,.1f} {unit}"
