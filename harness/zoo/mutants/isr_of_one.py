"""A leader whose in-sync replicas are it alone goes on acknowledging acks=all writes.

Kafka 0.8 had no min.insync.replicas: all in-sync replicas had the record, and there was one. A
leader that is cut off from its followers, but not from the controller and its clients, makes itself
that one; when it dies, whoever is next in line has nothing of what it promised meanwhile.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.replication.partition import PartitionState

BUG = "an ISR of one is enough"
SOURCES = ("Call me maybe: Kafka 0.8", "KAFKA-1555")
SHOWS = ("lost-write", "truncated-read", "inconsistent-offset")


def apply() -> Undo:
    """Break the broker; returns what mends it."""
    return patch(PartitionState, below_min_isr=property(lambda self: False))


if __name__ == "__main__":
    run(apply)
