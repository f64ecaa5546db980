"""Data as HTML. Every text is escaped. A page shows only the data that its function gets."""

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
from harness.serve.filters import Choices, RunQuery, Selection, Trend
from harness.serve.paths import link
from harness.serve.store_files import ENTRIES, Entry, Place
from harness.serve.summaries import MEANINGS, NIGHTLY, RunSummary, State

MARKS: Final[Mapping[State, str]] = {
    State.INVALID: "✕",
    State.MISSED: "○",
    State.UNMET: "≠",
    State.FAILED: "!",
    State.UNKNOWN: "?",
    State.CUT: "/",
    State.UNJUDGED: "·",
    State.RUNNING: "▸",
    State.LOSSES: "△",
    State.CANARY: "◉",
    State.VALID: "✓",
    State.CLUSTER: "▪",
}
"""Each state has a shape, so that nothing depends on colour."""

STATIC: Final[Mapping[str, str]] = {
    "serve.css": "text/css; charset=utf-8",
    "serve.js": "text/javascript; charset=utf-8",
}


def runs(
    selection: Selection,
    query: RunQuery,
    trends: Sequence[Trend],
    choices: Choices,
    clusters: Sequence[RunSummary],
    *,
    whole: bool,
) -> str:
    """Return the list of runs. `clusters`: those that were started by hand; they are no runs."""
    return _page(
        "runs.html.j2",
        selection=selection,
        query=query,
        trends=[(trend, spark([run.p99_ms for run in trend.runs])) for trend in trends],
        choices=choices,
        clusters=clusters,
        states=[state for state in State if state is not State.CLUSTER],
        orders=filters.ORDERS,
        whole=whole,
    )


def run(shown: RunSummary, replay: str, entries: Sequence[Entry], live: str) -> str:
    """Return the page of one run. `live`: the address of its live data."""
    return _page("run.html.j2", run=shown, replay=replay, entries=entries, live=live)


def nights(suites: Sequence[Mapping[str, Any]]) -> str:
    """Return the page of the nights of every suite."""
    return _page("nights.html.j2", suites=suites)


def compare(first: RunSummary, second: RunSummary, comparison: Comparison) -> str:
    """Return two runs side by side."""
    return _page("compare.html.j2", first=first, second=second, comparison=comparison)


def files(place: Place, entries: Sequence[Entry]) -> str:
    """Return the page of a directory."""
    return _page("files.html.j2", place=place, entries=entries, most=ENTRIES)


def log(place: Place, text: str, sought: str, *, whole: bool, lines: int) -> str:
    """Return the end of a text file, or its lines that contain `sought`."""
    return _page("log.html.j2", place=place, text=text, sought=sought, whole=whole, lines=lines)


def error_page(status: int, sentence: str) -> str:
    """Return a page that says why there is nothing to show."""
    return _page("error.html.j2", status=status, sentence=sentence)


def static(name: str) -> str | None:
    """Return a static file of this package; None when there is no such file."""
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
        info=words.INFO, link=link, marks=MARKS, meanings=MEANINGS, nightly=NIGHTLY,
        spark_size=(SPARK_WIDTH, SPARK_HEIGHT),
        seconds=lambda ns: None if ns is None else ns / 1e9,
    )  # fmt: skip
    return made


def _when(ns: int | None) -> str:
    """Return a time, UTC."""
    if ns is None or not 0 <= ns < 1 << 62:
        return words.NOTHING
    return f"{datetime.fromtimestamp(ns / 1e9, tz=UTC):%Y-%m-%d %H:%M:%S}"


def _span(seconds: float | None) -> str:
    """Return a length of time."""
    if seconds is None:
        return words.NOTHING
    if seconds < 120:
        return f"{seconds:,.3g} s"
    return f"{seconds / 60:,.1f} min" if seconds < 7_200 else f"{seconds / 3_600:,.1f} h"


def _size(size_bytes: int) -> str:
    """Return a number of bytes with a suitable unit."""
    value, unit = float(size_bytes), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:,.0f} {unit}" if unit == "B" or value >= 100 else f"{value:,.1f} {unit}"
