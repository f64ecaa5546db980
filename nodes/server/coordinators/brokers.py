"""Requests to other brokers, on their inter-broker listener: one connection to each."""

from collections.abc import Callable
from typing import Any

from nodes.ids import NodeId
from nodes.metadata.image import ClusterImage
from nodes.wire.client import Channel
from nodes.wire.errors import ConnectFailed


class BrokerLink:
    """See the module. `connect` makes a channel to an address."""

    def __init__(
        self,
        image: Callable[[], ClusterImage],
        listener: str,
        connect: Callable[[str, int], Channel],
    ) -> None:
        self._image = image
        self._listener = listener
        self._connect = connect
        self._channels: dict[NodeId, Channel] = {}

    async def request(self, node: NodeId, entity: Any, *, timeout_s: float | None = None) -> Any:
        """Send a request once. Raises ChannelError; ConnectFailed also without an address."""
        return await self._channel(node).request(entity, timeout_s=timeout_s)

    def _channel(self, node: NodeId) -> Channel:
        broker = self._image().brokers.get(node)
        endpoint = None if broker is None else broker.endpoint(self._listener)
        if endpoint is None:
            raise ConnectFailed(f"the address of node {node} is not known")
        known = self._channels.get(node)
        if known is not None and (known.host, known.port) == (endpoint.host, endpoint.port):
            return known
        if known is not None:
            known.close()
        self._channels[node] = self._connect(endpoint.host, endpoint.port)
        return self._channels[node]

    def close(self) -> None:
        """Close every connection."""
        for channel in self._channels.values():
            channel.close()
