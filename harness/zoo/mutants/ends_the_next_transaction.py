"""The coordinator takes an EndTxn of an earlier epoch for one of the transaction that is open.

Without an epoch for each transaction nothing else is possible (transaction.version below 2): a
request that the network delivers late ends the next transaction of the producer.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.coordinators.machine import ProducerStamp
from nodes.coordinators.transactions import decisions
from nodes.coordinators.transactions.decisions import EndDecision, NewId
from nodes.coordinators.transactions.state import State, Transaction

BUG = "a late EndTxn ends the next transaction"
SOURCES = ("KAFKA-17754", "KIP-890")
SHOWS = ("torn-transaction", "false-abort", "aborted-read")

_end = decisions.end


def end(
    transaction: Transaction | None,
    producer: ProducerStamp,
    now_ms: int,
    *,
    commit: bool,
    client_version: int,
    new_id: NewId,
) -> EndDecision:
    """Believe that an old request is about the open transaction."""
    if transaction is not None and _is_late(producer, transaction):
        producer = producer._replace(epoch=transaction.epoch)
    return _end(
        transaction,
        producer,
        now_ms,
        commit=commit,
        client_version=client_version,
        new_id=new_id,
    )


def _is_late(producer: ProducerStamp, transaction: Transaction) -> bool:
    return transaction.state is State.ONGOING and producer.epoch < transaction.epoch


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(decisions, end=end)


if __name__ == "__main__":
    run(apply)
