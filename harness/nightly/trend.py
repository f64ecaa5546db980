"""The trend page of a suite: outcomes, latency and availability of each cell, night by night.

One file that loads nothing else. Its links lead to the reports of runs that are still kept. Each
outcome has a letter and a shape, so that nothing depends on colour.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from jinja2 import PackageLoader

from harness.nightly.markdown import headline
from harness.nightly.night import Night
from harness.nightly.results import Change, Outcome, Result, by_cell, changes, flaky, worst
from harness.recording.store import write_atomic
from harness.reports import html

NIGHTS: Final = 30
FLAKY_NIGHTS: Final = 7

LETTERS: Final[Mapping[Outcome, str]] = {
    Outcome.VIOLATION: "V",
    Outcome.UNMET: "X",
    Outcome.ERROR: "E",
    Outcome.UNKNOWN: "?",
    Outcome.KNOWN: "k",
    Outcome.LOSSES: "!",
    Outcome.PASSED: "✓",
    Outcome.LEFT_OUT: "·",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One cell in one night."""

    letter: str
    outcome: str
    title: str
    link: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spark:
    """A small line over the nights: an SVG path and the last value."""

    path: str
    last: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One cell over all nights."""

    cell: str
    canary: bool
    change: str
    flaky: bool
    marks: Sequence[Mark]
    p99: Spark
    gap: Spark


def write(path: Path, nights: Sequence[Night]) -> None:
    """Write the page. `nights`: at least one, the oldest first."""
    shown = nights[-NIGHTS:]
    results = [night.results() for night in shown]
    environment = html.environment("harness.nightly")
    css = PackageLoader("harness.reports").get_source(environment, "report.css")[0]
    page = environment.get_template("trend.html.j2").render(
        css=css,
        suite=shown[-1].suite,
        night=shown[-1],
        began=_day(shown[-1]),
        days=[_day(night) for night in shown],
        hidden=len(nights) - len(shown),
        headline=headline(results[-1]),
        state=worst(r.outcome for r in results[-1]),
        rows=rows(shown, results),
        failures=[r for r in results[-1] if r.outcome in _NOT_PASSED],
        losses=[r for r in results[-1] if r.outcome is Outcome.LOSSES],
        letters=LETTERS,
        spark_width=html.SPARK_WIDTH,
        spark_height=html.SPARK_HEIGHT,
        link_of=lambda result: _link(shown[-1], result),
    )
    write_atomic(path, page)


_NOT_PASSED: Final = (
    Outcome.VIOLATION, Outcome.UNMET, Outcome.ERROR, Outcome.UNKNOWN, Outcome.KNOWN,
)  # fmt: skip


def rows(nights: Sequence[Night], results: Sequence[Sequence[Result]]) -> list[Row]:
    """Return a row for each cell of any night, the gravest outcome of the last night first."""
    now = results[-1] if results else []
    changed = changes(now, results[-2] if len(results) > 1 else [])
    flaky_cells = flaky(results[-FLAKY_NIGHTS:])
    grouped = [by_cell(each) for each in results]
    order = list(Outcome)
    names = list(dict.fromkeys(cell for each in reversed(grouped) for cell in each))
    names.sort(key=lambda cell: order.index(worst(r.outcome for r in by_cell(now).get(cell, ()))))
    return [
        Row(
            cell=cell,
            canary=any(r.canary for each in grouped for r in each.get(cell, ())),
            change=str(changed.get(cell, Change.SAME)),
            flaky=cell in flaky_cells,
            marks=[
                _mark(night, each.get(cell, []))
                for night, each in zip(nights, grouped, strict=True)
            ],
            p99=_spark([_most(each.get(cell, []), "p99_ms") for each in grouped], "p99"),
            gap=_spark([_most(each.get(cell, []), "unavailable_ms") for each in grouped], "gap"),
        )
        for cell in names
    ]


def _mark(night: Night, results: Sequence[Result]) -> Mark:
    if not results:
        return Mark(letter="", outcome="none", title=f"{night.name}: no such cell", link=None)
    outcome = worst(r.outcome for r in results)
    first = next(r for r in results if r.outcome is outcome)
    return Mark(
        letter=LETTERS[outcome],
        outcome=_slug(outcome),
        title=f"{night.name}: {outcome}, {len(results)} runs; {first.said}",
        link=_link(night, first),
    )


def _slug(outcome: Outcome) -> str:
    return outcome.name.lower().replace("_", "-")


def _link(night: Night, result: Result) -> str | None:
    """Return the link to a run's report, relative to the page; None when it is not kept."""
    if result.run is None or not (night.path / result.run / "report.html").exists():
        return None
    return f"{night.name}/{result.run}/report.html"


def _most(results: Sequence[Result], name: str) -> float | None:
    return max((v for r in results if (v := getattr(r, name)) is not None), default=None)


def _spark(values: Sequence[float | None], name: str) -> Spark:
    """Return the values as a line from left to right; nights without a value are gaps."""
    known = [value for value in values if value is not None]
    if not known:
        return Spark(path="", last="", title=f"{name}: never measured")
    last = values[-1]
    title = f"{name}: {min(known):,.0f} to {max(known):,.0f} ms in {len(known)} nights"
    return Spark(path=html.spark(values), last="" if last is None else f"{last:,.0f}", title=title)


def _day(night: Night) -> str:
    return f"{datetime.fromtimestamp(night.began_s, tz=UTC):%Y-%m-%d %H:%M}"
