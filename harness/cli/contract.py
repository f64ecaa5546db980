"""`highwater contract`: prints which anomalies the contract forbids, permits or only reports."""

import json
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.options import AsJson, Debug

if TYPE_CHECKING:
    from rich.table import Table

_STYLES = {"forbidden": "red", "permitted": "yellow", "unknown": "magenta"}


def contract(
    anomaly: Annotated[
        str | None, typer.Argument(help="Print only the rows of this anomaly, such as lost-write.")
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Print which anomalies are forbidden, and which are permitted.

    This is the contract. For each anomaly, the first row whose configuration applies decides.
    """
    from checkers.detectors.registry import OF_OTHERS, RULES
    from harness.reports import terminal

    rows = [rule.as_json() for rule in RULES]
    kinds = list(dict.fromkeys(row["anomaly"] for row in rows))
    if anomaly is not None and anomaly not in kinds:
        raise typer.BadParameter(f"no anomaly {anomaly!r}; the anomalies are {', '.join(kinds)}")
    rows = [row for row in rows if anomaly in (None, row["anomaly"])]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    console = terminal.console()
    rows.sort(key=lambda row: kinds.index(row["anomaly"]))
    for kind, several in groupby(rows, key=lambda row: row["anomaly"]):
        console.print(kind, style="bold underline")
        console.print(_table(several))
    for problem in OF_OTHERS.problems:
        print(f"left out: {problem}")


def _table(rows: Iterable[Mapping[str, Any]]) -> "Table":
    """Return one anomaly's rows: the judgement, and beside it when it applies and why."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(width=len("informational"))
    table.add_column(overflow="fold")
    for row in rows:
        lines = [f"because {row['reason']}"]
        if "permitted_by" in row:
            lines.append(f"permitted by {row['permitted_by']}")
            lines.append(f"prevented by {' or '.join(row['prevented_by'])}")
        if row["source"] != "-":
            lines.append(f"source: {row['source']}")
        judgement = Text(row["judgement"], style=_STYLES.get(row["judgement"], ""))
        table.add_row(judgement, Text(row["configuration"], style="bold"))
        table.add_row("", Text("\n".join(lines) + "\n"))
    return table
