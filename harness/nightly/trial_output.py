"""Reads what a trial's process left: its output, its verdict, its run.

    <night>/runs/<trial>/   stdout stderr   and the store of its run

A process that was killed may have written nothing, or only a part.
"""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from harness.judging.judge import EXIT_CODES
from harness.plans import repeat

LONGEST_COMPLAINT: Final = 600
UNMET: Final = "UNMET"
"""The outcome of a simulated run of which an expectation failed."""
COMMAND_TIMEOUT_S: Final = 300.0
"""The time limit of a command (`check`, `report`) on a run that is over."""

Verdict = Mapping[str, Any]


def verdict(directory: Path) -> Verdict | None:
    """Return the verdict: a real run printed it, a simulated run stored it. None without one."""
    said = _object(_last_line(directory / "stdout"))
    if said is None or "verdict" in said:
        return said
    run = run_of(directory)
    if said.get("outcome") not in (*EXIT_CODES, UNMET) or run is None:
        return None
    return _object(_text(run / "verdict.json"))


def complaint(directory: Path) -> str:
    """Return the process's last message, as one line: why there is no verdict."""
    said = _object(_last_line(directory / "stdout")) or {}
    if said.get("reasons") and "verdict" not in said:
        return " ".join(str(said["reasons"][0]).split())[:LONGEST_COMPLAINT]
    lines = [line for line in _text(directory / "stderr").splitlines() if line.strip()]
    starts = [n for n, line in enumerate(lines) if line.startswith("highwater: ")]
    words = " ".join(lines[starts[-1] if starts else -1 :])
    return words.removeprefix("highwater: ")[:LONGEST_COMPLAINT]


def run_of(directory: Path) -> Path | None:
    """Return the last run that the process made; None when it made none."""
    latest = directory / "latest"
    return latest.resolve() if latest.exists() else None


def last_output_s(directory: Path) -> float:
    """Return when the process last wrote output, in seconds since 1970; 0 when it wrote none."""
    files = [each for each in (directory / "stdout", directory / "stderr") if each.exists()]
    return max((each.stat().st_mtime for each in files), default=0.0)


def discard_output(directory: Path) -> None:
    """Discard what a trial printed: it was ended early, so its output is no result."""
    (directory / "stdout").unlink(missing_ok=True)


def replay(directory: Path) -> str | None:
    """Return the command that repeats the run; None without a run."""
    run = run_of(directory)
    return None if run is None or not (run / "plan.json").exists() else repeat.command(run)


def judge_again(directory: Path, command: Sequence[str]) -> Verdict | None:
    """Return the verdict on what an interrupted run had recorded; None when that is not possible.

    An interrupted run that shows a violation is not repeated: the violation has happened.
    """
    run = run_of(directory)
    if run is None:
        return None
    argv = [*command, "check", str(run), "--json"]
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return _object(done.stdout.decode(errors="replace").strip().rpartition("\n")[2])


def write_report(directory: Path, command: Sequence[str]) -> None:
    """Write the report of a judged run that has none, such as a simulated run."""
    run = run_of(directory)
    if run is None or (run / "report.html").exists() or not (run / "verdict.json").exists():
        return
    try:
        subprocess.run(
            [*command, "report", str(run)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return  # `highwater report RUN` prints the reason


def _last_line(path: Path) -> str:
    return _text(path).strip().rpartition("\n")[2]


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
