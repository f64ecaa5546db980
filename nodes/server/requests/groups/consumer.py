"""The consumer protocol of groups (KIP-848): ConsumerGroupHeartbeat and ConsumerGroupDescribe.

Both are refused while the feature group.version is 0, as in Kafka. They are always advertised:
librdkafka would wait for ever for an api that is not.
"""

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.consumer.assignors.spec import Assignment
from nodes.coordinators.groups.consumer.requests import Heartbeat
from nodes.coordinators.groups.coordinator import GroupCoordinator
from nodes.coordinators.machine import Answer
from nodes.metadata.image import ClusterImage
from nodes.metadata.records import GROUP_VERSION_FEATURE
from nodes.server.coordinators.errors import CoordinatorError
from nodes.server.coordinators.shard import Access
from nodes.server.coordinators.shards import Shards
from nodes.server.requests.groups.classic import GROUP_OPERATIONS, client_of, protocol_error
from nodes.server.requests.groups.many import side_by_side
from nodes.wire.server import RequestContext
from nodes.wire.versions import respond

_MS = timedelta(milliseconds=1)


class ConsumerGroupHandler:
    """Serves the requests of the consumer protocol."""

    def __init__(self, shards: Shards[GroupCoordinator], image: Callable[[], ClusterImage]) -> None:
        self._shards = shards
        self._image = image

    async def heartbeat(self, request: Any, context: RequestContext) -> Any:
        """ConsumerGroupHeartbeat."""
        if not self._enabled:
            return respond(request, error_code=ErrorCode.unsupported_version)
        heartbeat = _heartbeat(request, context)
        try:
            answer = await self._shards.perform(
                request.group_id,
                lambda m, token, now: m.consumer_heartbeat(heartbeat, token, now),
            )
        except CoordinatorError as error:
            return respond(request, error_code=protocol_error(error))
        return respond(request, **answer)

    async def describe(self, request: Any, context: RequestContext) -> Any:
        """ConsumerGroupDescribe: each group by itself."""
        rows = await side_by_side(self._describe(group_id) for group_id in request.group_ids)
        if request.include_authorized_operations:
            rows = [{**row, "authorized_operations": GROUP_OPERATIONS} for row in rows]
        return respond(request, groups=rows)

    async def _describe(self, group_id: str) -> Answer:
        if not self._enabled:
            return {"group_id": group_id, "error_code": ErrorCode.unsupported_version}
        try:
            return await self._shards.perform(
                group_id,
                lambda coordinator, token, now: coordinator.consumer_describe(group_id, token, now),
                Access.READ,
            )
        except CoordinatorError as error:
            return {"group_id": group_id, "error_code": error.code}

    @property
    def _enabled(self) -> bool:
        return self._image().features.get(GROUP_VERSION_FEATURE, 0) > 0


def _heartbeat(request: Any, context: RequestContext) -> Heartbeat:
    client = client_of(context)
    owned = request.topic_partitions
    names = request.subscribed_topic_names
    return Heartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=int(request.rebalance_timeout / _MS),
        topic_names=None if names is None else tuple(names),
        topic_regex=getattr(request, "subscribed_topic_regex", None),
        assignor=request.server_assignor,
        owned=None if owned is None else _owned(owned),
        client_id=client.id,
        client_host=client.host,
        version=request.__version__,
    )


def _owned(topics: Iterable[Any]) -> Assignment:
    """The partitions by topic id, also if a topic is named twice; kio reads the zero id as None."""
    owned: dict[UUID, frozenset[int]] = {}
    for each in topics:
        topic_id = each.topic_id or UUID(int=0)
        owned[topic_id] = owned.get(topic_id, frozenset()) | frozenset(each.partitions)
    return owned
