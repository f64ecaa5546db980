"""Requests that look at the cluster as its metadata describes it: brokers, topics, partitions."""

from collections.abc import Callable
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.config import NodeConfig
from nodes.controller.topics import check_name
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
"""Bits of what may be done to a topic and to the cluster (KIP-430), by the codes of Kafka's
AclOperation: everything, since whoever is connected may do everything here. Where nobody asks, a
field's default stands, which says so.
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
        """Brokers in service and the topics asked for (all, when none are named)."""
        return respond(
            request,
            brokers=self._brokers(context.listener),
            cluster_id=self._config.cluster_id,
            controller_id=self._controller(context.listener),
            topics=self._topics(request, self._reachable(context.listener)),
            **authorized_operations(request),
        )

    def describe_cluster(self, request: Any, context: RequestContext) -> Any:
        """The cluster's id, controller and brokers; the fenced ones too when asked for."""
        refusal = refuse_endpoints(request, BROKER_ENDPOINTS)
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
        """Whom to send what a controller decides: the active one where it is a broker, else any.

        Clients look the id up among the brokers, and every broker forwards (KIP-590).
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
        wanted = request.topics
        told = _operations(
            request, "include_topic_authorized_operations", "topic", TOPIC_OPERATIONS
        )
        asks_for_all = wanted is None or (request.__version__ == 0 and not wanted)
        if asks_for_all:
            return [self._topic(topic, reachable, told) for topic in self._image.topics.values()]
        may_create = getattr(request, "allow_auto_topic_creation", True)
        rows = []
        for item in wanted:
            topic_id = getattr(item, "topic_id", None)
            if request.__version__ < BY_ID_SINCE and (topic_id is not None or item.name is None):
                # Versions 10 and 11 have topic ids that may not be asked for, as in Kafka.
                rows.append({"error_code": ErrorCode.invalid_request, "name": item.name or ""})
                continue
            topic = (
                self._image.topics.get(topic_id)
                if topic_id is not None
                else self._image.topic(item.name)
            )
            if topic is not None:
                rows.append(self._topic(topic, reachable, told))
            elif topic_id is not None:
                rows.append({"error_code": ErrorCode.unknown_topic_id, "topic_id": topic_id})
            else:
                error = self._auto_topics.missing(item.name, may_create=may_create)
                rows.append({"error_code": error, "name": item.name})
        return rows

    def _topic(self, topic: TopicImage, reachable: frozenset[NodeId], told: Row) -> Row:
        return {
            **told,
            "name": topic.name,
            "topic_id": topic.topic_id,
            "partitions": [
                self._partition(number, partition, reachable)
                for number, partition in sorted(topic.partitions.items())
            ],
        }

    def _partition(
        self, number: int, partition: PartitionImage, reachable: frozenset[NodeId]
    ) -> Row:
        row = self._located(number, partition, reachable)
        led = row["leader_id"] != NO_NODE
        return row | {"error_code": ErrorCode.none if led else ErrorCode.leader_not_available}

    @staticmethod
    def _located(number: int, partition: PartitionImage, reachable: frozenset[NodeId]) -> Row:
        led = partition.leader in reachable
        return {
            "partition_index": number,
            "leader_id": partition.leader if led else NO_NODE,
            "leader_epoch": partition.leader_epoch,
            "replica_nodes": partition.replicas,
            "isr_nodes": partition.isr,
            "offline_replicas": tuple(node for node in partition.replicas if node not in reachable),
        }

    # -- pages of topics -----------------------------------------------------------------------

    def describe_topic_partitions(self, request: Any, context: RequestContext) -> Any:
        """Topics in order of name with their partitions, eligible leaders included (KIP-966).

        At most so many partitions as the request and `max.request.partition.size.limit` allow; the
        cursor says where the next page begins.
        """
        cursor = request.cursor
        first = "" if cursor is None else cursor.topic_name
        asked = [topic.name for topic in request.topics]
        names = sorted(n for n in dict.fromkeys(asked or self._image.topic_ids) if n >= first)
        if cursor is not None and (cursor.partition_index < 0 or (asked and first not in names)):
            error = ErrorCode.invalid_request
            return respond(request, topics=[{"name": n, "error_code": error} for n in asked])
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
                if asked:
                    rows.append({"name": name, "error_code": _why_unknown(name)})
                continue
            page = sorted(topic.partitions)[start : start + left]
            rows.append(self._described(topic, page, self._reachable(context.listener)))
            left -= len(page)
            if start + len(page) < len(topic.partitions):
                return respond(request, topics=rows, next_cursor=_cursor(name, start + len(page)))
        return respond(request, topics=rows)

    def _described(self, topic: TopicImage, page: list[int], reachable: frozenset[NodeId]) -> Row:
        partitions = [
            self._located(number, topic.partitions[number], reachable)
            | {
                "eligible_leader_replicas": topic.partitions[number].elr,
                "last_known_elr": topic.partitions[number].last_known_elr,
            }
            for number in page
        ]
        return {
            "name": topic.name,
            "topic_id": topic.topic_id,
            "partitions": partitions,
            "topic_authorized_operations": TOPIC_OPERATIONS,
        }


def refuse_endpoints(request: Any, served: int) -> Any | None:
    """The refusal of a DescribeCluster that wants others than are `served` here; None if not so."""
    wanted = getattr(request, "endpoint_type", BROKER_ENDPOINTS)
    if wanted == served:
        return None
    if wanted in _ENDPOINTS:
        error = ErrorCode.mismatched_endpoint_type
        message = (
            f"The request was sent to an endpoint of type {_ENDPOINTS[served]}, but we wanted an "
            f"endpoint of type {_ENDPOINTS[wanted]}"
        )
    else:
        error = ErrorCode.unsupported_endpoint_type
        message = f"Unsupported endpoint type {wanted}"
    if request.__version__ == 0:
        error = ErrorCode.invalid_request  # it has no types, and asks for brokers
    return respond(request, error_code=error, error_message=message, cluster_id="")


def authorized_operations(request: Any) -> Row:
    """The field that tells what may be done to the cluster, if `request` asks for it."""
    return _operations(
        request, "include_cluster_authorized_operations", "cluster", CLUSTER_OPERATIONS
    )


def _operations(request: Any, asked: str, whose: str, operations: int) -> Row:
    return {f"{whose}_authorized_operations": operations} if getattr(request, asked, False) else {}


def _cursor(topic: str, partition: int) -> Row:
    return {"topic_name": topic, "partition_index": partition}


def _why_unknown(name: str) -> ErrorCode:
    try:
        check_name(name)
    except ControlError as error:
        return error.code
    return ErrorCode.unknown_topic_or_partition
