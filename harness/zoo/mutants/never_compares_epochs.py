"""Followers cut their logs to their high watermarks and take what comes; epochs are not compared.

So did Kafka before KIP-101. Two replicas that lost power together come back with tails of different
lengths; the shorter leads and appends; the longer keeps, at the same offsets, what it had: below
its high watermark nothing is ever compared (KIP-101, scenario 2).
"""

from harness.zoo.mutants import truncate_to_high_watermark
from harness.zoo.mutants.patching import Undo, patch, run, together
from nodes.ids import Epoch, Offset
from nodes.log.divergence import EpochEnd, EpochHistory
from nodes.server.requests.fetch import read

BUG = "divergence after truncation to the high watermark"
SOURCES = ("KIP-101 (2)",)
SHOWS = ("divergent-replicas", "inconsistent-offset", "truncated-read", "lost-write")


def divergence(leader: EpochHistory, last_epoch: Epoch, offset: Offset) -> EpochEnd | None:
    """None, as long as the follower does not end beyond the leader."""
    end = leader.end_offset_for_epoch(leader.last_epoch)[1] if leader.last_epoch >= 0 else Offset(0)
    return EpochEnd(last_epoch, end) if last_epoch >= 0 and offset > end else None


def apply() -> Undo:
    """Break the broker; returns what mends it."""
    return together(patch(read, divergence=divergence), truncate_to_high_watermark.apply())


if __name__ == "__main__":
    run(apply)
