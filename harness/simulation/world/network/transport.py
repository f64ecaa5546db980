"""The program's side of a simulated TCP connection: an asyncio transport.

Bytes go into a window that the kernels keep (`tcp`). Bytes that do not fit wait here, and the
program is asked to pause. While reading is paused, unread bytes fill the window of the other end.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from harness.simulation.world.loop import HostLoop
from harness.simulation.world.network.link import Address
from harness.simulation.world.network.tcp import WINDOW_BYTES, Socket, SocketNetwork

HIGH_WATER_BYTES: Final = 64 << 10


def pair(
    network: SocketNetwork, client: HostLoop, server: HostLoop, own: Address, there: Address
) -> "tuple[Endpoint, Endpoint]":
    """Return both ends of a new connection, the client's first."""
    here = Endpoint(network, client, server.host.number, own, there)
    other = Endpoint(network, server, client.host.number, there, own)
    here.peer, other.peer = other, here
    return here, other


class Endpoint(asyncio.Transport, Socket):
    """The program's end of a connection. See the module."""

    def __init__(
        self, network: SocketNetwork, loop: HostLoop, there: int, own: Address, peer: Address
    ) -> None:
        Socket.__init__(self, network, loop, there, own, peer)
        names = {"sockname": own, "peername": peer, "socket": self.name}
        asyncio.Transport.__init__(self, names)
        self._protocol: asyncio.BaseProtocol | None = None
        self._feed: Callable[[bytes], object] = _discard
        self._unsent_bytes = 0
        self._high, self._low = HIGH_WATER_BYTES, HIGH_WATER_BYTES // 4
        self._write_paused = False
        self._eof = False

    # -- asyncio's interface

    def connect_to(self, protocol: asyncio.BaseProtocol) -> None:
        """Pass the connection to a protocol."""
        self.set_protocol(protocol)
        protocol.connection_made(self)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        if isinstance(protocol, asyncio.BufferedProtocol):
            self._feed = partial(_fill_buffers, protocol)
        else:
            assert isinstance(protocol, asyncio.Protocol)
            self._feed = protocol.data_received

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return not self._read_paused and not self._closing

    def pause_reading(self) -> None:
        self._read_paused = True

    def resume_reading(self) -> None:
        if self._read_paused:
            self._read_paused = False
            if self._unread:
                self.loop.delivered_at_ns(self._world.now_ns, self._read)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = HIGH_WATER_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        return self._unsent_bytes

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.loop.check()
        if not self._eof and not self._closing:
            self._eof = True
            if not self._unsent:
                self._send(None)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.loop.dead:
            self.loop.check()
        if self._eof:
            raise RuntimeError("write() after write_eof()")
        if self._closing or not data:
            return
        if self._unsent or self._in_window + len(data) > WINDOW_BYTES:
            self._unsent.append(bytes(data))
            self._unsent_bytes += len(data)
            self._fill_window()
            return
        self._hand_over(bytes(data))

    def close(self) -> None:
        if self._closing:
            return
        self.loop.check()
        self._closing = True
        if not self._unsent:
            self._close_in_order()

    def abort(self) -> None:
        self.loop.check()
        if self._ended:
            return
        self._closing = True
        self._unsent.clear()
        self._drop()
        self._send_reset(self._arrives_ns)
        self.loop.call_soon(self._end, None)

    # -- the program's bytes into the kernel

    def _hand_over(self, data: bytes) -> None:
        self._in_window += len(data)
        torn = self._out.fragment(len(data))
        if torn:
            self._send(data[:torn])
            self._send(data[torn:])
        else:
            self._send(data)

    def _fill_window(self) -> None:
        """Send what the window has room for; ask the program to pause or to resume writing."""
        if self._ended:
            return
        while self._unsent and self._in_window < WINDOW_BYTES:
            data = self._unsent.popleft()
            room = WINDOW_BYTES - self._in_window
            if len(data) > room:
                self._unsent.appendleft(data[room:])
                data = data[:room]
            self._unsent_bytes -= len(data)
            self._hand_over(data)
        protocol = self._protocol
        assert protocol is not None
        if self._unsent_bytes > self._high and not self._write_paused:
            self._write_paused = True
            protocol.pause_writing()
        elif self._unsent_bytes <= self._low and self._write_paused:
            self._write_paused = False
            protocol.resume_writing()
        if not self._unsent:
            if self._closing:
                self._close_in_order()
            elif self._eof:
                self._send(None)

    def _close_in_order(self) -> None:
        if self._unread:  # closed before everything was read
            self._drop()
            self._send_reset(self._arrives_ns)
        else:
            self._send(None)
        self.loop.call_soon(self._end, None)

    # -- what comes, and the end

    def _read(self) -> None:
        while self._unread and not self._read_paused and not self._ended:
            data = self._unread.popleft()
            protocol = self._protocol
            if protocol is None:
                return
            if data is None:
                self._peer_finished(protocol)
                continue
            self._acknowledge(len(data))
            if not self._closing:
                self._feed(data)

    def _peer_finished(self, protocol: asyncio.BaseProtocol) -> None:
        if not self._closing:
            assert isinstance(protocol, asyncio.Protocol | asyncio.BufferedProtocol)
            if not protocol.eof_received():
                self.close()

    def _fail(self, error: OSError) -> None:
        self._closing = True
        self._unsent.clear()
        self._drop()
        self._end(error)

    def _detach(self) -> bool:
        was_open = not (self._closing or self._eof)
        self._unsent.clear()
        self._closing = self._ended = True
        self._protocol, self._feed = None, _discard
        return was_open

    def _end(self, error: OSError | None) -> None:
        if self._ended:
            return
        self._ended = self._closing = True
        self._unread.clear()
        self._forget_if_idle()
        protocol, self._protocol, self._feed = self._protocol, None, _discard
        if protocol is not None:
            protocol.connection_lost(error)


def _fill_buffers(protocol: asyncio.BufferedProtocol, data: bytes) -> None:
    while data:
        buffer = memoryview(protocol.get_buffer(len(data)))
        size = min(len(buffer), len(data))
        buffer[:size] = data[:size]
        protocol.buffer_updated(size)
        data = data[size:]


def _discard(data: bytes) -> None:
    """Discard the bytes: there is no protocol, or no protocol any more."""
