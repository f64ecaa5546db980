"""A quorum leader goes on leading although no majority fetches from it.

It can commit nothing, but those who still reach it follow it, and hear of nothing that is decided
elsewhere (KAFKA-15489).
"""

from math import inf

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.raft.leadership import Leadership

BUG = "zombie controller"
SOURCES = ("KAFKA-15489",)
SHOWS = ("unavailable",)


def majority_since_ms(self: Leadership) -> float:
    """A majority is always there."""
    return inf


def apply() -> Undo:
    """Break the broker; returns what mends it."""
    return patch(Leadership, majority_since_ms=majority_since_ms)


if __name__ == "__main__":
    run(apply)
