"""A night as a Prometheus text file, for node-exporter's textfile collector or a pushgateway."""

from collections.abc import Sequence

from harness.nightly.night import Night
from harness.nightly.results import Outcome, Result, by_cell, exit_code, worst


def metrics(night: Night, results: Sequence[Result]) -> str:
    """The exposition format, version 0.0.4."""
    suite = _label(night.suite.name)
    lines: list[str] = []

    def gauge(name: str, about: str, values: Sequence[tuple[str, float]]) -> None:
        lines.append(f"# HELP highwater_nightly_{name} {about}")
        lines.append(f"# TYPE highwater_nightly_{name} gauge")
        for labels, value in values:
            lines.append(f'highwater_nightly_{name}{{suite="{suite}"{labels}}} {value:g}')

    counts = [
        (f',outcome="{outcome}"', float(sum(r.outcome is outcome for r in results)))
        for outcome in Outcome
    ]
    gauge("runs", "Runs of the last night, by outcome.", counts)
    gauge(
        "exit_code",
        "0 valid, 1 violation or failed expectation, 2 unknown, 255 error.",
        [("", exit_code(results))],
    )
    gauge("began_seconds", "When the last night began, since 1970.", [("", night.began_s)])
    if night.ended_s is not None:
        gauge("ended_seconds", "When the last night ended, since 1970.", [("", night.ended_s)])
    cells = by_cell(results)
    states = [
        (f',cell="{_label(cell)}",outcome="{worst(r.outcome for r in found)}"', 1.0)
        for cell, found in cells.items()
    ]
    gauge("cell", "What each cell came to.", states)
    unmet = [
        (f',cell="{_label(cell)}",outcome="{outcome}"', float(count))
        for cell, found in cells.items()
        for outcome in ("passed", "failed", "unknown")
        if (count := sum(e["outcome"] == outcome for r in found for e in r.expectations))
    ]
    gauge("expectations", "The users' expectations, by what became of them.", unmet)
    losses = [
        (f',cell="{_label(cell)}",acks="{acks}"', float(sum(r.lost.get(acks, 0) for r in found)))
        for cell, found in cells.items()
        for acks in dict.fromkeys(acks for r in found for acks in r.lost)
    ]
    gauge("acknowledged_lost", "Acknowledged writes that were lost, permitted or not.", losses)
    for name, about in (
        ("p99_ms", "The slowest topic's 99th percentile of acknowledgement."),
        ("unavailable_ms", "The longest time without an acknowledgement in a partition."),
    ):
        seen = [
            (f',cell="{_label(cell)}"', max(values))
            for cell, found in cells.items()
            if (values := [v for r in found if (v := getattr(r, name)) is not None])
        ]
        gauge(name, about, seen)
    return "\n".join(lines) + "\n"


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
