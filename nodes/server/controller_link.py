"""How a broker asks the active controller: whoever leads the quorum, as this node knows it."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from nodes.ids import NodeId
from nodes.server.refusals import refused_by_non_controller
from nodes.wire.client import Channel
from nodes.wire.errors import ChannelError, ConnectFailed

RETRY_MS = 50


class Quorum(Protocol):
    """The part of the quorum that tells where the controller is."""

    @property
    def leader_id(self) -> NodeId | None:
        """The quorum's leader as last heard."""
        ...


class ControllerLink:
    """One channel to each voter; requests go to the current leader."""

    def __init__(
        self,
        quorum: Quorum,
        voters: Mapping[NodeId, tuple[str, int]],
        connect: Callable[[str, int], Channel],
    ) -> None:
        self._quorum = quorum
        self._voters = voters
        self._connect = connect
        self._channels: dict[NodeId, Channel] = {}

    async def request(self, entity: Any, *, timeout_s: float | None = None) -> Any:
        """Ask the controller once. Raises ChannelError; ConnectFailed also while none is known."""
        leader = self._quorum.leader_id
        if leader is None or leader not in self._voters:
            raise ConnectFailed("no controller is known now")
        channel = self._channels.get(leader)
        if channel is None:
            channel = self._channels[leader] = self._connect(*self._voters[leader])
        return await channel.request(entity, timeout_s=timeout_s)

    async def forward(self, entity: Any, *, timeout_s: float) -> Any | None:
        """Ask until a controller takes the request; None when `timeout_s` passes before.

        As in Kafka, a request is asked again also when the connection ended or the controller was
        deposed in the middle of it: it may then happen twice, and the second time be refused (a
        topic exists already). Who sends it has to look anyway when it times out.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while (left := deadline - loop.time()) > 0:
            with contextlib.suppress(ChannelError):
                response = await self.request(entity, timeout_s=left)
                if not refused_by_non_controller(response):
                    return response
            await asyncio.sleep(RETRY_MS / 1000)
        return None

    def close(self) -> None:
        """Close every channel."""
        for channel in self._channels.values():
            channel.close()
