"""Why a process ended, as far as its log tells."""

import re
from pathlib import Path
from typing import Final

TAIL_BYTES: Final = 16384
LINE_CHARACTERS: Final = 400

_THROWN: Final = re.compile(r"^(?:Caused by: )?(?:[\w$]+\.)*\w*(?:Exception|Error)\b.*")
"""How a stack trace of Java begins, and one of Python ends."""


def last_words(log_path: Path) -> str:
    """The last thing that was thrown, else the last line; empty when there is none.

    A JVM goes on telling how it shuts down after it has said why.
    """
    try:
        with log_path.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    spoken = [line.strip() for line in lines if line.strip()]
    thrown = [line for line in spoken if _THROWN.match(line)]
    return next(reversed(thrown or spoken), "")[:LINE_CHARACTERS]
