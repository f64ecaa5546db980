"""The leader knows repeated batches, but appends one whose predecessor it lacks.

When the first of several batches in flight fails for a moment and the second does not, the second
lies before the first, which is sent again (what max.in.flight=1 was for before KIP-98).
"""

from collections.abc import Callable

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.log.batch import BatchHeader
from nodes.log.errors import OutOfOrderSequence, UnknownProducer
from nodes.log.producer_state import ProducerBatch, Producers

BUG = "batches in flight overtake a failed one"
SOURCES = ("KIP-98", "KAFKA-5494")
SHOWS = ("reordered-send",)


def apply() -> Undo:
    """Break the broker; returns what mends it."""
    sound = Producers.check

    def check(
        self: Producers, header: BatchHeader, whole_log: Callable[[BatchHeader], bool]
    ) -> ProducerBatch | None:
        """A gap is as good as none."""
        try:
            return sound(self, header, whole_log)
        except (OutOfOrderSequence, UnknownProducer):
            return None

    return patch(Producers, check=check)


if __name__ == "__main__":
    run(apply)
