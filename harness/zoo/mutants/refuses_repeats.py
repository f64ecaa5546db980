"""The leader answers a repeated batch as out of order.

The client cannot know that the batch is in the log. It begins a new producer epoch, in which
everything in flight counts as new, and sends the batch again. Redpanda did this after a leader
change.
"""

from collections.abc import Callable

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.log.batch import BatchHeader
from nodes.log.errors import OutOfOrderSequence
from nodes.log.producer_state import ProducerBatch, Producers
from nodes.log.transactions.verification import VerificationGuard

BUG = "duplicates despite idempotence"
SOURCES = ("Redpanda 3039", "KIP-360")
SHOWS = ("duplicate",)


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    original = Producers.check

    def check(
        self: Producers,
        header: BatchHeader,
        whole_log: Callable[[BatchHeader], bool],
        guard: VerificationGuard | None = None,
    ) -> ProducerBatch | None:
        """Check as the broker does, but refuse a known batch."""
        known = original(self, header, whole_log, guard)
        if known is not None:
            raise OutOfOrderSequence(f"sequence {header.base_sequence} is not the next one")
        return None

    return patch(Producers, check=check)


if __name__ == "__main__":
    run(apply)
