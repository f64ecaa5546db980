"""A quorum leader keeps leading although no majority fetches from it.

It can commit nothing. But nodes that reach it follow it, and do not learn of decisions elsewhere
(KAFKA-15489).
"""

from math import inf

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.raft.leadership import Leadership

BUG = "zombie controller"
SOURCES = ("KAFKA-15489",)
SHOWS = ("unavailable",)


def majority_since_ms(self: Leadership) -> float:
    """Claim that a majority is always there."""
    return inf


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(Leadership, majority_since_ms=majority_since_ms)


if __name__ == "__main__":
    run(apply)
