"""The last stable offset is one too high: the first record of an open transaction is below it.

Readers of committed records see it, whether the transaction is committed or aborted later.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.ids import Offset
from nodes.log.producer_state_manager import ProducerStateManager

BUG = "the last stable offset is off by one"
SOURCES = ("Redpanda 3036",)
SHOWS = ("aborted-read",)


def last_stable_offset(
    self: ProducerStateManager, high_watermark: Offset, log_start: Offset
) -> Offset:
    """Take the first unstable offset for stable."""
    first = self.producers.unstable.first_unstable(high_watermark)
    if first is None or first >= high_watermark:
        return high_watermark
    return max(Offset(first + 1), log_start)


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(ProducerStateManager, last_stable_offset=last_stable_offset)


if __name__ == "__main__":
    run(apply)
