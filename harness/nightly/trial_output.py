"""What a trial's process left: its words, its verdict, its run.

    <night>/runs/<trial>/   stdout stderr   and the store of its run

Everything is read as it is found: a process that was killed has said nothing, or half of it.
"""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from harness.judging.judge import EXIT_CODES
from harness.plans import repeat

LAST_WORDS: Final = 600
UNMET: Final = "UNMET"
"""What a simulated run calls that an expectation failed."""
AGAIN_S: Final = 300.0
"""How long one more command over a run that is over may take."""

Verdict = Mapping[str, Any]


def verdict(directory: Path) -> Verdict | None:
    """The verdict of a real run as it was printed, of a simulated one as it was stored."""
    said = _object(_last_line(directory / "stdout"))
    if said is None or "verdict" in said:
        return said
    run = run_of(directory)
    if said.get("outcome") not in (*EXIT_CODES, UNMET) or run is None:
        return None
    return _object(_text(run / "verdict.json"))


def complaint(directory: Path) -> str:
    """Why there is no verdict, as the process said last, as one line."""
    said = _object(_last_line(directory / "stdout")) or {}
    if said.get("reasons") and "verdict" not in said:
        return " ".join(str(said["reasons"][0]).split())[:LAST_WORDS]
    lines = [line for line in _text(directory / "stderr").splitlines() if line.strip()]
    starts = [n for n, line in enumerate(lines) if line.startswith("highwater: ")]
    words = " ".join(lines[starts[-1] if starts else -1 :])
    return words.removeprefix("highwater: ")[:LAST_WORDS]


def run_of(directory: Path) -> Path | None:
    """The run that the process made last."""
    latest = directory / "latest"
    return latest.resolve() if latest.exists() else None


def last_s(directory: Path) -> float:
    """When the process said its last word, in seconds since 1970; 0 where it said nothing."""
    files = [each for each in (directory / "stdout", directory / "stderr") if each.exists()]
    return max((each.stat().st_mtime for each in files), default=0.0)


def forget(directory: Path) -> None:
    """Take nothing that a trial printed for its result: it was ended before its time."""
    (directory / "stdout").unlink(missing_ok=True)


def replay(directory: Path) -> str | None:
    """The command that repeats the run, if there is one to repeat."""
    run = run_of(directory)
    return None if run is None or not (run / "plan.json").exists() else repeat.command(run)


def judged_again(directory: Path, command: Sequence[str]) -> Verdict | None:
    """The verdict on what a run recorded before it was cut; None where nobody can judge it.

    What was seen once has happened: a cut run that shows a violation is not tried again.
    """
    run = run_of(directory)
    if run is None:
        return None
    argv = [*command, "check", str(run), "--json"]
    try:
        done = subprocess.run(
            argv, capture_output=True, stdin=subprocess.DEVNULL, timeout=AGAIN_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return _object(done.stdout.decode(errors="replace").strip().rpartition("\n")[2])


def write_report(directory: Path, command: Sequence[str]) -> None:
    """The page of a run that was judged and has none, as simulated runs have."""
    run = run_of(directory)
    if run is None or (run / "report.html").exists() or not (run / "verdict.json").exists():
        return
    try:
        subprocess.run(
            [*command, "report", str(run)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=AGAIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return  # `highwater report RUN` will say why


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
