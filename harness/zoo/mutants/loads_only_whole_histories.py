"""The transaction coordinator replays a record only if it follows from those before it.

Compaction removes superseded records, so the first record of an id may be of any state. A new
coordinator then knows nothing of the id, and refuses its producer.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.coordinators.machine import Position
from nodes.coordinators.records import CoordinatorRecord
from nodes.coordinators.transactions import records
from nodes.coordinators.transactions.coordinator import TransactionCoordinator
from nodes.coordinators.transactions.state import State

BUG = "a coordinator cannot load a compacted log"
SOURCES = ("KAFKA-19862", "KAFKA-17306")
SHOWS = ("hanging-transaction", "unavailable")

_replay = TransactionCoordinator.replay


def replay(self: TransactionCoordinator, record: CoordinatorRecord, position: Position) -> None:
    """Skip a record whose predecessor is missing."""
    name, transaction = records.decode(record) or ("", None)
    begins = transaction is None or transaction.state is State.EMPTY
    if begins or name in self.transactions:
        _replay(self, record, position)


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(TransactionCoordinator, replay=replay)


if __name__ == "__main__":
    run(apply)
