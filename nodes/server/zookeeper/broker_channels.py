"""The controller's requests to brokers: one after another to each broker, in the order of sending.

A request is sent again until the broker answers it, or is gone, or the controller resigns. A broker
that registered again has another channel: what was meant for its earlier life is discarded.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from kio.schema.errors import ErrorCode

from nodes.ids import BrokerEpoch, NodeId
from nodes.metadata.broker import BrokerImage
from nodes.wire.client import Channel
from nodes.wire.errors import ChannelError

log = logging.getLogger("nodes.controller")

RETRY_S: Final = 0.1
TIMEOUT_S: Final = 30.0
"""As Kafka's controller.socket.timeout.ms: a broker takes its time for hundreds of partitions."""
Done = Callable[[NodeId, Any], None]


class _BrokerChannel:
    def __init__(self, broker: BrokerImage, channel: Channel) -> None:
        self.epoch: BrokerEpoch = broker.epoch
        self._node = broker.node_id
        self._channel = channel
        self._queue: asyncio.Queue[tuple[Iterable[Any], Done | None]] = asyncio.Queue()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def send(self, requests: Iterable[Any], done: Done | None) -> None:
        self._queue.put_nowait((requests, done))

    async def _run(self) -> None:
        while True:
            requests, done = await self._queue.get()
            for request in requests:
                response = await self._answer(request)
                if response.error_code is not ErrorCode.none:
                    log.info("broker %d refused: %s", self._node, response.error_code.name)
                elif done is not None:
                    done(self._node, request)

    async def _answer(self, request: Any) -> Any:
        while True:
            try:
                return await self._channel.request(request, timeout_s=TIMEOUT_S)
            except ChannelError as error:
                log.debug("broker %d did not answer: %s", self._node, error)
                await asyncio.sleep(RETRY_S)

    def close(self) -> None:
        self._task.cancel()
        self._channel.close()


class BrokerChannels:
    """See the module. `connect` makes a channel to a broker's `listener`."""

    def __init__(self, connect: Callable[[str, int], Channel], listener: str) -> None:
        self._connect = connect
        self._listener = listener
        self._channels: dict[NodeId, _BrokerChannel] = {}

    def update(self, brokers: Mapping[NodeId, BrokerImage]) -> None:
        """Keep a channel to each of the live brokers."""
        for node, channel in list(self._channels.items()):
            broker = brokers.get(node)
            if broker is None or broker.epoch != channel.epoch:
                channel.close()
                del self._channels[node]
        for node, broker in brokers.items():
            endpoint = broker.endpoint(self._listener)
            if node not in self._channels and endpoint is not None:
                made = self._connect(endpoint.host, endpoint.port)
                self._channels[node] = _BrokerChannel(broker, made)

    def send(self, node: NodeId, requests: Iterable[Any], done: Done | None = None) -> None:
        """Send requests after all others to this broker; `done` gets each that was accepted."""
        channel = self._channels.get(node)
        if channel is not None:
            channel.send(requests, done)

    def close(self) -> None:
        """Discard everything that is not sent."""
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()
