"""Parsers of the parameters of process faults."""

from typing import Final

MOST_MS: Final = 3_600_000
MOST_TIMES: Final = 100


def milliseconds(text: str) -> int:
    """From 1 ms to an hour. Raises ValueError."""
    return _whole(text, MOST_MS, "ms")


def times(text: str) -> int:
    """From once to a hundred times. Raises ValueError."""
    return _whole(text, MOST_TIMES, "times")


def _whole(text: str, most: int, unit: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= most):
        raise ValueError(f"it is a whole number from 1 to {most:,} {unit}")
    return int(text)
