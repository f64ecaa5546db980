"""The result on a terminal: a table for each sweep, with the figures of 2013 beside our own."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.bench.output import claims, words
from harness.bench.points import QUANTITIES, Measure, Point, Sweep, reference
from harness.bench.results import CLIENT_ALONE, Result, Sample, against_baseline

MAX_FAILURES: Final = 10
MANY_COLUMNS: Final = 4
"""The headings of more columns are broken into lines."""


def print_result(console: Console, result: Result, baseline: Result | None = None) -> None:
    """Print the tables of all sweeps, the failed measurements, and notes on the machine."""
    for (measure, sweep), points in groupby(result.points, lambda p: (p.measure, p.sweep)):
        console.print()
        console.print(Text(title(measure, sweep), style="bold"))
        found = grid(result, list(points), baseline, narrow=len(result.names) > 1)
        console.print(_table(found, words.SWEEPS[sweep]))
    for sample in result.failures[:MAX_FAILURES]:
        console.print(Text(f"not measured: {failure(sample)}", style="red"), soft_wrap=True)
    if len(result.failures) > MAX_FAILURES:
        more = len(result.failures) - MAX_FAILURES
        console.print(f"and {more} more failures, listed in the JSON file")
    console.print()
    for line in notes(result):
        console.print(Text(line, style="dim"), soft_wrap=True)


def title(measure: Measure, sweep: Sweep) -> str:
    """Return the heading of a sweep."""
    return f"{words.TITLES[measure]}, by {words.SWEEPS[sweep]}"


def notes(result: Result) -> list[str]:
    """Return lines that explain the numbers and name the machine."""
    machine = result.machine
    load = [machine["load_before"][0], machine["load_after"][0]]
    versions = machine["versions"]
    timeout_ms = result.options.get("session_timeout_ms")
    return [
        f"median (least..most) of {result.options['rounds']} interleaved rounds of "
        f"{result.options['duration_s']:g} s, messages of {result.options['size']} bytes, "
        "MB = 10^6 bytes; 2013: the figures of the replication talk, with three brokers",
        *(
            [
                f"the gap of a killed leader includes the {int(timeout_ms):,} ms until its "
                "session expires (broker.session.timeout.ms)"
            ]
            if any(point.measure is Measure.FAILOVER for point in result.points) and timeout_ms
            else []
        ),
        *(
            f"{each['name']}: the built-in broker, {each['build']}"
            for each in result.systems
            if each.get("build")
        ),
        *claims.findings(result),
        *(claims.PUBLISHED if claims.compares(result) else ()),
        f"{machine['cores']} cores ({machine['cpu']}), load {load[0]} before and {load[1]} after, "
        f"kernel {versions['kernel']}, Python {versions['python']}, "
        f"commit {str(machine['commit'])[:12]}",
    ]


def failure(sample: Sample) -> str:
    """Return a failed measurement and its error in words."""
    point = sample.point
    where = f"{point.measure}, {words.point_label(point)} {words.SWEEPS[point.sweep]}"
    return f"{where}, {sample.system}, round {sample.round + 1}: {sample.error}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The table of a sweep in words: for each point its label, and a cell for each heading."""

    headings: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str]]]


def grid(
    result: Result, points: Sequence[Point], baseline: Result | None, *, narrow: bool = False
) -> Grid:
    """Return the values of each system, then those of the talk, the client alone, and the ratios.

    With `narrow` the values are medians only; ratios keep their spreads.
    """
    shown = words.median if narrow else words.spread
    quantities = QUANTITIES[points[0].measure]
    names, first = result.names, result.names[0]
    alone = any(result.spread(p, CLIENT_ALONE, quantities[0].name) for p in points)
    talk = any(reference(point) for point in points)
    headings = [
        quantity.label if len(names) == 1 else f"{name} {quantity.label}"
        for name in names
        for quantity in quantities
    ]
    headings += ["2013"] * talk + [CLIENT_ALONE] * alone
    headings += [f"{name} / {first}" for name in names[1:]]
    headings += [f"{name} / baseline" for name in names if baseline is not None]
    rows = []
    for point in points:
        cells = [shown(result.spread(point, n, q.name)) for n in names for q in quantities]
        if talk:
            known = reference(point)
            cells.append(known.text if known else "")
        if alone:
            cells.append(shown(result.spread(point, CLIENT_ALONE, quantities[0].name)))
        cells += [words.ratio(result.ratio(point, name, first)) for name in names[1:]]
        if baseline is not None:
            cells += [words.ratio(against_baseline(result, baseline, point, n)) for n in names]
        rows.append((words.point_label(point), cells))
    return Grid(headings=headings, rows=rows)


def _table(found: Grid, first: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold underline")
    table.add_column(first, no_wrap=True)
    for heading in found.headings:
        table.add_column(heading, justify="right", no_wrap=len(found.headings) <= MANY_COLUMNS)
    for name, cells in found.rows:
        table.add_row(name, *cells)
    return table
