"""A leader that lacks a follower's last epoch answers with where the next epoch begins.

So did KIP-101's first OffsetsForLeaderEpoch, which named no epoch in its answer. A follower that
appended in an epoch which the new leader never heard of keeps those records when the leader's own
tail, of an older epoch, is longer: two logs that differ below both ends (KIP-279).
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.ids import NO_OFFSET, Epoch, Offset
from nodes.log.divergence import EpochEnd, EpochHistory
from nodes.server.requests.fetch import read

BUG = "divergence after a fast failover"
SOURCES = ("KIP-279", "KAFKA-6361")
SHOWS = ("divergent-replicas", "truncated-read", "inconsistent-offset", "lost-write")


def divergence(leader: EpochHistory, last_epoch: Epoch, offset: Offset) -> EpochEnd | None:
    """By the end of that epoch or, if it is unknown here, of what came before the next one."""
    if offset == 0 or last_epoch < 0:
        return None
    _, end = leader.end_offset_for_epoch(Epoch(min(last_epoch, leader.last_epoch)))
    if end == NO_OFFSET or offset <= end:
        return None
    return EpochEnd(last_epoch, end)


def apply() -> Undo:
    """Break the broker; returns what mends it."""
    return patch(read, divergence=divergence)


if __name__ == "__main__":
    run(apply)
