"""`highwater nightly`: runs a suite of plans within a time budget and prints its results.

0    everything passed              254  the suite cannot be run
1    a violation, or a canary (a broken broker) that was not caught
2    a run could not be decided, or nothing was run
255  the harness failed or was stopped, and nothing worse was found
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.base import Exit, on_signals, warn
from harness.cli.options import DEFAULT_STORE, AsJson, Debug, Store

if TYPE_CHECKING:
    from harness.nightly.cells import Cell
    from harness.nightly.publish import NightFiles


def nightly(
    suite: Annotated[
        Path,
        typer.Argument(
            help="The suite: a TOML file of cells, canaries and a budget (docs/nightly.md)."
        ),
    ],
    store: Store = DEFAULT_STORE,
    budget: Annotated[
        float | None, typer.Option(min=0.01, help="Time budget in minutes. Default: the suite's.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Seeds for each cell. Default: the suite's.")
    ] = None,
    parallel: Annotated[
        int | None, typer.Option(min=1, help="Runs at the same time. Default: the suite's.")
    ] = None,
    new: Annotated[
        bool, typer.Option("--new", help="Start over instead of resuming an interrupted night.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the cells and start nothing.")
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Run a suite of plans within a time budget.

    An interrupted night is resumed.
    """
    from harness.nightly import cells
    from harness.nightly import night as nights
    from harness.nightly import suite as suites
    from harness.nightly.run_night import NightRunner, open_night

    asked = suites.load(suite)
    flags = {"budget_min": budget, "seeds": seeds, "parallel": parallel}
    asked = asked.model_copy(update={k: v for k, v in flags.items() if v is not None})
    found = cells.cells_of(asked, suite.absolute().parent)
    if dry_run:
        _show(found, as_json)
        return
    with nights.locked(nights.suite_dir(store, asked.name)):
        opened = open_night(store, asked, found, new=new, say=warn)
        runner = NightRunner(opened, warn)
        on_signals(runner.stop)
        code = runner.run()
    if as_json:
        results = [result.to_json() for result in opened.results]
        print(json.dumps({"night": str(opened.night.path), "exit_code": code, "results": results}))
    else:
        _summary(opened.files)
    raise Exit(code)


def _show(cells: "Sequence[Cell]", as_json: bool) -> None:
    if as_json:
        rows = [{"cell": c.name, "seeds": c.seeds, "canary": c.canary} for c in cells]
        print(json.dumps(rows, indent=2))
        return
    for cell in cells:
        kind = "  canary: must fail" if cell.canary else ""
        print(f"{cell.name}  {cell.seeds} seeds{kind}")


def _summary(files: "NightFiles") -> None:
    from rich.text import Text

    from harness.nightly.markdown import headline
    from harness.nightly.results import changes
    from harness.reports import terminal

    made, results = files.night, files.night.results()
    console = terminal.console()
    console.print()
    console.print(Text(headline(results)), soft_wrap=True)
    for cell, change in changes(results, files.previous_results()).items():
        if change:
            console.print(Text(f"  {change}: {cell}"), soft_wrap=True)
    for name, path in (
        ("summary", made.path / "summary.md"),
        ("junit", made.path / "junit.xml"),
        ("metrics", made.path / "metrics.prom"),
        ("trend", files.suite_dir / "trend.html"),
    ):
        console.print(Text(f"{name:<8} {path}"), soft_wrap=True)
