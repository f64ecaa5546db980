"""A result for the terminal: a table for each sweep, the figures of 2013 beside ours."""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.bench import words
from harness.bench.points import QUANTITIES, Measure, Point, Sweep, reference
from harness.bench.results import CLIENT_ALONE, Result, against_baseline

MAX_FAILURES: Final = 10


def print_result(console: Console, result: Result, baseline: Result | None = None) -> None:
    """Print every sweep, what could not be measured, and on what machine it was."""
    for (measure, sweep), points in groupby(result.points, lambda p: (p.measure, p.sweep)):
        console.print()
        console.print(Text(title(measure, sweep), style="bold"))
        console.print(sweep_table(result, list(points), baseline))
    for sample in result.failures[:MAX_FAILURES]:
        where = f"{sample.point.measure} {words.series_label(sample.point)} "
        where += f"{words.x_label(sample.point)}, {sample.system}, round {sample.round + 1}"
        console.print(Text(f"not measured: {where}: {sample.error}", style="red"), soft_wrap=True)
    if len(result.failures) > MAX_FAILURES:
        console.print(f"and {len(result.failures) - MAX_FAILURES} more in the JSON")
    console.print()
    for line in notes(result):
        console.print(Text(line, style="dim"), soft_wrap=True)


def title(measure: Measure, sweep: Sweep) -> str:
    """The heading of a sweep."""
    return f"{words.TITLES[measure]}, by {words.SWEEPS[sweep]}"


def notes(result: Result) -> list[str]:
    """How to read the numbers, and where they are from."""
    machine = result.machine
    load = [machine["load_before"][0], machine["load_after"][0]]
    versions = machine["versions"]
    return [
        f"median (least..most) of {result.options['rounds']} interleaved rounds of "
        f"{result.options['duration_s']:g} s, messages of {result.options['size']} bytes, "
        "MB = 10^6 bytes; 2013: the replication talk's three brokers",
        f"{machine['cores']} cores ({machine['cpu']}), load {load[0]} before and {load[1]} after, "
        f"kernel {versions['kernel']}, Python {versions['python']}, "
        f"commit {str(machine['commit'])[:12]}",
    ]


def sweep_table(result: Result, points: Sequence[Point], baseline: Result | None) -> Table:
    """One row per point; per system its numbers, then the ratios."""
    quantities = QUANTITIES[points[0].measure]
    names, first = result.names, result.names[0]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold underline")
    for heading in _leading(points):
        table.add_column(heading, no_wrap=True)
    alone = any(result.spread(p, CLIENT_ALONE, quantities[0].name) for p in points)
    for name in names:
        for quantity in quantities:
            heading = quantity.label if len(names) == 1 else f"{name} {quantity.label}"
            table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("2013", justify="right", no_wrap=True)
    if alone:
        table.add_column(CLIENT_ALONE, justify="right", no_wrap=True)
    for name in names[1:]:
        table.add_column(f"{name} / {first}", justify="right", no_wrap=True)
    if baseline is not None:
        for name in names:
            table.add_column(f"{name} / baseline", justify="right", no_wrap=True)
    for point in points:
        row = [words.series_label(point)] if _has_series(points) else []
        row.append(words.x_label(point))
        row += [words.spread(result.spread(point, n, q.name)) for n in names for q in quantities]
        known = reference(point)
        row.append(known.text if known else "")
        if alone:
            row.append(words.spread(result.spread(point, CLIENT_ALONE, quantities[0].name)))
        row += [words.ratio(result.ratio(point, name, first)) for name in names[1:]]
        if baseline is not None:
            row += [words.ratio(against_baseline(result, baseline, point, n)) for n in names]
        table.add_row(*row)
    return table


def _has_series(points: Sequence[Point]) -> bool:
    return any(words.series_label(point) for point in points)


def _leading(points: Sequence[Point]) -> list[str]:
    leading = ["client" if points[0].measure is Measure.LATENCY else ""]
    return [*(leading if _has_series(points) else []), words.SWEEPS[points[0].sweep]]
