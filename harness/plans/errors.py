"""The error of a plan that cannot be run."""

from typing import Final

TOO_DEEP: Final = "its values are nested too deeply; a few levels are enough for everything"


class PlanError(Exception):
    """A plan cannot be run. The message says what is wrong, where, and what to do."""


def unreadable(error: OSError | ValueError) -> str:
    """Return in words why a file cannot be read."""
    if isinstance(error, UnicodeDecodeError):
        return "it is no text"
    return getattr(error, "strerror", None) or str(error)
