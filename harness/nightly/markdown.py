"""One night as Markdown, for the summary page of a CI job, within the size that GitHub allows."""

from collections.abc import Mapping, Sequence
from typing import Final

from harness.nightly.night import Night
from harness.nightly.results import Change, Outcome, Result, by_cell, worst

LIMIT_BYTES: Final = 1_000_000
"""GitHub accepts 1 MiB for each step of a job."""
ROWS: Final = 2_000

MARKS: Final[Mapping[Outcome, str]] = {
    Outcome.VIOLATION: "❌ violation",
    Outcome.UNMET: "❌ expectation failed",
    Outcome.ERROR: "⚠️ harness error",
    Outcome.UNKNOWN: "❓ unknown",
    Outcome.KNOWN: "🔖 known",
    Outcome.LOSSES: "🟠 passed; acknowledged writes lost, as permitted",
    Outcome.PASSED: "✅ passed",
    Outcome.LEFT_OUT: "· no time",
}

EXPECTED: Final[Mapping[str, str]] = {
    "failed": "EXPECTATION FAILED",
    "unknown": "EXPECTATION NOT DECIDED",
    "passed": "as expected",
}


def headline(results: Sequence[Result]) -> str:
    """Return the night in one sentence."""
    counts = {outcome: sum(r.outcome is outcome for r in results) for outcome in Outcome}
    tried = len(results) - counts[Outcome.LEFT_OUT]
    outcomes_text = [f"{n} {outcome}" for outcome, n in counts.items() if n]
    canaries = [r for r in results if r.canary and r.outcome is not Outcome.LEFT_OUT]
    missed = sum(r.outcome is Outcome.VIOLATION for r in canaries)
    blind = f"; {missed} canaries NOT found: the suite is blind" if missed else ""
    lost = lost_in(results)
    losses = f"; acknowledged writes lost: {lost}" if lost else ""
    runs = f"{tried} runs of {len(by_cell(results))} cells"
    return f"{runs}: {', '.join(outcomes_text) or 'nothing'}{losses}{blind}"


def lost_in(results: Sequence[Result]) -> str:
    """Return the lost acknowledged writes, such as `934 acks=all, 3 acks=1`; empty without any.

    Canaries are not counted: their broken broker is expected to lose writes.
    """
    found: dict[str, int] = {}
    for result in results:
        for acks, count in ({} if result.canary else result.lost).items():
            found[acks] = found.get(acks, 0) + count
    return ", ".join(f"{found[acks]:,} acks={acks}" for acks in sorted(found, reverse=True))


def markdown(night: Night, results: Sequence[Result], changed: Mapping[str, Change]) -> str:
    """Return the whole page, failures first. It says what it leaves out."""
    lines = [
        f"## {night.suite.name}, {night.name}",
        "",
        headline(results),
        "",
        f"commit `{night.commit or 'unknown'}`, {night.machine}",
        "",
        "| cell | outcome | runs | acknowledged | of these lost | p99 ms | longest gap ms | |",
        "|---|---|--:|--:|--:|--:|--:|---|",
    ]
    cells = by_cell(results)
    order = list(Outcome)
    ranked = sorted(cells, key=lambda cell: order.index(worst(r.outcome for r in cells[cell])))
    lines += [_row(cell, cells[cell], changed.get(cell, Change.SAME)) for cell in ranked[:ROWS]]
    if len(ranked) > ROWS:
        lines.append(f"\n{len(ranked) - ROWS} more cells, none of them worse, are not shown.")
    lines += _details(results)
    return _within_the_limit(lines)


def _row(cell: str, results: Sequence[Result], change: Change) -> str:
    outcome = worst(r.outcome for r in results)
    tried = [r for r in results if r.outcome is not Outcome.LEFT_OUT]
    p99 = max((r.p99_ms for r in tried if r.p99_ms is not None), default=None)
    gap = max((r.unavailable_ms for r in tried if r.unavailable_ms is not None), default=None)
    name = f"{_cell(cell)}{' (canary)' if results[0].canary else ''}"
    acked = sum(r.acked for r in tried)
    numbers = " | ".join("" if x is None else f"{x:,.0f}" for x in (p99, gap))
    said = f"{MARKS[outcome]} | {len(tried)} | {acked:,} | {lost_in(tried)}"
    return f"| {name} | {said} | {numbers} | {change} |"


def _details(results: Sequence[Result]) -> list[str]:
    detailed = [r for r in results if r.outcome not in (Outcome.PASSED, Outcome.LEFT_OUT)]
    lines = list[str]()
    for result in detailed:
        lines += ["", f"### {MARKS[result.outcome]}: {_cell(result.cell)}, seed {result.seed}", ""]
        lines.append(_cell(result.said))
        if result.headline and result.headline not in result.said:
            lines += ["", _cell(result.headline)]
        lines += [f"- {count} {kind}" for kind, count in result.anomalies.items()]
        lines += [
            f"- {EXPECTED[row['outcome']]}: {_cell(row['said'])}" for row in result.expectations
        ]
        lines += [f"- known: {_cell(reason)}" for reason in result.known]
        if result.replay:
            lines += ["", f"```\n{result.replay}\n```"]
    return lines


def _cell(text: str) -> str:
    """Return a text that is safe in a table cell."""
    return " ".join(text.replace("|", "\\|").split())


def _within_the_limit(lines: Sequence[str]) -> str:
    kept, size = [], 0
    for number, line in enumerate(lines):
        size += len(line.encode()) + 1
        if size > LIMIT_BYTES - 200:
            kept.append(f"\n{len(lines) - number} more lines did not fit here; see junit.xml.")
            break
        kept.append(line)
    return "\n".join(kept) + "\n"
