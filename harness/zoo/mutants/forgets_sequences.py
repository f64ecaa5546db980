"""The leader takes every batch for a new one: producers' sequences say nothing to it.

What was written and answered, but whose answer was lost, is sent again and written again. Without
idempotence that is what clients are told to expect; with it, it is what they were promised not to
see (KIP-98).
"""

from collections.abc import Callable

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.log.batch import BatchHeader
from nodes.log.producer_state import ProducerBatch, Producers

BUG = "a lost answer makes a duplicate"
SOURCES = ("KIP-98",)
SHOWS = ("duplicate", "reordered-send")


def check(
    self: Producers, header: BatchHeader, whole_log: Callable[[BatchHeader], bool]
) -> ProducerBatch | None:
    """New."""
    return None


def apply() -> Undo:
    """Break the broker; returns what mends it."""
    return patch(Producers, check=check)


if __name__ == "__main__":
    run(apply)
