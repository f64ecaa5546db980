"""A marker that is written after the verification of a batch does not make the verification void.

The batch is appended after the end of its transaction, and opens another one, which nobody ends.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.log.transactions.verification import Verifications

BUG = "a marker between the verification of a batch and its append"
SOURCES = ("KAFKA-14884",)
SHOWS = ("hanging-transaction", "unavailable")


def marked(self: Verifications, producer_id: int, marker_epoch: int) -> None:
    """Leave the guard."""


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(Verifications, marked=marked)


if __name__ == "__main__":
    run(apply)
