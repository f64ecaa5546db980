"""A transactional producer of raw requests, which finds its coordinator and asks again."""

from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.coordinators.machine import ProducerStamp
from nodes.server.apis import (
    ADD_PARTITIONS_TO_TXN,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_TRANSACTIONS,
)
from tests.support.nodes.cluster import Cluster, eventually

WAITS = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.concurrent_transactions,
    }
)


class TransactionalProducer:
    """Requests of one transactional id. `latest`: with the versions of transaction.version 2."""

    def __init__(self, cluster: Cluster, name: str, *, latest: bool = True) -> None:
        self._cluster = cluster
        self.name = name
        self._latest = latest
        self.stamp = ProducerStamp(-1, -1)

    async def coordinator(self) -> int:
        """The node that coordinates, once there is one."""
        found: list[int] = []

        async def known() -> bool:
            running = [n for n, node in self._cluster.nodes.items() if node is not None]
            answer = await self._cluster.ask(
                running[0], FIND_COORDINATOR, 4, key_type=1, coordinator_keys=[self.name]
            )
            (row,) = answer.coordinators
            found[:] = [row.node_id]
            return row.error_code is ErrorCode.none and row.node_id in running

        await eventually(known)
        return found[0]

    async def ask(self, api: int, version: int, **values: Any) -> Any:
        """Ask the coordinator until it does not say "later"."""
        answers: list[Any] = []

        async def served() -> bool:
            node = await self.coordinator()
            answers[:] = [await self._cluster.ask(node, api, version, **values)]
            return _error(answers[0]) not in WAITS

        await eventually(served)
        return answers[0]

    async def init(self, timeout_ms: int = 60_000) -> ErrorCode:
        """InitProducerId as a new process."""
        answer = await self.ask(
            INIT_PRODUCER_ID,
            4,
            transactional_id=self.name,
            transaction_timeout=timedelta(milliseconds=timeout_ms),
        )
        self.stamp = ProducerStamp(answer.producer_id, answer.producer_epoch)
        return _error(answer)

    async def add(self, topic: str, *partitions: int) -> ErrorCode:
        """AddPartitionsToTxn of a client."""
        answer = await self.ask(
            ADD_PARTITIONS_TO_TXN,
            3,
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.stamp.producer_id,
            v3_and_below_producer_epoch=self.stamp.epoch,
            v3_and_below_topics=[{"name": topic, "partitions": partitions}],
        )
        return _error(answer)

    async def end(self, *, commit: bool) -> ErrorCode:
        """EndTxn."""
        answer = await self.ask(
            END_TXN,
            5 if self._latest else 3,
            transactional_id=self.name,
            producer_id=self.stamp.producer_id,
            producer_epoch=self.stamp.epoch,
            committed=commit,
        )
        if self._latest and _error(answer) is ErrorCode.none:
            self.stamp = ProducerStamp(answer.producer_id, answer.producer_epoch)
        return _error(answer)

    async def state(self) -> str:
        """The state, as administrators see it."""
        answer = await self.ask(DESCRIBE_TRANSACTIONS, 0, transactional_ids=[self.name])
        return str(answer.transaction_states[0].transaction_state)

    async def listed(self, *states: str) -> list[str]:
        """The transactional ids of its coordinator in these states."""
        answer = await self.ask(LIST_TRANSACTIONS, 0, state_filters=states, producer_id_filters=())
        return [row.transactional_id for row in answer.transaction_states]


def _error(answer: Any) -> ErrorCode:
    """The first error of an answer of one of these apis."""
    if hasattr(answer, "results_by_topic_v3_and_below"):
        (topic,) = answer.results_by_topic_v3_and_below
        return ErrorCode(topic.results_by_partition[0].partition_error_code)
    if hasattr(answer, "transaction_states") and not hasattr(answer, "error_code"):
        return ErrorCode(answer.transaction_states[0].error_code)
    return ErrorCode(answer.error_code)
