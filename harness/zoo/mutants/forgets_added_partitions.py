"""The transaction coordinator remembers a further partition of a transaction without a record.

The next coordinator sends no marker to that partition: the transaction is committed in one part of
its partitions, and stays open in the other.
"""

from collections.abc import Iterable

from kio.schema.errors import ErrorCode

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.coordinators.machine import Effects, Now, ProducerStamp, Token
from nodes.coordinators.transactions import state
from nodes.coordinators.transactions.coordinator import TransactionCoordinator
from nodes.ids import TopicPartition

BUG = "a partition that was added is forgotten with the coordinator"
SOURCES = ("Redpanda 6019",)
SHOWS = ("torn-transaction", "hanging-transaction")

_add = TransactionCoordinator.add_partitions


def add_partitions(
    self: TransactionCoordinator,
    token: Token,
    now: Now,
    *,
    transactional_id: str,
    producer: ProducerStamp,
    partitions: Iterable[TopicPartition],
    client_version: int,
) -> Effects:
    """Write only the beginning of a transaction."""
    known, added = self.transactions.get(transactional_id), frozenset(partitions)
    if known is None or known.state is not state.State.ONGOING or known.epoch != producer.epoch:
        return _add(
            self,
            token,
            now,
            transactional_id=transactional_id,
            producer=producer,
            partitions=added,
            client_version=client_version,
        )
    self.transactions[transactional_id] = state.add_partitions(
        known, added, now.wall_ms, client_version=client_version
    )
    return Effects(answers=((token, {"error_code": ErrorCode.none}),))


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(TransactionCoordinator, add_partitions=add_partitions)


if __name__ == "__main__":
    run(apply)
