"""The coordinator aborts a transaction that takes too long, and leaves the producer its epoch.

The producer knows nothing of the abort. It writes the rest of its transaction and commits that: the
first part was aborted, and is lost.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.coordinators.transactions import decisions
from nodes.coordinators.transactions.state import (
    NO_PRODUCER_ID,
    State,
    Transaction,
    change,
)

BUG = "a transaction that timed out goes on"
SOURCES = ("KAFKA-6119",)
SHOWS = ("torn-transaction", "lost-write", "lost-output")


def prepare_fence(
    transaction: Transaction,
    now_ms: int,
    *,
    transaction_version: int,
    next_producer_id: int = NO_PRODUCER_ID,
) -> Transaction:
    """Abort, in the same epoch."""
    return change(transaction, State.PREPARE_ABORT, now_ms, client_version=0)


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(decisions, prepare_fence=prepare_fence)


if __name__ == "__main__":
    run(apply)
