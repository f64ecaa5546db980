"""Finds out from a process's log why the process ended."""

import re
from pathlib import Path
from typing import Final

TAIL_BYTES: Final = 16384
LINE_CHARACTERS: Final = 400

_THROWN: Final = re.compile(r"(?:[\w$]+\.)*\w*(?:Exception|Error)\b")
"""Matches the first line of a Java stack trace, and the last line of a Python traceback."""
_CAUSE: Final = "Caused by: "


def read_exit_reason(log_path: Path) -> str:
    """Return the last exception in a log with its causes, else the last line; empty without a log.

    The last line is not enough for a JVM: it logs its shutdown after the exception.
    """
    try:
        with log_path.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    written = [line.strip() for line in lines if line.strip()]
    thrown = [at for at, line in enumerate(written) if _THROWN.match(line)]
    if not thrown:
        return "".join(written[-1:])[:LINE_CHARACTERS]
    causes = [line for line in written[thrown[-1] :] if line.startswith(_CAUSE)]
    return "; ".join([written[thrown[-1]], *causes])[:LINE_CHARACTERS]
