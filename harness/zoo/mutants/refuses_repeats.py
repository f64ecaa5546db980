"""A batch that the leader has already is answered as out of order.

The client cannot know that it is there: it begins a new producer epoch, in which everything in
flight counts as new, and sends it again. Redpanda did that to clients after a change of leader.
"""

from collections.abc import Callable

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.log.batch import BatchHeader
from nodes.log.errors import OutOfOrderSequence
from nodes.log.producer_state import ProducerBatch, Producers

BUG = "duplicates despite idempotence"
SOURCES = ("Redpanda 3039", "KIP-360")
SHOWS = ("duplicate",)


def apply() -> Undo:
    """Break the broker; returns what mends it."""
    sound = Producers.check

    def check(
        self: Producers, header: BatchHeader, whole_log: Callable[[BatchHeader], bool]
    ) -> ProducerBatch | None:
        """As the sound one, but a batch that is known is refused."""
        known = sound(self, header, whole_log)
        if known is not None:
            raise OutOfOrderSequence(f"sequence {header.base_sequence} is not the next one")
        return None

    return patch(Producers, check=check)


if __name__ == "__main__":
    run(apply)
