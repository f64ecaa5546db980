"""Requests that describe the cluster from its metadata: brokers, topics, partitions."""

from collections.abc import Callable
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.config import NodeConfig
from nodes.controller.topics import check_name
from nodes.coordinators.internal_topics import INTERNAL_TOPICS
from nodes.ids import NO_NODE, NodeId
from nodes.metadata.errors import ControlError
from nodes.metadata.image import ClusterImage, PartitionImage, TopicImage
from nodes.server.replicas.manager import ReplicaManager
from nodes.server.requests.auto_topics import AutoTopicCreation
from nodes.wire.server import RequestContext
from nodes.wire.versions import respond

BROKER_ENDPOINTS, CONTROLLER_ENDPOINTS = 1, 2
_ENDPOINTS = {BROKER_ENDPOINTS: "BROKER", CONTROLLER_ENDPOINTS: "CONTROLLER"}

TOPIC_OPERATIONS = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))
"""The allowed operations on a topic and on the cluster as bits (KIP-430), by the codes of Kafka's
AclOperation. All are set, because there is no authorization here. If a request does not ask for
them, the field has its default, which means "not requested".
"""
BY_ID_SINCE = 12

Row = dict[str, Any]


class MetadataHandler:
    """Serves Metadata, DescribeCluster, DescribeTopicPartitions."""

    def __init__(
        self,
        config: NodeConfig,
        replicas: ReplicaManager,
        controller_id: Callable[[], NodeId | None],
        auto_topics: AutoTopicCreation,
    ) -> None:
        self._config = config
        self._replicas = replicas
        self._controller_id = controller_id
        self._auto_topics = auto_topics

    @property
    def _image(self) -> ClusterImage:
        return self._replicas.image

    def metadata(self, request: Any, context: RequestContext) -> Any:
        """Metadata: the brokers in service and the requested topics (all, if none are named)."""
        return respond(
            request,
            brokers=self._brokers(context.listener),
            cluster_id=self._config.cluster_id,
            controller_id=self._controller(context.listener),
            topics=self._topics(request, self._reachable(context.listener)),
            **authorized_operations(request),
        )

    def describe_cluster(self, request: Any, context: RequestContext) -> Any:
        """DescribeCluster: the id, controller and brokers; fenced ones too if requested."""
        refusal = wrong_endpoint_type(request, BROKER_ENDPOINTS)
        if refusal is not None:
            return refusal
        fenced = getattr(request, "include_fenced_brokers", False)
        return respond(
            request,
            cluster_id=self._config.cluster_id,
            controller_id=self._controller(context.listener),
            brokers=[
                {**row, "broker_id": row["node_id"]}
                for row in self._brokers(context.listener, fenced=fenced)
            ],
            **authorized_operations(request),
        )

    def _controller(self, listener: str) -> NodeId:
        """The node to which clients send requests for the controller.

        It is the active controller if that is a broker, else any broker. Clients look for the id
        among the brokers, and every broker forwards (KIP-590).
        """
        reachable = self._reachable(listener)
        leader = self._controller_id()
        return leader if leader in reachable else min(reachable, default=NO_NODE)

    def _brokers(self, listener: str, *, fenced: bool = False) -> list[Row]:
        return [
            {
                "node_id": node,
                "host": endpoint.host,
                "port": endpoint.port,
                "rack": broker.rack,
                "is_fenced": broker.fenced,
            }
            for node, broker in sorted(self._image.brokers.items())
            if (endpoint := broker.endpoint(listener)) is not None and (fenced or not broker.fenced)
        ]

    def _reachable(self, listener: str) -> frozenset[NodeId]:
        """The brokers in service that clients of `listener` can reach."""
        return frozenset(
            node
            for node, broker in self._image.brokers.items()
            if not broker.fenced and broker.endpoint(listener) is not None
        )

    def _topics(self, request: Any, reachable: frozenset[NodeId]) -> list[Row]:
        requested = request.topics
        operations = _operations(
            request, "include_topic_authorized_operations", "topic", TOPIC_OPERATIONS
        )
        if requested is None or (request.__version__ == 0 and not requested):  # all topics
            topics = self._image.topics.values()
            return [self._topic(topic, reachable, operations) for topic in topics]
        may_create = getattr(request, "allow_auto_topic_creation", True)
        rows = []
        for item in requested:
            topic_id = getattr(item, "topic_id", None)
            if request.__version__ < BY_ID_SINCE and (topic_id is not None or item.name is None):
                # Versions 10 and 11 have a topic id, but may not ask by it, as in Kafka.
                rows.append({"error_code": ErrorCode.invalid_request, "name": item.name or ""})
                continue
            topic = (
                self._image.topics.get(topic_id)
                if topic_id is not None
                else self._image.topic(item.name)
            )
            if topic is not None:
                rows.append(self._topic(topic, reachable, operations))
            elif topic_id is not None:
                rows.append({"error_code": ErrorCode.unknown_topic_id, "topic_id": topic_id})
            else:
                error = self._auto_topics.missing(item.name, may_create=may_create)
                rows.append({"error_code": error, "name": item.name})
        return rows

    def _topic(self, topic: TopicImage, reachable: frozenset[NodeId], operations: Row) -> Row:
        return {
            **operations,
            "name": topic.name,
            "topic_id": topic.topic_id,
            "is_internal": topic.name in INTERNAL_TOPICS,
            "partitions": [
                self._partition(number, partition, reachable)
                for number, partition in sorted(topic.partitions.items())
            ],
        }

    def _partition(
        self, number: int, partition: PartitionImage, reachable: frozenset[NodeId]
    ) -> Row:
        row = self._replica_fields(number, partition, reachable)
        has_leader = row["leader_id"] != NO_NODE
        return row | {
            "error_code": ErrorCode.none if has_leader else ErrorCode.leader_not_available
        }

    @staticmethod
    def _replica_fields(
        number: int, partition: PartitionImage, reachable: frozenset[NodeId]
    ) -> Row:
        has_leader = partition.leader in reachable
        return {
            "partition_index": number,
            "leader_id": partition.leader if has_leader else NO_NODE,
            "leader_epoch": partition.leader_epoch,
            "replica_nodes": partition.replicas,
            "isr_nodes": partition.isr,
            "offline_replicas": tuple(node for node in partition.replicas if node not in reachable),
        }

    # -- pages of topics -----------------------------------------------------------------------

    def describe_topic_partitions(self, request: Any, context: RequestContext) -> Any:
        """DescribeTopicPartitions: topics by name, with eligible leader replicas (KIP-966).

        A page has at most as many partitions as the request and `max.request.partition.size.limit`
        allow; the cursor says where the next page begins.
        """
        cursor = request.cursor
        first = "" if cursor is None else cursor.topic_name
        requested = [topic.name for topic in request.topics]
        names = sorted(n for n in dict.fromkeys(requested or self._image.topic_ids) if n >= first)
        bad_topic = bool(requested) and first not in names
        if cursor is not None and (cursor.partition_index < 0 or bad_topic):
            error = ErrorCode.invalid_request
            return respond(request, topics=[{"name": n, "error_code": error} for n in requested])
        limit = min(
            request.response_partition_limit, self._config.administration.max_request_partitions
        )
        left = max(1, limit)
        rows: list[Row] = []
        for name in names:
            if left == 0:
                return respond(request, topics=rows, next_cursor=_cursor(name, 0))
            start = cursor.partition_index if cursor is not None and name == first else 0
            topic = self._image.topic(name)
            if topic is None:
                if requested:
                    rows.append({"name": name, "error_code": _unknown_topic_error(name)})
                continue
            page = sorted(topic.partitions)[start : start + left]
            rows.append(self._described(topic, page, self._reachable(context.listener)))
            left -= len(page)
            if start + len(page) < len(topic.partitions):
                return respond(request, topics=rows, next_cursor=_cursor(name, start + len(page)))
        return respond(request, topics=rows)

    def _described(self, topic: TopicImage, page: list[int], reachable: frozenset[NodeId]) -> Row:
        partitions = [
            self._replica_fields(number, topic.partitions[number], reachable)
            | {
                "eligible_leader_replicas": topic.partitions[number].elr,
                "last_known_elr": topic.partitions[number].last_known_elr,
            }
            for number in page
        ]
        return {
            "name": topic.name,
            "topic_id": topic.topic_id,
            "is_internal": topic.name in INTERNAL_TOPICS,
            "partitions": partitions,
            "topic_authorized_operations": TOPIC_OPERATIONS,
        }


def wrong_endpoint_type(request: Any, served: int) -> Any | None:
    """Return the refusal of a DescribeCluster for endpoints that are not `served` here, or None."""
    requested = getattr(request, "endpoint_type", BROKER_ENDPOINTS)
    if requested == served:
        return None
    if requested in _ENDPOINTS:
        error = ErrorCode.mismatched_endpoint_type
        message = (
            f"The request was sent to an endpoint of type {_ENDPOINTS[served]}, but we wanted an "
            f"endpoint of type {_ENDPOINTS[requested]}"
        )
    else:
        error = ErrorCode.unsupported_endpoint_type
        message = f"Unsupported endpoint type {requested}"
    if request.__version__ == 0:
        error = ErrorCode.invalid_request  # version 0 has no types, and asks for brokers
    return respond(request, error_code=error, error_message=message, cluster_id="")


def authorized_operations(request: Any) -> Row:
    """The field with the allowed operations on the cluster, if `request` asks for it."""
    return _operations(
        request, "include_cluster_authorized_operations", "cluster", CLUSTER_OPERATIONS
    )


def _operations(request: Any, include: str, resource: str, operations: int) -> Row:
    if not getattr(request, include, False):
        return {}
    return {f"{resource}_authorized_operations": operations}


def _cursor(topic: str, partition: int) -> Row:
    return {"topic_name": topic, "partition_index": partition}


def _unknown_topic_error(name: str) -> ErrorCode:
    try:
        check_name(name)
    except ControlError as error:
        return error.code
    return ErrorCode.unknown_topic_or_partition
