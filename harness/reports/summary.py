"""A verdict on the terminal: the answer, what was lost, why, and where to look next.

Each standing has a colour and a sign. A permitted loss of acknowledged writes looks neither like
success nor like a violation.
"""

import json
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from checkers.contract import headline, program
from checkers.contract.headline import Headline, Standing
from harness.plans import repeat
from harness.plans.plan import acks_name
from harness.recording.store import RUN_FILE
from harness.reports import terminal, words
from harness.reports.data.losses import acks_strength
from harness.reports.data.program_log import lines_between

MAX_REASONS = 10
MAX_CAUSES = 3
"""Causes per topic."""
MAX_LINES = 4
"""Lines of a tested program's log."""
LOG_AFTER_NS = 5_000_000_000
"""How long after an input was sent the program's lines are shown."""
LOOKS: Final[Mapping[Standing, tuple[str, str]]] = {
    Standing.CLEAN: ("✓", "bold green"),
    Standing.LOSSES: ("!", "bold yellow"),
    Standing.UNDECIDED: ("?", "bold magenta"),
    Standing.UNMET: ("✕", "bold red"),
    Standing.BROKEN: ("✕", "bold red"),
}
"""Sign and colour, one of the eight of every terminal. Without colours, sign and words remain."""
_COUNTS = {
    "sent": "sent",
    "acked": "acked",
    "failed": "failed",
    "indeterminate": "info",
    "lost": "lost",
    "duplicated": "dup",
    "reordered": "reord",
}
"""Columns of verdict.json, with headings that fit into 80 characters."""


def print_verdict(
    console: Console, verdict: Mapping[str, Any], run_dir: Path, report: Path | None
) -> None:
    """Print the headline, the reasons, the losses by topic, and the paths of report and run."""
    console.print()
    _print_headline(console, headline.of(verdict))
    for line in _printed(verdict, run_dir):
        console.print(Text(f"    {line}"), soft_wrap=True)
    reasons = verdict["reasons"]
    for reason in reasons[:MAX_REASONS]:
        _say(console, reason)
    if len(reasons) > MAX_REASONS:
        console.print(f"  and {len(reasons) - MAX_REASONS} more reasons in verdict.json")
    for each in verdict.get("expectations") or ():
        if each["outcome"] == "passed":
            _say(console, f"as expected: {each['said']}")
    topics = verdict["topics"]
    console.print(topics_table(topics))
    if any(topic.get("indeterminate") for topic in topics):
        _say(console, words.INFO)
    promises = verdict.get("promises") or ()
    if promises:
        console.print(promises_table(promises))
    for promise in promises:
        for cause in promise["causes"][:MAX_CAUSES]:
            _say(console, words.of_promise(promise, cause))
    for topic in sorted(topics, key=_loss_order):
        causes = topic.get("loss_causes") or ()
        for cause in causes[:MAX_CAUSES]:
            _say(console, f"{topic['topic']}: {cause['count']} lost: {cause['cause']}")
        if len(causes) > MAX_CAUSES:
            more = len(causes) - MAX_CAUSES
            _say(console, f"{topic['topic']}: and {more} more causes in verdict.json")
        if stale := words.staleness(topic):
            _say(console, f"{topic['topic']}: {stale}")
    if "control_plane" in verdict:
        console.print(Text(f"control  {verdict['control_plane']}"), soft_wrap=True)
    if client := _client(run_dir):
        console.print(Text(f"clients  {client}"), soft_wrap=True)
    if report is not None:
        console.print(Text(f"report   {report}"), soft_wrap=True)
    console.print(Text(f"run      {run_dir}"), soft_wrap=True)
    console.print(Text(f"replay   {repeat.command(run_dir)}"), soft_wrap=True)


def _print_headline(console: Console, found: Headline) -> None:
    """Print the answer and the losses: what permits each loss, and what would have prevented it."""
    sign, style = LOOKS[found.standing]
    sign = "" if console.options.ascii_only else f"{sign} "
    title = f"{sign}{found.verdict}: {'; '.join(found.parts).upper()}"
    console.print(Text(title, style=style), soft_wrap=True)
    if found.program or found.doubt:
        told = found.program or found.doubt
        look = LOOKS[Standing.BROKEN if found.program else Standing.UNDECIDED][1]
        _say(console, f"{told[0].upper()}{told[1:]}.", look)
    elif found.kept and found.claim:
        _say(console, found.kept)
    for loss in found.losses:
        loud = LOOKS[Standing.LOSSES if loss.judgement == "permitted" else Standing.BROKEN][1]
        _say(console, loss.text, loud)
        if loss.remedy:
            _say(console, f"prevented by {loss.remedy}", indent=4)
    if found.unacknowledged:
        _say(console, found.unacknowledged_text)
    if found.expired:
        _say(console, found.expired_text)
    if found.also:
        _say(console, f"also permitted: {found.also}")
    for standing, what, several in (
        (Standing.UNMET, "EXPECTATION FAILED", found.unmet),
        (Standing.UNDECIDED, "EXPECTATION NOT DECIDED", found.undecided),
    ):
        for each in several:
            _say(console, f"{what}: {each}", LOOKS[standing][1])


def _say(console: Console, text: str, style: str = "", *, indent: int = 2) -> None:
    """Print a sentence: wrapped for people at a terminal, as one line for who searches a file."""
    begin = " " * indent
    line = f"{begin}{text}"
    if console.is_terminal:
        line = textwrap.fill(
            terminal.plain(text),
            console.width,
            initial_indent=begin,
            subsequent_indent=f"{begin}  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    console.print(Text(line, style=style), soft_wrap=True)


def _printed(verdict: Mapping[str, Any], run_dir: Path) -> list[str]:
    """Return what a tested program printed when it first broke its claim."""
    broken = [
        each["examples"][0]
        for each in verdict.get("anomalies") or ()
        if each.get("kind") in program.FOUND
        and each.get("judgement") == "forbidden"
        and each.get("examples")
    ]
    began_ns = broken[0].get("invoke_ns") if broken else None
    if not isinstance(began_ns, int):
        return []
    ended_ns = max(int(broken[0].get("complete_ns") or 0), began_ns + LOG_AFTER_NS)
    return lines_between(run_dir, began_ns / 1e9 - 0.5, ended_ns / 1e9, MAX_LINES)


def _loss_order(topic: Mapping[str, Any]) -> tuple[bool, int]:
    """Topics with forbidden losses first, then the strongest acks mode."""
    return not topic.get("lost_forbidden"), -acks_strength(topic.get("acks"))


def _client(run_dir: Path) -> str | None:
    """Return the run's client library and its version; None when run.json does not say."""
    try:
        record = json.loads((run_dir / RUN_FILE).read_text())
    except (OSError, ValueError, RecursionError):
        return None
    return str(record["client"]) if isinstance(record, dict) and "client" in record else None


def topics_table(topics: list[Mapping[str, Any]]) -> Table:
    """Return a table of the sends of each topic and the latency of acknowledgements."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold underline")
    table.add_column("topic", no_wrap=True)
    for heading in ("acks", *_COUNTS.values(), "p50 ms", "p99 ms"):
        table.add_column(heading, justify="right", no_wrap=True)
    for topic in topics:
        acks = topic.get("acks")
        counts = {name: Text(_count(topic.get(name))) for name in _COUNTS}
        if acks == 0:
            counts["acked"] = Text("-")  # a send ends when it is handed to the network
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


def promises_table(promises: Iterable[Mapping[str, Any]]) -> Table:
    """Return a table of the records of each promise: see `checkers.promises`."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold underline")
    table.add_column("promise", no_wrap=True)
    for heading in ("records", *words.PROMISE_COUNTS.values()):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in promises:
        counts = ("" if row[name] is None else f"{row[name]:,}" for name in words.PROMISE_COUNTS)
        table.add_row(row["promise"], f"{row['records']:,}", *counts)
    return table


def _count(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}" if value < 100 else f"{value:.0f}"
