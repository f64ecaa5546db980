"""The handlers of brokers' requests: registration, heartbeats, ISR changes, producer ids."""

import logging
from typing import Any

from nodes.controller.isr import AlterIsrRequest, AlterIsrResult
from nodes.ids import BrokerEpoch, Epoch, NodeId, Offset
from nodes.metadata.errors import ControlError
from nodes.metadata.records import BrokerEndpoint
from nodes.server.controller.controller import QuorumController, now_ms
from nodes.wire.server import Api, RequestContext
from nodes.wire.versions import respond

log = logging.getLogger("nodes.controller")


class BrokerRequestHandler:
    """Serves the requests of brokers, at the controller."""

    def __init__(self, quorum_controller: QuorumController) -> None:
        self._quorum_controller = quorum_controller
        self._controller = quorum_controller.controller

    def apis(self) -> dict[int, Api]:
        """The requests served here, by api key."""
        return {
            56: Api(3, 3, self.alter_partition),
            62: Api(4, 4, self.broker_registration),
            63: Api(1, 1, self.broker_heartbeat),
            67: Api(0, 0, self.allocate_producer_ids),
        }

    async def broker_registration(self, request: Any, context: RequestContext) -> Any:
        """BrokerRegistration: returns the broker epoch."""
        endpoints = tuple(
            BrokerEndpoint(
                name=listener.name,
                host=listener.host,
                port=listener.port,
                security_protocol=listener.security_protocol,
            )
            for listener in request.listeners
        )
        try:
            epoch = await self._quorum_controller.decide(
                lambda: self._controller.register_broker(
                    broker_id=NodeId(request.broker_id),
                    cluster_id=request.cluster_id,
                    incarnation_id=request.incarnation_id,
                    endpoints=endpoints,
                    rack=request.rack,
                    log_dirs=request.log_dirs,
                    previous_broker_epoch=BrokerEpoch(request.previous_broker_epoch),
                    now_ms=now_ms(),
                )
            )
        except ControlError as error:
            return respond(request, error_code=error.code)
        log.info("broker %d registered with epoch %d", request.broker_id, epoch)
        return respond(request, broker_epoch=epoch)

    async def broker_heartbeat(self, request: Any, context: RequestContext) -> Any:
        """BrokerHeartbeat: returns the broker's state after it."""
        try:
            answer = await self._quorum_controller.decide(
                lambda: self._controller.heartbeat(
                    broker_id=NodeId(request.broker_id),
                    broker_epoch=BrokerEpoch(request.broker_epoch),
                    current_metadata_offset=Offset(request.current_metadata_offset),
                    want_fence=request.want_fence,
                    want_shut_down=request.want_shut_down,
                    now_ms=now_ms(),
                )
            )
        except ControlError as error:
            return respond(request, error_code=error.code)
        return respond(
            request,
            is_caught_up=answer.is_caught_up,
            is_fenced=answer.is_fenced,
            should_shut_down=answer.should_shut_down,
        )

    async def alter_partition(self, request: Any, context: RequestContext) -> Any:
        """AlterPartition: returns the new state of each partition, or its error."""
        changes = [
            AlterIsrRequest(
                topic_id=topic.topic_id,
                partition=data.partition_index,
                leader_epoch=Epoch(data.leader_epoch),
                partition_epoch=data.partition_epoch,
                isr=tuple(
                    (NodeId(member.broker_id), BrokerEpoch(member.broker_epoch))
                    for member in data.new_isr_with_epochs
                ),
                leader_recovery_state=data.leader_recovery_state,
            )
            for topic in request.topics
            for data in topic.partitions
        ]
        broker_id, broker_epoch = NodeId(request.broker_id), BrokerEpoch(request.broker_epoch)
        try:
            answers = await self._quorum_controller.decide(
                lambda: self._controller.alter_partition(broker_id, broker_epoch, changes)
            )
        except ControlError as error:
            return respond(request, error_code=error.code)
        left = iter(answers)
        topics = [
            {"topic_id": t.topic_id, "partitions": [_isr_row(next(left)) for _ in t.partitions]}
            for t in request.topics
        ]
        return respond(request, topics=topics)

    async def allocate_producer_ids(self, request: Any, context: RequestContext) -> Any:
        """AllocateProducerIds: returns a block of ids for one broker."""
        broker_id, broker_epoch = NodeId(request.broker_id), BrokerEpoch(request.broker_epoch)
        try:
            block = await self._quorum_controller.decide(
                lambda: self._controller.allocate_producer_ids(broker_id, broker_epoch)
            )
        except ControlError as error:
            return respond(request, error_code=error.code)
        return respond(request, producer_id_start=block.start, producer_id_len=len(block))


def _isr_row(answer: AlterIsrResult) -> dict[str, Any]:
    row: dict[str, Any] = {"partition_index": answer.request.partition}
    if answer.partition is None:
        assert answer.error is not None
        return row | {"error_code": answer.error.code}
    return row | {
        "leader_id": answer.partition.leader,
        "leader_epoch": answer.partition.leader_epoch,
        "isr": answer.partition.isr,
        "leader_recovery_state": answer.partition.leader_recovery_state,
        "partition_epoch": answer.partition.partition_epoch,
    }
