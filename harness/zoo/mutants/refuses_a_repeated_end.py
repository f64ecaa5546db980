"""The coordinator refuses an EndTxn that repeats one that was done.

The producer did not get the first answer. It takes the refusal for an abort, and writes the records
of the committed transaction again.
"""

from kio.schema.errors import ErrorCode

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.coordinators.transactions import decisions
from nodes.coordinators.transactions.decisions import EndDecision
from nodes.coordinators.transactions.state import State

BUG = "a commit whose answer was lost is refused"
SOURCES = ("Redpanda 3501",)
SHOWS = ("false-abort", "duplicate")


def _already_ended(state: State, *, commit: bool) -> EndDecision:
    """There is no open transaction that could be ended."""
    return EndDecision(ErrorCode.invalid_txn_state)


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(decisions, _already_ended=_already_ended)


if __name__ == "__main__":
    run(apply)
