"""Lines of the nodes' logs from around the anomalies, with times of the run's clock. A tested
program's lines are among them, under the negative numbers of its instances.

A real node stamps its lines with the date of its own clock, which a fault may have changed; a
simulated node stamps them with seconds of its world. A line without a stamp belongs to the line
before it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.reports.data.program_log import program_lines
from harness.reports.redaction import redacted

BEFORE_S, AFTER_S = 2.0, 2.0
"""Seconds before and after the wanted times."""
MAX_LINES = 6_000
"""Lines of all nodes together. The rest is counted."""
MAX_BYTES = 64 << 20
"""The first bytes of a node's log; the rest is not read."""
MAX_LINE = 400

_DATED = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}) (.*)", re.DOTALL)
_COUNTED = re.compile(r"(\d+\.\d{6}) (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLines:
    """Lines as (node, seconds since the run began, text), in the order of time."""

    lines: tuple[tuple[int, float, str], ...]
    left_out: int


def read_node_logs(
    run_dir: Path, run: Mapping[str, Any], windows: Sequence[tuple[float, float]]
) -> NodeLines:
    """Return the lines within `windows` (seconds since the run began) and shortly around them."""
    merged = _merged(windows)
    found: list[tuple[int, float, str]] = []
    for path in sorted(run_dir.glob("nodes/*/node.log")):
        if merged and path.parent.name.isdigit():
            node = int(path.parent.name)
            found.extend((node, at_s, text) for at_s, text in _within(_lines(path, run), merged))
    found.extend(
        (-number, at_s, text)
        for number, at_s, text in program_lines(run_dir)
        if any(start <= at_s <= end for start, end in merged)
    )
    found.sort(key=lambda line: line[1])
    return NodeLines(
        lines=tuple(
            (node, round(at_s, 3), redacted(text)) for node, at_s, text in found[:MAX_LINES]
        ),
        left_out=max(0, len(found) - MAX_LINES),
    )


def _merged(windows: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the windows in order, joined where they overlap."""
    made: list[tuple[float, float]] = []
    for start, end in sorted((start - BEFORE_S, end + AFTER_S) for start, end in windows):
        if made and start <= made[-1][1]:
            made[-1] = (made[-1][0], max(made[-1][1], end))
        else:
            made.append((start, end))
    return made


def _within(
    lines: Iterator[tuple[float, str]], spans: Sequence[tuple[float, float]]
) -> Iterator[tuple[float, str]]:
    for at_s, text in lines:
        if any(start <= at_s <= end for start, end in spans):
            yield at_s, text


def _lines(path: Path, run: Mapping[str, Any]) -> Iterator[tuple[float, str]]:
    wall_s = float(run.get("started_wall_ns") or 0) / 1e9
    base_s = float(run.get("monotonic_base_ns") or 0) / 1e9
    at_s = 0.0
    with path.open(errors="replace") as file:
        for line in file.readlines(MAX_BYTES):
            text = line.rstrip("\n")
            if match := _DATED.match(text):
                # The nodes write no time zone: it is the machine's.
                stamp = datetime.fromisoformat(match[1])
                at_s = stamp.timestamp() - wall_s
                text = match[2]
            elif match := _COUNTED.match(text):
                at_s, text = float(match[1]) - base_s, match[2]
            yield at_s, text[:MAX_LINE]
