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


class _End(asyncio.Protocol):
    """One end of a forwarded connection: it passes on what arrives to the other end."""

    def __init__(self, open_ends: "set[_End]") -> None:
        """`open_ends` has this end as long as it is connected."""
        self.transport: asyncio.Transport | None = None
        self.other: _End | None = None
        self._open_ends = open_ends

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._open_ends.add(self)
        if self.other is None:
            transport.pause_reading()  # what arrives now could not be passed on

    def data_received(self, data: bytes) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.write(data)

    def eof_received(self) -> bool:
        if self.other is not None and self.other.transport is not None:
            with suppress(OSError, RuntimeError):
                self.other.transport.write_eof()
        return True

    def connection_lost(self, error: Exception | None) -> None:
        self._open_ends.discard(self)
        if self.other is None or self.other.transport is None:
            return
        # A reset is passed on as a reset.
        if error is not None:
            self.other.transport.abort()
        else:
            self.other.transport.close()

    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()


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
        self._ends: set[_End] = set()
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
                for end in self._ends:
                    if end.transport is not None:
                        end.transport.abort()
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
        """Connect to the node and join the two ends; close the accepted end if that fails."""
        assert self._loop is not None
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        near, far = _End(self._ends), _End(self._ends)
        try:
            async with asyncio.timeout(LONGEST_CONNECT_S):
                await self._loop.create_connection(
                    lambda: far, self._address_of(node), OUTSIDE_PORT
                )
            near.other, far.other = far, near
            await self._loop.connect_accepted_socket(lambda: near, accepted)
            assert far.transport is not None
            far.transport.resume_reading()
        except (OSError, TimeoutError, LookupError, asyncio.CancelledError):
            accepted.close()
            if far.transport is not None:
                far.transport.abort()
        finally:
            self._accepted.discard(accepted)


async def _ended(tasks: "Collection[asyncio.Task[None]]") -> None:
    """Return when the tasks have ended and the aborted ends are closed."""
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0)
