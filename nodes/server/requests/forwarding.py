"""Forwards client requests to the controller, and returns its responses (KIP-590)."""

from typing import Any

from kio.schema.errors import ErrorCode

from nodes.server.control_plane import ControllerClient
from nodes.server.error_responses import refuse
from nodes.wire.server import RequestContext

CONTROLLER_TIMEOUT_S = 10.0


class ForwardingHandler:
    """Forwards every request that the controller decides."""

    def __init__(self, controller: ControllerClient) -> None:
        self._controller = controller

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
