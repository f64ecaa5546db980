"""`highwater nightly`: a suite of runs within a budget, and what is told of it.

0    everything passed              254  a suite that cannot be run
1    a violation, or a canary that was not found
2    something could not be decided, or nothing was tried
255  the harness failed somewhere, or was stopped, and nothing worse was found
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from harness.cli.base import Debug, Exit, Store, on_signals, warn
from harness.reports import terminal

if TYPE_CHECKING:
    from harness.nightly.cells import Cell
    from harness.nightly.publish import Telling


def nightly(
    suite: Annotated[Path, typer.Argument(help="A TOML file of cells, canaries and a budget.")],
    store: Store = Path("store"),
    budget: Annotated[float | None, typer.Option(min=0.01, help="Minutes in all.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Seeds per cell.")] = None,
    parallel: Annotated[int | None, typer.Option(min=1, help="Trials at a time.")] = None,
    new: Annotated[
        bool, typer.Option("--new", help="Begin a night, though the last one was cut.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the cells, and start nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
    debug: Debug = False,
) -> None:
    """Run a suite until all had their turn or time is over; go on with a night that was cut."""
    from harness.nightly import cells
    from harness.nightly import night as nights
    from harness.nightly import suite as suites
    from harness.nightly.run_night import Conductor, open_night

    asked = suites.load(suite)
    flags = {"budget_min": budget, "seeds": seeds, "parallel": parallel}
    asked = asked.model_copy(update={k: v for k, v in flags.items() if v is not None})
    found = cells.cells_of(asked, suite.absolute().parent)
    if dry_run:
        _show(found, as_json)
        return
    with nights.held(nights.home(store, asked.name)):
        opened = open_night(store, asked, found, new=new, say=warn)
        conductor = Conductor(opened, warn)
        on_signals(conductor.stop)
        code = conductor.conduct()
    if as_json:
        results = [result.to_json() for result in opened.results]
        print(json.dumps({"night": str(opened.night.path), "exit_code": code, "results": results}))
    else:
        _summary(opened.telling)
    raise Exit(code)


def _show(cells: "Sequence[Cell]", as_json: bool) -> None:
    if as_json:
        said = [{"cell": c.name, "seeds": c.seeds, "canary": c.canary} for c in cells]
        print(json.dumps(said, indent=2))
        return
    for cell in cells:
        kind = "  canary: must fail" if cell.canary else ""
        print(f"{cell.name}  {cell.seeds} seeds{kind}")


def _summary(telling: "Telling") -> None:
    from harness.nightly.markdown import headline
    from harness.nightly.results import changes

    made, results = telling.night, telling.night.results()
    console = terminal.console()
    console.print()
    console.print(Text(headline(results)), soft_wrap=True)
    for cell, change in changes(results, telling.before()).items():
        if change:
            console.print(Text(f"  {change}: {cell}"), soft_wrap=True)
    for name, path in (
        ("summary", made.path / "summary.md"),
        ("junit", made.path / "junit.xml"),
        ("metrics", made.path / "metrics.prom"),
        ("trend", telling.home / "trend.html"),
    ):
        console.print(Text(f"{name:<8} {path}"), soft_wrap=True)
