"""Serves what the controller sends to a broker: LeaderAndIsr, UpdateMetadata, StopReplica.

Requests become records (`nodes.zookeeper.broker_view`), these an image, and the broker follows the
image. Requests are applied one after another, in the order in which they came.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.controller.settings import ControlSettings
from nodes.ids import BrokerEpoch, Epoch, Offset
from nodes.metadata.image import ClusterImage, Delta
from nodes.metadata.records import MetadataRecord
from nodes.server.replicas.manager import ReplicaManager
from nodes.wire.controller_requests import (
    DURING_DELETION,
    FULL,
    LEADER_AND_ISR,
    LEADER_AND_ISR_VERSION,
    STOP_REPLICA,
    STOP_REPLICA_VERSION,
    UPDATE_METADATA,
    UPDATE_METADATA_VERSION,
)
from nodes.wire.server import Api, RequestContext
from nodes.wire.versions import respond
from nodes.zookeeper.broker_view import leader_and_isr, refusal, update_metadata
from nodes.zookeeper.decisions import levels

log = logging.getLogger("nodes.zookeeper")


class ControllerRequests:
    """See the module. `learn_configs` reads the configuration of topics before they are used."""

    def __init__(
        self,
        replicas: ReplicaManager,
        control: ControlSettings,
        broker_epoch: Callable[[], BrokerEpoch],
        learn_configs: Callable[[list[str]], Awaitable[None]],
    ) -> None:
        self._replicas = replicas
        self._broker_epoch = broker_epoch
        self._learn_configs = learn_configs
        self._order = asyncio.Lock()
        self.controller_epoch = 0
        """The highest that a request had."""
        self.image = ClusterImage(features=levels(control))
        """The cluster as the controllers have described it."""
        self.on_update: Callable[[ClusterImage, Delta], None] = lambda image, delta: None

    def apis(self) -> dict[int, Api]:
        """The requests served here, by api key."""
        version = LEADER_AND_ISR_VERSION
        return {
            LEADER_AND_ISR: Api(version, version, self.leader_and_isr),
            STOP_REPLICA: Api(STOP_REPLICA_VERSION, STOP_REPLICA_VERSION, self.stop_replica),
            UPDATE_METADATA: Api(
                UPDATE_METADATA_VERSION, UPDATE_METADATA_VERSION, self.update_metadata
            ),
        }

    def publish(self, records: Sequence[MetadataRecord]) -> None:
        """Make records true in the image, and let the broker follow."""
        offset = Offset(self.image.offset + 1)
        self.image, delta = self.image.apply(records, offset, Epoch(self.controller_epoch))
        self.on_update(self.image, delta)

    def _refusal(self, request: Any) -> ErrorCode:
        error = refusal(request, self.controller_epoch, self._broker_epoch())
        if error is ErrorCode.none:
            self.controller_epoch = request.controller_epoch
        else:
            log.info(
                "a request of controller %d, epoch %d, for broker epoch %d: %s",
                request.controller_id,
                request.controller_epoch,
                request.broker_epoch,
                error.name,
            )
        return error

    async def leader_and_isr(self, request: Any, context: RequestContext) -> Any:
        """Take the roles of this broker's replicas; after a full request, they are all known."""
        async with self._order:
            error = self._refusal(request)
            if error is not ErrorCode.none:
                return respond(request, error_code=error)
            await self._learn(request)
            self.publish(list(leader_and_isr(self.image, request)))
            if request.type_ == FULL:
                self._replicas.activate()
        rows = [
            {
                "topic_id": topic.topic_id,
                "partition_errors": [
                    {"partition_index": row.partition_index, "error_code": ErrorCode.none}
                    for row in topic.partition_states
                ],
            }
            for topic in request.topic_states
        ]
        return respond(request, error_code=ErrorCode.none, topics=rows)

    async def update_metadata(self, request: Any, context: RequestContext) -> Any:
        """Take the live brokers, and the leaders of partitions anywhere."""
        async with self._order:
            error = self._refusal(request)
            if error is ErrorCode.none:
                await self._learn(request)
                self.publish(list(update_metadata(self.image, request)))
        return respond(request, error_code=error)

    async def stop_replica(self, request: Any, context: RequestContext) -> Any:
        """Confirm that replicas are gone.

        The UpdateMetadata before it said that they are, and the replica manager has removed them.
        """
        async with self._order:
            error = self._refusal(request)
        if error is not ErrorCode.none:
            return respond(request, error_code=error)
        rows = [
            {
                "topic_name": topic.topic_name,
                "partition_index": row.partition_index,
                "error_code": ErrorCode.none,
            }
            for topic in request.topic_states
            for row in topic.partition_states
        ]
        return respond(request, error_code=error, partition_errors=rows)

    async def _learn(self, request: Any) -> None:
        new = [
            topic.topic_name
            for topic in request.topic_states
            if topic.topic_id not in self.image.topics
            and all(row.leader != DURING_DELETION for row in topic.partition_states)
        ]
        if new:
            await self._learn_configs(new)
