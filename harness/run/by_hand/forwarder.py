"""Forwards TCP connections of programs outside of the cluster's network to its nodes.

A socket belongs to the network in which it was made. So the listening sockets are made outside, by
the process that wants to reach the cluster, and handed over. The connections to the nodes are made
on the clients' machine. What cuts a node off from clients cuts off these programs, too: their
connections stay open and nothing passes. A node that is down refuses, and the connection is closed.

Bytes that one side does not take hold up the other side.
"""

import asyncio
import socket
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, suppress
from typing import Final

from harness.systems.brokers import OUTSIDE_PORT

LONGEST_CONNECT_S: Final = 120.0
"""While packets are dropped, a connection hangs for as long as the client waits, at most."""

RETRY_S: Final = 0.05

PIECE_BYTES: Final = 65_536
"""The most that one read passes on."""


class Forwarder:
    """Forwards each listening socket to one node, in a thread of its own."""

    def __init__(
        self,
        listening: Mapping[int, socket.socket],
        address_of: Callable[[int], str],
        enter_network: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """`listening` has the socket of each node, `enter_network` moves the calling thread to the
        clients' machine.
        """
        self._listening = listening
        self._address_of = address_of
        self._enter_network = enter_network
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepted: set[socket.socket] = set()
        """Those whose task has not ended; it may not even have begun."""
        self._thread = threading.Thread(target=self._run, name="forwarder", daemon=True)

    def start(self) -> None:
        """Begin to accept connections."""
        self._thread.start()
        self._ready.wait()

    def stop(self) -> None:
        """End all connections."""
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _run(self) -> None:
        with self._enter_network():
            self._loop = asyncio.new_event_loop()
            try:
                for node, listening in self._listening.items():
                    listening.setblocking(False)
                    self._wait_for_connections(node, listening)
                self._loop.call_soon(self._ready.set)
                self._loop.run_forever()
            finally:
                for task in self._tasks:
                    task.cancel()
                with suppress(RuntimeError):
                    self._loop.run_until_complete(_ended(self._tasks))
                for accepted in self._accepted:
                    accepted.close()
                self._loop.close()

    def _start_task(self, work: "asyncio._CoroutineLike[None]") -> None:
        assert self._loop is not None
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _wait_for_connections(self, node: int, listening: socket.socket) -> None:
        assert self._loop is not None
        self._loop.add_reader(listening, self._accept, node, listening)

    def _accept(self, node: int, listening: socket.socket) -> None:
        """Accept a connection when there is one, and so on.

        Not by `loop.sock_accept`: it loses what it accepts in the turn in which it is cancelled.
        """
        assert self._loop is not None
        try:
            accepted, _ = listening.accept()
        except BlockingIOError:
            pass  # it ended before it was accepted
        except OSError:  # out of descriptors, say
            self._loop.remove_reader(listening)
            self._loop.call_later(RETRY_S, self._wait_for_connections, node, listening)
        else:
            accepted.setblocking(False)
            self._accepted.add(accepted)
            self._start_task(self._forward(node, accepted))

    async def _forward(self, node: int, accepted: socket.socket) -> None:
        """Connect to the node and pass on what arrives; close the accepted end if that fails."""
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ends: list[asyncio.StreamWriter] = []
        try:
            async with asyncio.timeout(LONGEST_CONNECT_S):
                far, to_far = await asyncio.open_connection(self._address_of(node), OUTSIDE_PORT)
            ends.append(to_far)
            near, to_near = await asyncio.open_connection(sock=accepted)
            ends.append(to_near)
            async with asyncio.TaskGroup() as directions:
                directions.create_task(_pass_on(near, to_far))
                directions.create_task(_pass_on(far, to_near))
            for end in ends:
                end.close()  # what it has still to write is written
        except* (OSError, LookupError, asyncio.CancelledError):
            for end in ends:
                end.transport.abort()
            accepted.close()
        finally:
            self._accepted.discard(accepted)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what one end sends to the other, and its end, too."""
    while piece := await reader.read(PIECE_BYTES):
        writer.write(piece)
        await writer.drain()
    writer.write_eof()


async def _ended(tasks: "Collection[asyncio.Task[None]]") -> None:
    """Return when the tasks have ended and the aborted ends are closed."""
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0)
