"""Sends the result of a night to a web hook: one POST of JSON, with a time limit.

A web hook that does not answer does not make the night fail.
"""

import json
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any, Final

from harness.nightly.markdown import headline
from harness.nightly.night import Night
from harness.nightly.results import Change, Result, exit_code

TIMEOUT_S: Final = 15.0
MANY: Final = 20


def message(
    night: Night, results: Sequence[Result], changed: Mapping[str, Change]
) -> dict[str, Any]:
    """Return the message. Chat systems show its `text`."""
    bad = [r for r in results if exit_code([r])]
    return {
        "text": f"{night.suite.name}: {headline(results)}",
        "suite": night.suite.name,
        "night": night.name,
        "commit": night.commit,
        "exit_code": exit_code(results),
        "changes": {cell: str(change) for cell, change in changed.items() if change},
        "failures": [
            {"cell": r.cell, "seed": r.seed, "outcome": str(r.outcome), "said": r.said}
            for r in bad[:MANY]
        ],
        "more_failures": max(0, len(bad) - MANY),
    }


def post(url: str, content: Mapping[str, Any]) -> str | None:
    """Send a message. Return why that failed; None when it did not."""
    request = urllib.request.Request(
        url,
        data=json.dumps(content).encode(),
        headers={"Content-Type": "application/json", "User-Agent": "highwater"},
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            answer.read(1)
    except (OSError, ValueError) as error:
        return f"the web hook could not be called: {error}"
    return None
