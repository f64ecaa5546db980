"""`highwater contract`: prints which anomalies the contract forbids, permits or only reports."""

import json
from itertools import groupby
from typing import Annotated

import typer

from harness.cli.options import AsJson, Debug

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
    from rich.table import Table
    from rich.text import Text

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
        table = Table(title=kind, title_justify="left", title_style="bold", expand=True)
        table.add_column("configuration", ratio=2)
        table.add_column("is", width=len("informational"))
        table.add_column("because", ratio=2)
        table.add_column("source", ratio=1)
        for row in several:
            verdict = Text(row["judgement"], style=_STYLES.get(row["judgement"], ""))
            reason = row["reason"]
            if "permitted_by" in row:
                remedies = " or ".join(row["prevented_by"])
                reason += f"\nPermitted by {row['permitted_by']}. Prevented by {remedies}."
            table.add_row(row["configuration"], verdict, reason, row["source"])
        console.print(table)
    for problem in OF_OTHERS.problems:
        print(f"left out: {problem}")
