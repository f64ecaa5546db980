"""A broker whose fsync does not return goes on telling the controller that it is well.

It keeps its leaderships and does nothing with them (KAFKA-8733): acks=all writes to a topic that is
flushed first wait for it until its disk returns.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.server.lifecycle import BrokerLifecycle

BUG = "a stalled disk keeps its leaderships"
SOURCES = ("KAFKA-8733",)
SHOWS = ("unavailable",)


def disk_hangs(self: BrokerLifecycle) -> bool:
    """Never."""
    return False


def apply() -> Undo:
    """Break the broker; returns what mends it."""
    return patch(BrokerLifecycle, _disk_hangs=disk_hangs)


if __name__ == "__main__":
    run(apply)
