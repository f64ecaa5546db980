"""The producer ids that this broker may give away: blocks that the controller allocates.

An id is given once. `reserve` waits for ids; `take` does not wait, so that a coordinator can take
one in the middle of a decision.
"""

import asyncio
from typing import Final

from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest
from kio.schema.errors import ErrorCode

from nodes.ids import NodeId
from nodes.server.control_plane import ControllerClient, Registration
from nodes.wire.versions import fill

CONTROLLER_TIMEOUT_S: Final = 10.0


class ProducerIds:
    """See the module."""

    def __init__(
        self, node_id: NodeId, controller: ControllerClient, registration: Registration
    ) -> None:
        self._node_id = node_id
        self._controller = controller
        self._registration = registration
        self._left = range(0)
        self._allocating: asyncio.Task[bool] | None = None

    async def next_id(self) -> int | None:
        """An unused id; None if no controller allocates any in time."""
        while not self._left:  # others who waited for the same block may have taken all of it
            if not await asyncio.shield(self._ask()):
                return None
        return self._take()

    def take(self) -> int | None:
        """An unused id; None if there is none at the moment, and then more are asked for."""
        found = self._take()
        if found is None:
            self._ask()
        return found

    async def reserve(self) -> None:
        """Return when there is an id, or when no controller allocates any in time."""
        if not self._left:
            await asyncio.shield(self._ask())

    def close(self) -> None:
        """Stop asking."""
        if self._allocating is not None:
            self._allocating.cancel()

    def _take(self) -> int | None:
        if not self._left:
            return None
        producer_id, self._left = self._left[0], self._left[1:]
        return producer_id

    def _ask(self) -> "asyncio.Task[bool]":
        """The future whether a controller allocates ids."""
        if self._allocating is None or self._allocating.done():
            self._allocating = asyncio.get_running_loop().create_task(self._allocate())
        return self._allocating

    async def _allocate(self) -> bool:
        request = fill(
            AllocateProducerIdsRequest,
            broker_id=self._node_id,
            broker_epoch=self._registration.broker_epoch,
        )
        response = await self._controller.forward(request, timeout_s=CONTROLLER_TIMEOUT_S)
        if response is None or response.error_code is not ErrorCode.none:
            return False
        start = response.producer_id_start
        self._left = range(start, start + response.producer_id_len)
        return bool(self._left)
