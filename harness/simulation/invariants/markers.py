"""A marker of transaction.version 2 ends a transaction of an earlier epoch (KIP-890).

There each transaction has an epoch of its own, and its marker the epoch after that, which is the
epoch of the next transaction. So a marker that arrives late must not end a transaction of its own
epoch (KAFKA-19446). What is open is read from the log.
"""

from collections.abc import Callable
from typing import Any

from kio.schema.errors import ErrorCode

from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.stable_offsets import LogTransactions
from nodes.ids import TopicPartition
from nodes.log.producer_state import EPOCH_BUMPED_SINCE
from nodes.log.transactions.markers import Marker
from nodes.server.requests.transaction_markers import TransactionMarkersHandler

NAME = "markers-end-earlier-epochs"


def watch_markers(
    handler: TransactionMarkersHandler, judge: Callable[[TopicPartition, Marker], None]
) -> None:
    """Call `judge` with each marker of transaction.version 2 that is appended, from now on."""
    append = handler._append

    def watched(partition: TopicPartition, marker: Marker, version: int) -> Any:
        result = append(partition, marker, version)
        if result.error is ErrorCode.none and version >= EPOCH_BUMPED_SINCE:
            judge(partition, marker)
        return result

    vars(handler)["_append"] = watched


def check_marker(
    partition: TopicPartition, node: int, marker: Marker, transactions: LogTransactions
) -> None:
    """Judge an appended marker by the transactions before it. Raises InvariantBroken."""
    epoch = transactions.open_epoch(marker.producer_id)
    if epoch is not None and epoch >= marker.producer_epoch:
        raise InvariantBroken(
            NAME,
            f"{partition}: node {node} appends a marker with epoch {marker.producer_epoch} of "
            f"producer {marker.producer_id}, whose transaction of epoch {epoch} is open",
        )
