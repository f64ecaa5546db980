"""The leader takes each batch for a new one and ignores producers' sequences.

A client sends a batch again when the answer is lost, and the leader writes it again. Without
idempotence clients must expect this; with idempotence they are promised not to see it (KIP-98).
"""

from collections.abc import Callable

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.log.batch import BatchHeader
from nodes.log.producer_state import ProducerBatch, Producers
from nodes.log.transactions.verification import VerificationGuard

BUG = "a lost answer makes a duplicate"
SOURCES = ("KIP-98",)
SHOWS = ("duplicate", "reordered-send")


def check(
    self: Producers,
    header: BatchHeader,
    whole_log: Callable[[BatchHeader], bool],
    guard: VerificationGuard | None = None,
) -> ProducerBatch | None:
    """Treat each batch as new."""
    return None


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(Producers, check=check)


if __name__ == "__main__":
    run(apply)
