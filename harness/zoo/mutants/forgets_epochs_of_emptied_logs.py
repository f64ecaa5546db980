"""A log that retention emptied does not know the epoch of its last record.

A leader compares this epoch with its own log, to see where the two diverge. Without it a log that
ends beyond the leader's last common record seems to have all that the leader has below its end.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.log.leader_epochs import LeaderEpochs

BUG = "a log that retention emptied does not know the epoch of its last record"
SOURCES = ("this broker (seed 102446)",)
SHOWS = ("lost-write", "truncated-read", "inconsistent-offset")


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(LeaderEpochs, last_before=LeaderEpochs.last_with_records)


if __name__ == "__main__":
    run(apply)
