"""Followers truncate their logs to their high watermarks, and never compare epochs.

Kafka did this before KIP-101. Two replicas that lost power together come back with tails of
different lengths. The shorter log leads and gets new records; the longer log keeps its old records
at the same offsets, because nothing below its high watermark is compared (KIP-101, scenario 2).
"""

from harness.zoo.mutants import truncate_to_high_watermark
from harness.zoo.mutants.patching import Undo, patch, run, undo_all
from nodes.ids import Epoch, Offset
from nodes.log.divergence import EpochEnd, EpochHistory
from nodes.server.requests.fetch import read

BUG = "divergence after truncation to the high watermark"
SOURCES = ("KIP-101 (2)",)
SHOWS = ("divergent-replicas", "inconsistent-offset", "truncated-read", "lost-write")


def divergence(leader: EpochHistory, last_epoch: Epoch, offset: Offset) -> EpochEnd | None:
    """Return None unless the follower's log ends beyond the leader's log."""
    end = leader.end_offset_for_epoch(leader.last_epoch)[1] if leader.last_epoch >= 0 else Offset(0)
    return EpochEnd(last_epoch, end) if last_epoch >= 0 and offset > end else None


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return undo_all(patch(read, divergence=divergence), truncate_to_high_watermark.apply())


if __name__ == "__main__":
    run(apply)
