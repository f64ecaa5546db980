"""What the cleaner must know of transactions: whose batches are aborted, and which markers may go.

The records of an aborted transaction are removed, whatever their keys. A marker stays as long as a
batch of its transaction is in the log: without it a consumer would take an aborted batch as
committed, or wait for the end of the transaction. It then stays for delete.retention.ms more
(KIP-534), because a consumer may have read the batches before they were removed.

The cleaner reads the log from its beginning and calls this class for every batch in order (Kafka's
CleanedTransactionMetadata). Pure.
"""

from collections.abc import Iterable
from heapq import heappop, heappush

from nodes.ids import Offset
from nodes.log.batch import BatchHeader
from nodes.log.transactions.aborted_index import AbortedTransaction
from nodes.log.transactions.markers import Marker


class CleanedTransactions:
    """The transactions that are open at the batch that is read."""

    def __init__(self) -> None:
        self.retained: list[AbortedTransaction] = []
        """The aborted transactions of which batches and marker stay; the caller empties the list
        for each new segment.
        """
        self._coming: list[tuple[Offset, int, AbortedTransaction]] = []
        self._added = 0
        self._aborted: dict[int, AbortedTransaction] = {}
        self._seen: set[int] = set()
        """The producers of open aborted transactions of which a batch was read."""
        self._committed: set[int] = set()
        """The producers of open committed transactions of which a batch was read."""

    def add(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Add the aborted transactions with offsets in the next segment."""
        for each in aborted:
            self._added += 1
            heappush(self._coming, (each.first_offset, self._added, each))

    def read_batch(self, header: BatchHeader) -> bool:
        """A batch of records is read; true if it is aborted and so may be discarded."""
        if self._coming:
            self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._seen.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def read_marker(self, header: BatchHeader, marker: Marker | None) -> bool:
        """A control batch is read, with its marker (None if that was removed already); true if no
        batch of its transaction is left, so that the marker may be discarded.

        Without its record it still ends the transaction, of which a replica that lagged may have
        batches (`nodes.log.transactions.markers`).
        """
        self._begin_up_to(header.last_offset)
        if marker is None:
            if header.record_count:
                return False
            self._aborted.pop(header.producer_id, None)
            self._seen.discard(header.producer_id)
            self._committed.discard(header.producer_id)
            return True
        if marker.committed:
            known = marker.producer_id in self._committed
            self._committed.discard(marker.producer_id)
            return not known
        transaction = self._aborted.pop(marker.producer_id, None)
        if transaction is None or marker.producer_id not in self._seen:
            return True
        self._seen.discard(marker.producer_id)
        self.retained.append(transaction)
        return False

    def _begin_up_to(self, offset: Offset) -> None:
        while self._coming and self._coming[0][0] <= offset:
            _, _, transaction = heappop(self._coming)
            self._aborted.setdefault(transaction.producer_id, transaction)
