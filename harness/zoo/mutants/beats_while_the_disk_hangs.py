"""A broker whose fsync hangs keeps sending heartbeats to the controller.

It keeps its leaderships, but does nothing with them (KAFKA-8733): acks=all writes to a topic that
is flushed first wait until the disk returns.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.server.quorum.lifecycle import BrokerLifecycle

BUG = "a stalled disk keeps its leaderships"
SOURCES = ("KAFKA-8733",)
SHOWS = ("unavailable",)


def disk_hangs(self: BrokerLifecycle) -> bool:
    """Return false always."""
    return False


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(BrokerLifecycle, _disk_hangs=disk_hangs)


if __name__ == "__main__":
    run(apply)
