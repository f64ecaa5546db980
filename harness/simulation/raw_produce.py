"""Sends a batch to a partition's leader as it is, right or wrong, once."""

from datetime import timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode

from harness.workloads.clients.own.cluster import Cluster
from harness.workloads.clients.own.connection import BrokerConnection
from harness.workloads.clients.own.coordinator import Unavailable
from nodes.wire.errors import ChannelError

REPLICATION_S: Final = 2.0
RETRIABLE: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.request_timed_out,
        ErrorCode.kafka_storage_error,
    }
)
"""Errors after which a valid batch is sent again."""


class RawProducer:
    """Asks the leader of one partition of the cluster's topic."""

    def __init__(self, cluster: Cluster, partition: int) -> None:
        self._cluster = cluster
        self.partition = partition

    async def produce(self, data: bytes) -> tuple[BrokerConnection, Any, Any]:
        """Send a batch with acks=all; return the connection, the answer and the partition's row of
        it. Raises Unavailable."""
        cluster = self._cluster
        rows = [{"index": self.partition, "records": data}]
        connection, answer = await self.ask(
            "produce",
            transactional_id=None,
            acks=-1,
            timeout=timedelta(seconds=REPLICATION_S),
            topic_data=[{"name": cluster.topic, "partition_data": rows}],
        )
        row = answer.responses[0].partition_responses[0]
        if row.error_code in RETRIABLE and not cluster.hint(self.partition, answer, row):
            cluster.refresh()
        return connection, answer, row

    async def judged(self, data: bytes) -> Any:
        """Send a batch; return the partition's row of an answer that is about the batch. Raises
        Unavailable, also if the broker could not look at it."""
        _, _, row = await self.produce(data)
        if row.error_code in RETRIABLE:
            raise Unavailable(row.error_code.name.upper())
        return row

    async def ask(self, api: str, **values: Any) -> tuple[BrokerConnection, Any]:
        """Send a request; return the connection and the answer. Raises Unavailable."""
        connection = self._connection()
        try:
            return connection, await connection.start(api, **values)
        except ChannelError as error:
            self._cluster.refresh()
            raise Unavailable(type(error).__name__) from error

    def _connection(self) -> BrokerConnection:
        leader = self._cluster.leader(self.partition)
        connection = None if leader is None else self._cluster.connection(leader.node)
        if connection is None:
            raise Unavailable("LEADER_NOT_AVAILABLE")
        return connection
