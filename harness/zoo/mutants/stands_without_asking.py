"""A voter that hears no leader stands for election at once, in an epoch of its own.

One that was cut off comes back with a higher epoch and deposes a leader that had done its work all
the time (KIP-996 asks around first). Nothing is lost by it but time.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.raft.elections import Elections
from nodes.raft.roles import Role

BUG = "no pre-vote"
SOURCES = ("KIP-996", "KIP-650")
SHOWS = ("unavailable",)


def ask_around(self: Elections, now_ms: float) -> None:
    """Not asked, but told."""
    self.transition(Role.PROSPECTIVE)
    self._stand(now_ms)


def apply() -> Undo:
    """Break the broker; returns what mends it."""
    return patch(Elections, _ask_around=ask_around)


if __name__ == "__main__":
    run(apply)
