"""The page of the contract, made from its rows; see `reference_pages`."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from checkers.detectors.registry import RULES

INTRODUCTION: Final = """\
# The contract

Detectors find every anomaly, whatever the configuration. The contract then says whether the
configuration permits it. For each anomaly, the first row whose configuration applies decides:

| it is | then |
|---|---|
| forbidden | the configuration promises that it does not happen: the run is INVALID |
| permitted | the configuration does not exclude it: it is reported with its cause and remedy |
| unknown | the record does not say whether a promise was broken: the run is UNKNOWN |
| informational | no promise is about it |

`highwater contract lost-write` prints the rows of one anomaly.
[What the anomalies are](../anomalies/index.md);
[how to add a row](../guides/add-a-contract-row.md).

This page is made from the code by `python -m tests.tools.reference_pages`."""


def contract_page() -> str:
    """Every row of the contract, by anomaly."""
    parts = [INTRODUCTION]
    tables = defaultdict(list)
    for row in (rule.as_json() for rule in RULES):
        tables[row["anomaly"]].append(row)
    for anomaly, rows in tables.items():
        parts.append(f"## [{anomaly}](../anomalies/index.md#{anomaly})")
        parts.append("\n".join(_table(rows)))
    return "\n\n".join(parts) + "\n"


def _table(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    yield "| configuration | is | because | source |"
    yield "|---|---|---|---|"
    for row in rows:
        reason = row["reason"]
        if "permitted_by" in row:
            remedies = " or ".join(row["prevented_by"])
            reason += f". Permitted by {row['permitted_by']}. Prevented by {remedies}."
        cells = (row["configuration"], row["judgement"], reason, row["source"])
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
