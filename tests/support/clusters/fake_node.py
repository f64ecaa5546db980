"""A node with scripted answers: enough of the protocol for metadata, offsets and epochs."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from nodes.wire.connections import ConnectionLimits, Connections
from nodes.wire.server import Api, Dispatcher, Listener, RequestContext, ServerConnection
from nodes.wire.versions import respond

LAST_TURNS = 10
"""Turns of the loop, of 10 ms, in which what was dropped may end."""

Answer = Callable[[Any], Mapping[str, Any]]


class FakeNode:
    """Listens on a loopback port; `answers` (api key -> fields of the response) may be replaced."""

    def __init__(self, answers: Mapping[int, Answer]) -> None:
        self.answers = dict(answers)
        self.port = 0
        self.seen: list[Any] = []
        self._open = Connections(ConnectionLimits())

    def _handle(self, request: Any, _: RequestContext) -> Any:
        self.seen.append(request)
        return respond(request, **self.answers[int(request.__api_key__)](request))

    def connection(self) -> ServerConnection:
        """The protocol of one accepted connection."""
        apis = {key: Api(0, 99, self._handle) for key in self.answers}
        return Listener(
            name="TEST",
            dispatcher=Dispatcher(apis),
            connections=self._open,
            max_frame_bytes=1 << 20,
        ).connection()

    def drop_connections(self) -> None:
        """Close what is open."""
        self._open.close()


@contextmanager
def serving(*nodes: FakeNode) -> Iterator[None]:
    """Serve all nodes from one thread while the block runs."""
    ready = threading.Event()
    stop: list[Callable[[], object]] = []

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        done = asyncio.Event()
        stop.append(partial(loop.call_soon_threadsafe, done.set))
        servers = []
        for node in nodes:
            server = await loop.create_server(node.connection, "127.0.0.1", 0)
            node.port = server.sockets[0].getsockname()[1]
            servers.append(server)
        ready.set()
        await done.wait()
        # CPython 3.11 leaks a connection that is accepted in the turn in which its server closes.
        await asyncio.sleep(0.05)
        for server in servers:
            server.close()
        for _ in range(LAST_TURNS):
            for node in nodes:
                node.drop_connections()
            await asyncio.sleep(0.01)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait()
    try:
        yield
    finally:
        stop[0]()
        thread.join()
