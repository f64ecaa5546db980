"""A replica whose log was damaged and set aside may lead with the rest of it.

Replicas that have the records follow it and truncate them (NATS 2.12: a minority with a flipped bit
was elected, and the stream was lost).
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.ids import TopicPartition
from nodes.server.replicas.log_directory import LogDirectory

BUG = "a corrupt minority leads"
SOURCES = ("NATS 2.12",)
SHOWS = ("lost-write", "truncated-read", "inconsistent-offset")


def must_refetch(self: LogDirectory, partition: TopicPartition) -> bool:
    """Return false: use what is left."""
    return False


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(LogDirectory, must_refetch=must_refetch)


if __name__ == "__main__":
    run(apply)
