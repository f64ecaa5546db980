"""Requests that only look: cluster metadata and positions in logs."""

from collections.abc import Callable
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from nodes.config import NodeConfig
from nodes.control.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from nodes.ids import NO_EPOCH, NO_NODE, NO_OFFSET, NodeId, Offset, TopicPartition
from nodes.replication.partition import Role
from nodes.server.replica import Replica
from nodes.server.replicas import ReplicaManager
from nodes.wire.server import RequestContext
from nodes.wire.versions import respond

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
OFFSET_NOT_AVAILABLE_SINCE = 5
BROKER_ENDPOINTS = 1
CONSUMER = -1


class Position(NamedTuple):
    """An answer to ListOffsets."""

    error: ErrorCode
    offset: Offset = NO_OFFSET
    timestamp_ms: int = -1
    leader_epoch: int = NO_EPOCH


class Queries:
    """Serves Metadata, DescribeCluster, ListOffsets, OffsetForLeaderEpoch, FindCoordinator."""

    def __init__(
        self,
        config: NodeConfig,
        replicas: ReplicaManager,
        controller_id: Callable[[], NodeId | None],
    ) -> None:
        self._config = config
        self._replicas = replicas
        self._controller_id = controller_id

    @property
    def _image(self) -> ClusterImage:
        return self._replicas.image

    # -- the cluster ---------------------------------------------------------------------------

    def metadata(self, request: Any, context: RequestContext) -> Any:
        """Brokers in service and the topics asked for (all, when none are named)."""
        leader = self._controller_id()
        return respond(
            request,
            brokers=self._brokers(context.listener),
            cluster_id=self._config.cluster_id,
            controller_id=NO_NODE if leader is None else leader,
            topics=self._topics(request, context.listener),
        )

    def describe_cluster(self, request: Any, context: RequestContext) -> Any:
        """The cluster's id, controller and brokers."""
        leader = self._controller_id()
        if getattr(request, "endpoint_type", BROKER_ENDPOINTS) != BROKER_ENDPOINTS:
            return respond(request, error_code=ErrorCode.unsupported_endpoint_type, cluster_id="")
        brokers = [{**b, "broker_id": b["node_id"]} for b in self._brokers(context.listener)]
        return respond(
            request,
            cluster_id=self._config.cluster_id,
            controller_id=NO_NODE if leader is None else leader,
            brokers=brokers,
        )

    def _brokers(self, listener: str) -> list[dict[str, Any]]:
        rows = []
        for node, broker in sorted(self._image.brokers.items()):
            endpoint = self._reachable(broker, listener)
            if endpoint is not None:
                host, port = endpoint
                rows.append({"node_id": node, "host": host, "port": port, "rack": broker.rack})
        return rows

    @staticmethod
    def _reachable(broker: BrokerImage, listener: str) -> tuple[str, int] | None:
        endpoint = broker.endpoint(listener)
        return None if broker.fenced or endpoint is None else (endpoint.host, endpoint.port)

    def _topics(self, request: Any, listener: str) -> list[dict[str, Any]]:
        wanted = request.topics
        asks_for_all = wanted is None or (request.__version__ == 0 and not wanted)
        if asks_for_all:
            return [self._topic(topic, listener) for topic in self._image.topics.values()]
        rows = []
        for item in wanted:
            topic_id = getattr(item, "topic_id", None)
            topic = (
                self._image.topics.get(topic_id)
                if topic_id is not None
                else self._image.topic(item.name)
            )
            if topic is not None:
                rows.append(self._topic(topic, listener))
            elif topic_id is not None:
                rows.append({"error_code": ErrorCode.unknown_topic_id, "topic_id": topic_id})
            else:
                error = ErrorCode.unknown_topic_or_partition
                rows.append({"error_code": error, "name": item.name})
        return rows

    def _topic(self, topic: TopicImage, listener: str) -> dict[str, Any]:
        return {
            "name": topic.name,
            "topic_id": topic.topic_id,
            "partitions": [
                self._partition(number, partition, listener)
                for number, partition in sorted(topic.partitions.items())
            ],
        }

    def _partition(self, number: int, partition: PartitionImage, listener: str) -> dict[str, Any]:
        leader = self._image.brokers.get(partition.leader)
        led = leader is not None and self._reachable(leader, listener) is not None
        return {
            "error_code": ErrorCode.none if led else ErrorCode.leader_not_available,
            "partition_index": number,
            "leader_id": partition.leader if led else NO_NODE,
            "leader_epoch": partition.leader_epoch,
            "replica_nodes": partition.replicas,
            "isr_nodes": partition.isr,
            "offline_replicas": tuple(
                node
                for node in partition.replicas
                if (broker := self._image.brokers.get(node)) is None or broker.fenced
            ),
        }

    def find_coordinator(self, request: Any, context: RequestContext) -> Any:
        """No group or transaction coordinator exists yet: not available, which clients retry."""
        error = ErrorCode.coordinator_not_available
        message = "this cluster has no group or transaction coordinator"
        nobody = {"node_id": NO_NODE, "host": "", "port": -1}
        keys = getattr(request, "coordinator_keys", None)
        if keys is None:
            return respond(request, error_code=error, error_message=message, **nobody)
        rows = [{"key": key, "error_code": error, "error_message": message} for key in keys]
        return respond(request, coordinators=[{**row, **nobody} for row in rows])

    # -- positions -----------------------------------------------------------------------------

    def list_offsets(self, request: Any, context: RequestContext) -> Any:
        """Offsets by time; LATEST is the high watermark to clients, the log end to brokers."""
        topics = []
        for topic in request.topics:
            rows = []
            for part in topic.partitions:
                partition = TopicPartition(topic.name, part.partition_index)
                position = self._position(request, partition, part)
                rows.append(
                    {
                        "partition_index": part.partition_index,
                        "error_code": position.error,
                        "timestamp": position.timestamp_ms,
                        "offset": position.offset,
                        "leader_epoch": position.leader_epoch,
                    }
                )
            topics.append({"name": topic.name, "partitions": rows})
        return respond(request, topics=topics)

    def _position(self, request: Any, partition: TopicPartition, part: Any) -> Position:
        replica = self._replicas.find(partition)
        if replica is None:
            return Position(self._replicas.why_not_here(partition))
        error = leadership_error(replica, getattr(part, "current_leader_epoch", NO_EPOCH))
        if error is not ErrorCode.none:
            return Position(error)
        epoch = replica.state.leader_epoch
        if part.timestamp == EARLIEST:
            return Position(ErrorCode.none, replica.log.start_offset, -1, epoch)
        if part.timestamp == LATEST and request.replica_id != CONSUMER:
            return Position(ErrorCode.none, replica.log.end_offset, -1, epoch)
        if replica.state.high_watermark < replica.state.epoch_start:
            # A new leader may not know yet how far its predecessor had committed (KIP-207).
            modern = request.__version__ >= OFFSET_NOT_AVAILABLE_SINCE
            return Position(
                ErrorCode.offset_not_available if modern else ErrorCode.leader_not_available
            )
        if part.timestamp == LATEST:
            return Position(ErrorCode.none, replica.state.high_watermark, -1, epoch)
        return self._by_time(replica, part.timestamp)

    @staticmethod
    def _by_time(replica: Replica, timestamp_ms: int) -> Position:
        found = (
            replica.log.max_timestamp()
            if timestamp_ms == MAX_TIMESTAMP
            else replica.log.offset_for_timestamp(timestamp_ms)
        )
        if found is None or not 0 <= found[0] < replica.state.high_watermark:
            return Position(ErrorCode.none)
        offset, at_ms = found
        return Position(ErrorCode.none, offset, at_ms, replica.state.leader_epoch)

    def offset_for_leader_epoch(self, request: Any, context: RequestContext) -> Any:
        """Where leader epochs end: how followers and consumers find a truncation (KIP-320)."""
        topics = []
        for topic in request.topics:
            rows = [self._epoch_end(topic.topic, part) for part in topic.partitions]
            topics.append({"topic": topic.topic, "partitions": rows})
        return respond(request, topics=topics)

    def _epoch_end(self, topic: str, part: Any) -> dict[str, Any]:
        partition = TopicPartition(topic, part.partition)
        row: dict[str, Any] = {"partition": part.partition}
        replica = self._replicas.find(partition)
        if replica is None:
            return {**row, "error_code": self._replicas.why_not_here(partition)}
        error = leadership_error(replica, getattr(part, "current_leader_epoch", NO_EPOCH))
        if error is not ErrorCode.none:
            return {**row, "error_code": error}
        epoch, end = replica.log.end_offset_for_epoch(part.leader_epoch)
        return {**row, "leader_epoch": epoch, "end_offset": end}


def leadership_error(replica: Replica, epoch: int, *, leader_only: bool = True) -> ErrorCode:
    """Whether this node may answer, in the epoch that the asker believes (-1: it believes nothing).

    The leader may; without `leader_only`, so may any replica with a place in the assignment.
    """
    state = replica.state
    if epoch > state.leader_epoch:
        return ErrorCode.unknown_leader_epoch
    if 0 <= epoch < state.leader_epoch:
        return ErrorCode.fenced_leader_epoch
    serves = state.role is Role.LEADER or not (leader_only or state.leader_epoch < 0)
    return ErrorCode.none if serves else ErrorCode.not_leader_or_follower
