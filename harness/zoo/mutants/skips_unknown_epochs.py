"""A leader that does not know a follower's last epoch answers with the start of the next epoch.

The first OffsetsForLeaderEpoch of KIP-101 did this: its answer had no epoch. A follower that
appended records in an epoch unknown to the new leader keeps those records if the leader's own tail,
of an older epoch, is longer: two logs that differ below both ends (KIP-279).
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.ids import NO_OFFSET, Epoch, Offset
from nodes.log.divergence import EpochEnd, EpochHistory
from nodes.server.requests.fetch import read

BUG = "divergence after a fast failover"
SOURCES = ("KIP-279", "KAFKA-6361")
SHOWS = ("divergent-replicas", "truncated-read", "inconsistent-offset", "lost-write")


def divergence(leader: EpochHistory, last_epoch: Epoch, offset: Offset) -> EpochEnd | None:
    """Use the end of that epoch; for an unknown epoch, the end of the epochs before the
    next one.
    """
    if offset == 0 or last_epoch < 0:
        return None
    _, end = leader.end_offset_for_epoch(Epoch(min(last_epoch, leader.last_epoch)))
    if end == NO_OFFSET or offset <= end:
        return None
    return EpochEnd(last_epoch, end)


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(read, divergence=divergence)


if __name__ == "__main__":
    run(apply)
