"""A leader that is alone in the ISR keeps acknowledging acks=all writes.

Kafka 0.8 had no min.insync.replicas: all in-sync replicas had the record, and there was one. A
leader that is cut off from its followers, but not from the controller and its clients, becomes that
one. When it dies, the next leader lacks everything that was acknowledged meanwhile.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.replication.partition import PartitionState

BUG = "an ISR of one is enough"
SOURCES = ("Call me maybe: Kafka 0.8", "KAFKA-1555")
SHOWS = ("lost-write", "truncated-read", "inconsistent-offset")


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(PartitionState, below_min_isr=property(lambda self: False))


if __name__ == "__main__":
    run(apply)
