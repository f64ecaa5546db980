"""GetReplicaLogInfo: a controller that has to elect a leader asks where this broker's logs end.

Every replica responds, whatever its role. The response also has the leader epoch that the replica
knows: from then on its log does not change before a leader of a later epoch exists.
"""

from itertools import islice
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.ids import NO_EPOCH, NO_OFFSET, Epoch, TopicPartition
from nodes.log.log import Log
from nodes.server.control_plane import Registration
from nodes.server.replicas.manager import ReplicaManager
from nodes.wire.replica_log_info import MAX_PARTITIONS
from nodes.wire.server import RequestContext
from nodes.wire.versions import respond


class ReplicaLogInfoHandler:
    """Serves GetReplicaLogInfo."""

    def __init__(self, replicas: ReplicaManager, registration: Registration) -> None:
        self._replicas = replicas
        self._registration = registration

    def handle(self, request: Any, context: RequestContext) -> Any:
        """Return the end of each log, for the first MAX_PARTITIONS partitions of the request."""
        requested = request.topic_partitions or ()
        partitions = ((topic.topic_id, n) for topic in requested for n in topic.partitions)
        topics: dict[UUID | None, list[dict[str, Any]]] = {}
        for topic_id, number in islice(partitions, MAX_PARTITIONS):
            topics.setdefault(topic_id, []).append(self._row(topic_id, number))
        return respond(
            request,
            broker_epoch=self._registration.broker_epoch,
            truncated=sum(len(topic.partitions) for topic in requested) > MAX_PARTITIONS,
            topic_partition_log_info_list=[
                {"topic_id": topic_id, "partition_log_info": rows}
                for topic_id, rows in topics.items()
            ],
        )

    def _row(self, topic_id: UUID | None, number: int) -> dict[str, Any]:
        name = self._replicas.topic_name(topic_id)
        if name is None:
            return _unknown(number, ErrorCode.unknown_topic_id)
        partition = TopicPartition(name, number)
        replica = self._replicas.find(partition)
        if replica is None or replica.topic_id != topic_id:
            return _unknown(number, self._replicas.missing_replica_error(partition))
        if replica.log.offline:
            return _unknown(number, ErrorCode.kafka_storage_error)
        return {
            "partition": number,
            "last_written_leader_epoch": _last_written(replica.log),
            "current_leader_epoch": replica.state.leader_epoch,
            "log_end_offset": replica.log.end_offset,
        }


def _last_written(log: Log) -> Epoch:
    """The epoch of the last record, even if retention has removed all records since."""
    emptied = log.epochs and log.end_offset == log.start_offset > 0
    return log.epochs[-1][0] if emptied else log.last_epoch


def _unknown(number: int, error: ErrorCode) -> dict[str, Any]:
    return {
        "partition": number,
        "last_written_leader_epoch": NO_EPOCH,
        "current_leader_epoch": NO_EPOCH,
        "log_end_offset": NO_OFFSET,
        "error_code": error,
    }
