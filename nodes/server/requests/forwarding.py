"""Forwards client requests to the controller, and returns its responses (KIP-590)."""

import asyncio
from typing import Any

from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest
from kio.schema.errors import ErrorCode

from nodes.ids import NodeId
from nodes.server.controller_link import ControllerLink
from nodes.server.error_responses import refuse
from nodes.server.replicas.isr import Registration
from nodes.wire.server import RequestContext
from nodes.wire.versions import fill, respond

CONTROLLER_TIMEOUT_S = 10.0


class ForwardingHandler:
    """Serves InitProducerId, and forwards every request that the controller decides."""

    def __init__(
        self, node_id: NodeId, controller: ControllerLink, registration: Registration
    ) -> None:
        self._node_id = node_id
        self._controller = controller
        self._registration = registration
        self._ids = iter(range(0))
        self._allocating = asyncio.Lock()

    async def forward(self, request: Any, context: RequestContext) -> Any:
        """Forward the request unchanged.

        The whole request gets REQUEST_TIMED_OUT if no controller responds within the client's own
        timeout, but at least a second.
        """
        timeout = getattr(request, "timeout", None)
        timeout_s = CONTROLLER_TIMEOUT_S if timeout is None else timeout.total_seconds()
        response = await self._controller.forward(request, timeout_s=max(timeout_s, 1.0))
        if response is not None:
            return response
        return refuse(request, ErrorCode.request_timed_out, "no controller responded in time")

    async def init_producer_id(self, request: Any, context: RequestContext) -> Any:
        """InitProducerId: an unused producer id with epoch 0. Transactions are not served."""
        if request.transactional_id is not None:
            # Clients see from FindCoordinator that there are no transactions, before they get here.
            return respond(request, error_code=ErrorCode.unsupported_version)
        producer_id = await self._next_id()
        if producer_id is None:
            return respond(request, error_code=ErrorCode.coordinator_not_available)
        return respond(request, producer_id=producer_id, producer_epoch=0)

    async def _next_id(self) -> int | None:
        async with self._allocating:
            allocated = next(self._ids, None)
            return allocated if allocated is not None else await self._allocate()

    async def _allocate(self) -> int | None:
        request = fill(
            AllocateProducerIdsRequest,
            broker_id=self._node_id,
            broker_epoch=self._registration.broker_epoch,
        )
        response = await self._controller.forward(request, timeout_s=CONTROLLER_TIMEOUT_S)
        if response is None or response.error_code is not ErrorCode.none:
            return None
        start = response.producer_id_start
        self._ids = iter(range(start, start + response.producer_id_len))
        return next(self._ids, None)
