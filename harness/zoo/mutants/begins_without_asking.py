"""A leader appends the first batch of a transaction without asking the transaction's coordinator.

A batch that arrives after the abort of its transaction opens another one. The coordinator knows
nothing of it, so nobody ends it, and readers of committed records wait for ever.
"""

from harness.zoo.mutants.patching import Undo, patch, run, undo_all
from nodes.log.batch import BatchHeader
from nodes.log.producer_state import Producers
from nodes.log.transactions.verification import VerificationGuard

BUG = "a late batch opens a transaction that nobody ends"
SOURCES = ("KIP-890",)
SHOWS = ("hanging-transaction", "unavailable")


def start_verification(
    self: Producers, header: BatchHeader, now_ms: int, *, supports_epoch_bump: bool
) -> VerificationGuard | None:
    """Need no verification."""
    return None


def _check_verified(self: Producers, header: BatchHeader, guard: VerificationGuard | None) -> None:
    """Accept every batch."""


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return undo_all(
        patch(Producers, start_verification=start_verification),
        patch(Producers, _check_verified=_check_verified),
    )


if __name__ == "__main__":
    run(apply)
