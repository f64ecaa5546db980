"""A replica whose log was damaged and set aside may lead with what is left of it.

Those that have the records follow it and cut them (NATS 2.12: a minority with a flipped bit was
elected and took the stream with it).
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.ids import TopicPartition
from nodes.server.replicas.log_directory import LogDirectory

BUG = "a corrupt minority leads"
SOURCES = ("NATS 2.12",)
SHOWS = ("lost-write", "truncated-read", "inconsistent-offset")


def must_refetch(self: LogDirectory, partition: TopicPartition) -> bool:
    """What is there is what there is."""
    return False


def apply() -> Undo:
    """Break the broker; returns what mends it."""
    return patch(LogDirectory, must_refetch=must_refetch)


if __name__ == "__main__":
    run(apply)
