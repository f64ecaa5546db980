"""The channel from a broker to the active controller, which is the leader of the quorum."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from nodes.ids import NodeId
from nodes.server.error_responses import refused_by_non_controller
from nodes.wire.client import Channel
from nodes.wire.errors import ChannelError, ConnectFailed

RETRY_MS = 50


class LeaderProvider(Protocol):
    """The quorum node, as far as a ControllerLink needs it."""

    @property
    def leader_id(self) -> NodeId | None:
        """The quorum's leader as this node knows it."""
        ...


class ControllerLink:
    """One channel to each voter; a request goes to the current leader."""

    def __init__(
        self,
        quorum: LeaderProvider,
        voters: Mapping[NodeId, tuple[str, int]],
        connect: Callable[[str, int], Channel],
    ) -> None:
        self._quorum = quorum
        self._voters = voters
        self._connect = connect
        self._channels: dict[NodeId, Channel] = {}

    async def request(self, entity: Any, *, timeout_s: float | None = None) -> Any:
        """Send a request once. Raises ChannelError; ConnectFailed also if no leader is known."""
        leader = self._quorum.leader_id
        if leader is None or leader not in self._voters:
            raise ConnectFailed("the active controller is not known")
        channel = self._channels.get(leader)
        if channel is None:
            channel = self._channels[leader] = self._connect(*self._voters[leader])
        return await channel.request(entity, timeout_s=timeout_s)

    async def forward(self, entity: Any, *, timeout_s: float) -> Any | None:
        """Send a request until a controller accepts it; see `until_accepted`."""
        return await until_accepted(self.request, entity, timeout_s=timeout_s)

    def close(self) -> None:
        """Close every channel."""
        for channel in self._channels.values():
            channel.close()


async def until_accepted(
    request: Callable[..., Awaitable[Any]], entity: Any, *, timeout_s: float
) -> Any | None:
    """Send a request until a controller accepts it; None if `timeout_s` passes before.

    As in Kafka, a request is also sent again after the connection ended or the controller lost its
    leadership. So it may be carried out twice, and the second attempt may be refused (a topic
    exists already). A sender has to check the result anyway when a request times out.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while (left := deadline - loop.time()) > 0:
        with contextlib.suppress(ChannelError):
            response = await request(entity, timeout_s=left)
            if not refused_by_non_controller(response):
                return response
        await asyncio.sleep(RETRY_MS / 1000)
    return None
