"""The high watermark advances while fewer than min.insync.replicas are in sync.

acks=all is still refused. But acks=1 writes become visible although only the leader has them, and
the replicas that left the ISR then lack records that consumers have read.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.ids import Offset
from nodes.replication.partition import PartitionState, Role

BUG = "the high watermark ignores min ISR"
SOURCES = ("KAFKA-15583", "KIP-966")
SHOWS = ("truncated-read", "inconsistent-offset")


def advance_high_watermark(self: PartitionState, leader_end: Offset) -> bool:
    """Advance to what all in-sync replicas have, however few they are."""
    end = self.replicated_end(leader_end)
    if self.role is not Role.LEADER or end <= self.high_watermark:
        return False
    self.high_watermark = end
    return True


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(PartitionState, advance_high_watermark=advance_high_watermark)


if __name__ == "__main__":
    run(apply)
