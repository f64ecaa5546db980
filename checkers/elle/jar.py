"""Elle itself: elle-cli's jar, run on a file in a separate process.

Only one answer counts: a line that names the file and says `true` or `false`, from a process that
exits like elle-cli, with 0 (true; in early versions any answer) or 1 (false). Everything else is
UNKNOWN with the last output: a failure to start, another exit code, `unknown`, no output, a
time-out.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from checkers.elle.graph import GraphVerdict, unknown
from checkers.elle.list_append import MODEL
from checkers.verdict import Outcome

SAID_LENGTH: Final = 300
"""How many characters of the last output are reported."""


def run_elle(
    jar: Path, history: Path, *, timeout_s: float, java: Sequence[str] = ("java",)
) -> GraphVerdict:
    """Elle's answer to a history written by `list_append`. java: how to start a Java machine."""
    checker = f"{jar.name}, {MODEL}"
    command = [*java, "-jar", str(jar), "--model", "list-append", "--format", "json"]
    command += ["--consistency-models", MODEL, str(history)]
    try:
        ended = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            errors="replace",
        )
    except OSError as error:
        return unknown(checker, f"Elle cannot be started: {error}")
    except subprocess.TimeoutExpired:
        return unknown(checker, f"Elle did not answer within {timeout_s:g} s")
    answer = _answer(ended.stdout, history)
    match answer, ended.returncode:
        case "true", 0:
            return GraphVerdict(
                outcome=Outcome.VALID, reasons=("Elle found nothing wrong",), checker=checker
            )
        case "false", 0 | 1:
            reason = f"Elle found what {MODEL} forbids"
            return GraphVerdict(outcome=Outcome.INVALID, reasons=(reason,), checker=checker)
        case _:
            said = (ended.stderr.strip() or ended.stdout.strip())[-SAID_LENGTH:]
            told = "no answer" if answer is None else f"the answer {answer!r}"
            return unknown(
                checker,
                f"Elle ended with exit code {ended.returncode} and {told}; it said: {said!r}",
            )


def _answer(output: str, history: Path) -> str | None:
    """What the line of the file says; None without one, or with several that differ."""
    answers = {
        words[-1].removeprefix(":")
        for line in output.splitlines()
        if line.startswith(str(history)) and len(words := line.split()) > 1
    }
    return answers.pop() if len(answers) == 1 else None
