"""Waits for a transaction that is being ended: its producer may already ask for the next one.

The end is answered before the markers are written (`markers`), a few milliseconds earlier. A
request that comes in between would be refused with CONCURRENT_TRANSACTIONS, and its sender, a
broker or a client, would pause for longer than the markers take. So it waits here instead, for a
short time: responses are sent in order, and those of other transactions wait behind it.
"""

import asyncio
from typing import Final

from nodes.coordinators.transactions.coordinator import TransactionCoordinator
from nodes.coordinators.transactions.state import PREPARED
from nodes.server.coordinators.errors import CoordinatorError
from nodes.server.coordinators.shards import Shards

WAIT_S: Final = 0.02
"""As long as Kafka's brokers pause: add.partitions.to.txn.retry.backoff.ms."""


class Completions:
    """See the module."""

    def __init__(self, shards: Shards[TransactionCoordinator]) -> None:
        self._shards = shards
        self._waiting: dict[str, dict[asyncio.Future[None], None]] = {}  # in order of arrival

    def completed(self, transactional_id: str) -> None:
        """The coordinator has written that the transaction is complete."""
        for future in self._waiting.pop(transactional_id, ()):
            if not future.done():
                future.set_result(None)

    async def wait(self, transactional_id: str) -> None:
        """Return when no transaction of the id is being ended, or after WAIT_S.

        Returns at once if this broker does not coordinate the id.
        """
        try:
            shard = self._shards.find(transactional_id)
        except CoordinatorError:
            return
        known = shard.machine.transactions.get(transactional_id)
        if known is None or known.state not in PREPARED:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(transactional_id, {})
        waiting[future] = None
        try:
            await asyncio.wait([future], timeout=WAIT_S)
        finally:
            waiting.pop(future)
            if not waiting and self._waiting.get(transactional_id) is waiting:
                del self._waiting[transactional_id]
