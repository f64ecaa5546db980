"""Durations as people write them, and the longest one."""

import re
from typing import Final

from harness.plans.errors import PlanError

MAX_DURATION_S: Final = 366 * 86_400
"""No duration in a plan is longer."""
MAX_DURATION_MS: Final = MAX_DURATION_S * 1000
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def seconds(text: str) -> float:
    """Read a duration such as `90` (seconds), `90s`, `10m`, `12h` or `7d`. Raises PlanError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?", text.strip())
    if found is None:
        raise PlanError(f"{text!r} is no duration; write seconds, or 10m, 12h, 7d")
    length_s = float(found[1]) * _UNITS[found[2] or "s"]
    if length_s > MAX_DURATION_S:
        raise PlanError(f"{text!r} is too long; the longest duration is 366d")
    return length_s
