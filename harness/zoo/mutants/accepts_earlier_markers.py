"""A leader accepts a marker of the producer's present epoch, also from transaction version 2 on.

There a marker has the epoch after that of its transaction, and that is the epoch of the next one. A
marker that is sent again, and whose first request arrives late, ends the next transaction.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.log.producer_state import Producers
from nodes.log.transactions.markers import Marker

BUG = "a late marker ends the next transaction"
SOURCES = ("KAFKA-19446",)
SHOWS = ("torn-transaction", "aborted-read")

_check_marker = Producers.check_marker


def check_marker(self: Producers, marker: Marker, transaction_version: int) -> None:
    """Check as for the first transaction versions."""
    _check_marker(self, marker, 0)


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(Producers, check_marker=check_marker)


if __name__ == "__main__":
    run(apply)
