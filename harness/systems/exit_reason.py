"""Why a process ended, as far as its log tells."""

import re
from pathlib import Path
from typing import Final

TAIL_BYTES: Final = 16384
LINE_CHARACTERS: Final = 400

_THROWN: Final = re.compile(r"(?:[\w$]+\.)*\w*(?:Exception|Error)\b")
"""How a stack trace of Java begins, and one of Python ends."""
_CAUSE: Final = "Caused by: "


def last_words(log_path: Path) -> str:
    """The last thing that was thrown, with its causes, else the last line; empty without one.

    A JVM goes on telling how it shuts down after it has said why.
    """
    try:
        with log_path.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    spoken = [line.strip() for line in lines if line.strip()]
    thrown = [at for at, line in enumerate(spoken) if _THROWN.match(line)]
    if not thrown:
        return "".join(spoken[-1:])[:LINE_CHARACTERS]
    causes = [line for line in spoken[thrown[-1] :] if line.startswith(_CAUSE)]
    return "; ".join([spoken[thrown[-1]], *causes])[:LINE_CHARACTERS]
