"""A voter without a leader becomes a candidate at once, in a new epoch, without a pre-vote.

A voter that was cut off comes back with a higher epoch and deposes a healthy leader (KIP-996 adds
the pre-vote). Only time is lost.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.raft.elections import Elections
from nodes.raft.roles import Role

BUG = "no pre-vote"
SOURCES = ("KIP-996", "KIP-650")
SHOWS = ("unavailable",)


def start_pre_vote(self: Elections, now_ms: float) -> None:
    """Become a candidate without a pre-vote."""
    self.transition(Role.PROSPECTIVE)
    self._start_election(now_ms)


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(Elections, _start_pre_vote=start_pre_vote)


if __name__ == "__main__":
    run(apply)
