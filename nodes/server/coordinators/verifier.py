"""Asks a transaction's coordinator whether partitions belong to the transaction (KIP-890).

The leader of a partition asks before it appends the first batch of a transaction. With
transaction.version 2 the question also adds the partition, so that the client need not.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from nodes.coordinators.internal_topics import TRANSACTIONS_TOPIC
from nodes.coordinators.partitioning import partition_for
from nodes.ids import NO_NODE, NodeId, TopicPartition
from nodes.metadata.image import ClusterImage
from nodes.server.coordinators.brokers import BrokerLink
from nodes.wire.errors import ChannelError
from nodes.wire.versions import Draft

ADD_PARTITIONS_TO_TXN: Final = 24
VERSION: Final = 5

Errors = dict[TopicPartition, ErrorCode]


class Asked(Protocol):
    """What a producer wants to write to. `adds`: the partitions are added, not only looked for."""

    @property
    def transactional_id(self) -> str: ...

    @property
    def producer_id(self) -> int: ...

    @property
    def producer_epoch(self) -> int: ...

    @property
    def partitions(self) -> tuple[TopicPartition, ...]: ...

    @property
    def adds(self) -> bool: ...


class CoordinatorVerifier:
    """See the module."""

    def __init__(self, brokers: BrokerLink, image: Callable[[], ClusterImage]) -> None:
        self._brokers = brokers
        self._image = image

    async def verify(self, asked: Asked) -> Errors:
        """The error of each partition, as the coordinator says it.

        COORDINATOR_NOT_AVAILABLE if there is none, NETWORK_EXCEPTION if it does not answer.
        """
        node = self._coordinator(asked.transactional_id)
        if node is None:
            return dict.fromkeys(asked.partitions, ErrorCode.coordinator_not_available)
        schema = load_request_schema(ADD_PARTITIONS_TO_TXN, VERSION)
        try:
            response = await self._brokers.request(node, Draft(schema, _fields(asked)))
        except ChannelError:
            return dict.fromkeys(asked.partitions, ErrorCode.network_exception)
        if response.error_code is not ErrorCode.none:
            return dict.fromkeys(asked.partitions, response.error_code)
        found = {
            TopicPartition(topic.name, each.partition_index): each.partition_error_code
            for transaction in response.results_by_transaction
            for topic in transaction.topic_results
            for each in topic.results_by_partition
        }
        return {each: found.get(each, ErrorCode.unknown_server_error) for each in asked.partitions}

    def _coordinator(self, transactional_id: str) -> NodeId | None:
        topic = self._image().topic(TRANSACTIONS_TOPIC)
        if topic is None:
            return None
        leader = topic.partitions[partition_for(transactional_id, len(topic.partitions))].leader
        return None if leader == NO_NODE else leader


def _fields(asked: Asked) -> dict[str, Any]:
    transaction = {
        "transactional_id": asked.transactional_id,
        "producer_id": asked.producer_id,
        "producer_epoch": asked.producer_epoch,
        "verify_only": not asked.adds,
        "topics": _topics(asked.partitions),
    }
    return {"transactions": [transaction]}


def _topics(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return [{"name": topic, "partitions": numbers} for topic, numbers in by_topic.items()]
