"""The leader recognizes repeated batches, but appends a batch whose predecessor is missing.

When the first of several batches in flight fails temporarily and the second succeeds, the second
lies before the first, which the client sends again. Before KIP-98, max.in.flight=1 prevented this.
"""

from collections.abc import Callable

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.log.batch import BatchHeader
from nodes.log.errors import OutOfOrderSequence, UnknownProducer
from nodes.log.producer_state import ProducerBatch, Producers
from nodes.log.transactions.verification import VerificationGuard

BUG = "batches in flight overtake a failed one"
SOURCES = ("KIP-98", "KAFKA-5494")
SHOWS = ("reordered-send",)


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    original = Producers.check

    def check(
        self: Producers,
        header: BatchHeader,
        whole_log: Callable[[BatchHeader], bool],
        guard: VerificationGuard | None = None,
    ) -> ProducerBatch | None:
        """Accept a gap."""
        try:
            return original(self, header, whole_log, guard)
        except (OutOfOrderSequence, UnknownProducer):
            return None

    return patch(Producers, check=check)


if __name__ == "__main__":
    run(apply)
