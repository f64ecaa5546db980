"""Tell a web hook how the night was: one POST of JSON, bounded, and no failure of the night."""

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
    """What is sent; `text` is what chat systems show."""
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
    """Send it; why that failed, if it did."""
    request = urllib.request.Request(
        url,
        data=json.dumps(content).encode(),
        headers={"Content-Type": "application/json", "User-Agent": "highwater"},
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            answer.read(1)
    except (OSError, ValueError) as error:
        return f"the web hook was not told: {error}"
    return None
