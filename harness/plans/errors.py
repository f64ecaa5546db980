"""What can be wrong with a plan."""

from typing import Final

TOO_DEEP: Final = "its values are nested too deeply; a few levels are enough for everything"


class PlanError(Exception):
    """A plan that cannot be run; the message says what is wrong, where, and what to do."""
