"""A verdict for the terminal: the answer, what was lost, why, where to look next.

A colour and a sign for each standing: the loss of acknowledged writes that the contract permits
looks neither like success nor like a violation.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from checkers.contract import headline
from checkers.contract.headline import Headline, Standing
from harness.plans import repeat
from harness.plans.plan import acks_name
from harness.recording.store import RUN_FILE
from harness.reports import words

MAX_REASONS = 10
MAX_CAUSES = 3
"""Per topic, the gravest first."""
LOOKS: Final[Mapping[Standing, tuple[str, str]]] = {
    Standing.CLEAN: ("✓", "bold green"),
    Standing.LOSSES: ("!", "bold yellow"),
    Standing.UNDECIDED: ("?", "bold magenta"),
    Standing.UNMET: ("✕", "bold red"),
    Standing.BROKEN: ("✕", "bold red"),
}
"""Sign and colour, of the eight that every terminal has; without them, sign and words remain."""
_COUNTS = {
    "sent": "sent",
    "acked": "acked",
    "failed": "failed",
    "indeterminate": "info",
    "lost": "lost",
    "duplicated": "dup",
    "reordered": "reord",
}
"""Columns of verdict.json, and headings short enough for 80 characters in all."""


def print_verdict(
    console: Console, verdict: Mapping[str, Any], run_dir: Path, report: Path | None
) -> None:
    """Print everything that one wants to know first."""
    console.print()
    _print_headline(console, headline.of(verdict))
    reasons = verdict["reasons"]
    for reason in reasons[:MAX_REASONS]:
        console.print(Text(f"  {reason}"), soft_wrap=True)
    if len(reasons) > MAX_REASONS:
        console.print(f"  and {len(reasons) - MAX_REASONS} more reasons in verdict.json")
    for each in verdict.get("expectations") or ():
        if each["outcome"] == "passed":
            console.print(Text(f"  as expected: {each['said']}"), soft_wrap=True)
    console.print(topics_table(verdict["topics"]))
    for topic in verdict["topics"]:
        causes = topic.get("loss_causes") or ()
        for cause in causes[:MAX_CAUSES]:
            lost = f"  {topic['topic']}: {cause['count']} lost: {cause['cause']}"
            console.print(Text(lost), soft_wrap=True)
        if len(causes) > MAX_CAUSES:
            more = f"  {topic['topic']}: and {len(causes) - MAX_CAUSES} more causes in verdict.json"
            console.print(Text(more))
        if stale := words.staleness(topic):
            console.print(Text(f"  {topic['topic']}: {stale}"), soft_wrap=True)
    if client := _client(run_dir):
        console.print(Text(f"clients  {client}"), soft_wrap=True)
    if report is not None:
        console.print(Text(f"report   {report}"), soft_wrap=True)
    console.print(Text(f"run      {run_dir}"), soft_wrap=True)
    console.print(Text(f"replay   {repeat.command(run_dir)}"), soft_wrap=True)


def _print_headline(console: Console, found: Headline) -> None:
    """The answer, the contract, and what was lost: what permits each loss, and what prevents it."""
    sign, style = LOOKS[found.standing]
    sign = "" if console.options.ascii_only else f"{sign} "
    title = f"{sign}{found.verdict}: {'; '.join(found.parts).upper()}"
    console.print(Text(title, style=style), soft_wrap=True)
    for loss in found.losses:
        loud = LOOKS[Standing.LOSSES if loss.judgement == "permitted" else Standing.BROKEN][1]
        console.print(Text(f"  {loss.text}", style=loud), soft_wrap=True)
        if loss.remedy:
            console.print(Text(f"    prevented by {loss.remedy}"), soft_wrap=True)
    if found.unacknowledged:
        console.print(Text(f"  {found.unacknowledged_text}"), soft_wrap=True)
    if found.also:
        console.print(Text(f"  also permitted: {found.also}"), soft_wrap=True)
    for standing, what, several in (
        (Standing.UNMET, "EXPECTATION FAILED", found.unmet),
        (Standing.UNDECIDED, "EXPECTATION NOT DECIDED", found.undecided),
    ):
        for each in several:
            console.print(Text(f"  {what}: {each}", style=LOOKS[standing][1]), soft_wrap=True)


def _client(run_dir: Path) -> str | None:
    """The run's client library and its version, where that was noted."""
    try:
        noted = json.loads((run_dir / RUN_FILE).read_text())
    except (OSError, ValueError, RecursionError):
        return None
    return str(noted["client"]) if isinstance(noted, dict) and "client" in noted else None


def topics_table(topics: list[Mapping[str, Any]]) -> Table:
    """What became of the sends of each topic, and how long an acknowledgement took."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold underline")
    table.add_column("topic", no_wrap=True)
    for heading in ("acks", *_COUNTS.values(), "p50 ms", "p99 ms"):
        table.add_column(heading, justify="right", no_wrap=True)
    for topic in topics:
        acks = topic.get("acks")
        counts = {name: Text(_count(topic.get(name))) for name in _COUNTS}
        if topic.get("lost_forbidden"):
            counts["lost"].stylize("bold red")
        elif topic.get("lost") and acks != 0:
            counts["lost"].stylize(LOOKS[Standing.LOSSES][1])
        table.add_row(
            topic["topic"],
            "?" if acks is None else acks_name(acks),
            *counts.values(),
            *(_ms(topic.get(name)) for name in ("p50_ms", "p99_ms")),
        )
    return table


def _count(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}" if value < 100 else f"{value:.0f}"
