"""The kernel's side of a simulated TCP connection: it outlives the program.

The kernel sends what the program gave it, and retransmits after ever longer pauses while nothing
gets through, until TCP gives up. A segment arrives once, in order, or the connection ends. Bytes
that the peer has not read, or has acknowledged with a lost packet, fill a window; `transport`
manages that window.

A fault may hold a request: the bytes of a connection from that request on wait in the network, and
with them the connection's end. Other connections pass, and the program notices nothing.

Not simulated: slow start and congestion control, keep-alive, urgent data, Nagle's algorithm.
"""

import errno
import zlib
from abc import ABC, abstractmethod
from collections import deque
from typing import Final, Protocol

from harness.simulation.world.loop import HostLoop, Machine
from harness.simulation.world.network.link import (
    FIRST_RETRY_NS,
    GIVE_UP_NS,
    LAST_RETRY_NS,
    Address,
    Link,
    PacketHeader,
    SocketName,
)
from harness.simulation.world.network.observer import Observer
from harness.simulation.world.world import NS, Call, World
from harness.targets.request_stream import RequestStream

WINDOW_BYTES: Final = 256 << 10

_Segment = tuple[int, bytes | None]
"""A segment's number, and its bytes; None marks the end of the stream."""


class SocketNetwork(Protocol):
    """What a socket needs of the network (`network.Network`)."""

    world: World
    observer: Observer | None
    sockets: "dict[int, Socket]"

    def link(self, src: int, dst: int) -> Link:
        """The link from one machine to another."""
        ...

    def machine(self, number: int) -> Machine | None:
        """The machine of that number, if there is one."""
        ...


class Socket(ABC):
    """One end of a connection. A subclass adds the program's side."""

    peer: "Socket"

    def __init__(
        self, network: SocketNetwork, loop: HostLoop, there: int, own: Address, peer: Address
    ) -> None:
        self.loop = loop
        self.here = loop.host.number
        self.there = there
        self.name = SocketName(own, peer)
        self._network = network
        self._world = network.world
        self._out: Link = network.link(self.here, there)
        self._header = PacketHeader(source=own[1], target=peer[1])
        self._ack_header = PacketHeader(source=own[1], target=peer[1], data=False)
        self._closing = False
        self._ended = False
        """The program closed the socket, or is gone."""
        self._next_number = 0
        self._expected = 0
        self._arrives_ns = 0
        """When the last segment that was sent arrives: later segments do not overtake it."""
        self._in_window = 0
        self._unacknowledged = 0
        """Bytes that arrived, and whose acknowledgement was lost."""
        self._unsent: deque[bytes] = deque()
        """Bytes of the program that do not fit into the window."""
        self._read_paused = False
        self._unread: deque[bytes | None] = deque()
        self._undelivered: list[_Segment] = []
        self._retry: Call | None = None
        self._retry_ns = FIRST_RETRY_NS
        self._failing_since_ns = 0
        self._gave_up = False
        """The kernel sends nothing more."""
        self._was_reset = False
        self._powered_off = False
        """The machine lost power: no kernel answers for the socket."""
        self._requests: RequestStream | None = None
        """The requests of this end, while something waits for requests on its link."""
        self._held: list[_Segment] | None = None
        """The segments that wait in the network with a held request."""
        self._held_from = 0
        """The number of the first held segment."""
        self._reset_held = False
        """A reset follows the held segments."""
        self.number = self._world.next_number()
        network.sockets[self.number] = self

    # -- implemented by the program's side

    @abstractmethod
    def _read(self) -> None:
        """Read what arrived."""

    @abstractmethod
    def _fill_window(self) -> None:
        """Send what the window has room for."""

    @abstractmethod
    def _fail(self, error: OSError) -> None:
        """End the connection now."""

    @abstractmethod
    def _detach(self) -> bool:
        """Drop the dead program; return whether it had left the connection open."""

    # -- sending

    def _send(self, data: bytes | None) -> None:
        number = self._next_number
        self._next_number = number + 1
        segment = number, data
        if self._network.observer is not None and data is not None:
            self._network.observer.sent(self, number, data)
        if self._out.watches and data is not None:
            self._look_for_requests(number, data)
        if self.loop.held is not None:
            # The program is blocked in the middle of an event: none of its bytes can leave.
            self.loop.delivered_at_ns(self._world.now_ns, self._transmit, segment)
        elif self._undelivered or self.peer._powered_off or self._out.cuts:
            self._transmit(segment)
        else:
            self._propagate(segment)

    def _transmit(self, segment: _Segment) -> None:
        stuck = self._undelivered or self.peer._powered_off
        if stuck or (self._out.cuts and self._is_dropped(segment)):
            self._queue_for_retry(segment)
        else:
            self._propagate(segment)

    def _propagate(self, segment: _Segment) -> None:
        if self._held is not None and segment[0] >= self._held_from:
            self._held.append(segment)
            return
        peer, data = self.peer, segment[1]
        if peer.loop.dead:  # the peer's kernel answers
            if data is not None:
                self._is_reset(self._world.now_ns + 2 * self._out.delay_ns(0))
            return
        arrives_ns = self._world.now_ns + self._out.delay_ns(0 if data is None else len(data))
        if arrives_ns < self._arrives_ns:
            arrives_ns = self._arrives_ns
        self._arrives_ns = arrives_ns
        loop = peer.loop
        self._world.set_timer(arrives_ns, loop, peer._arrive, (segment,), loop._context)

    def _is_dropped(self, segment: _Segment) -> bool:
        header = self._ack_header if segment[1] is None else self._header
        return self._out.drops(header)

    def _queue_for_retry(self, segment: _Segment) -> None:
        """Queue a lost segment: it is retransmitted later, in order."""
        if self._gave_up:
            return
        if self._network.observer is not None:
            self._network.observer.held_up(self, segment[0])
        self._undelivered.append(segment)
        self._retry_later()

    def _retry_later(self) -> None:
        if self._retry is None:
            self._failing_since_ns = self._world.now_ns
            self._retry_ns = FIRST_RETRY_NS
            self._retry = self._world.after(self._retry_ns, self._send_again)

    def _cancel_retry(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    def _send_again(self) -> None:
        """Retransmit what did not get through; the sender's kernel does this."""
        self._retry = None
        if self._powered_off or not (self._undelivered or self._unacknowledged):
            return
        if self.peer._powered_off:
            machine = self._network.machine(self.there)
            blocked = self._out.cuts and self._out.drops(self._header)
            if machine is not None and machine.powered and not blocked:
                # The machine has restarted and does not know the connection.
                self._drop()
                self._is_reset(self._world.now_ns + 2 * self._out.delay_ns(0))
                self._forget_if_idle()
                return
        elif self._undelivered:
            waiting = sorted(self._undelivered, key=_number_of)
            if not (self._out.cuts and self._is_dropped(waiting[0])):
                self._undelivered.clear()
                for segment in waiting:
                    self._propagate(segment)
                self._forget_if_idle()
        else:
            self._ask_for_acknowledgement()
        if self._undelivered or self._unacknowledged:
            self._schedule_retry()

    def _schedule_retry(self) -> None:
        if self._world.now_ns - self._failing_since_ns > GIVE_UP_NS:
            self._drop()
            self._forget_if_idle()
            if not self.loop.dead and not self._ended:
                error = TimeoutError(errno.ETIMEDOUT, f"{self._out_name} did not answer")
                self.loop.delivered_at_ns(self._world.now_ns, self._fail, error)
            return
        self._retry_ns = min(2 * self._retry_ns, LAST_RETRY_NS)
        self._retry = self._world.after(self._retry_ns, self._send_again)

    def _ask_for_acknowledgement(self) -> None:
        """Retransmit bytes that arrived but whose acknowledgement was lost; the peer acknowledges
        them again.
        """
        if self._out.cuts and self._out.drops(self._header):
            return
        back = self.peer._out
        if not (back.cuts and back.drops(self.peer._ack_header)):
            self._acknowledged(self._unacknowledged)
            self._unacknowledged = 0

    def _acknowledged(self, size: int) -> None:
        self._in_window -= size
        if self._unsent and not self.loop.dead:
            when_ns = self._world.now_ns + self.peer._out.delay_ns(0)
            self.loop.delivered_at_ns(when_ns, self._fill_window)

    @property
    def _out_name(self) -> str:
        return "{}:{}".format(*self.name.peer)

    # -- held requests

    def _look_for_requests(self, number: int, data: bytes) -> None:
        """Show the requests in a segment to the link's watches, of which one may hold it."""
        if self._held is not None:
            return
        if self._requests is None:
            self._requests = RequestStream()
        watches = [w for w in self._out.watches.values() if w.port == self.name.peer[1]]
        now_s = self._world.now_ns / NS
        for request in self._requests.feed(data):
            decisions = [watch.holds(self.own_name, request, now_s) for watch in watches]
            if any(decisions):
                self._held, self._held_from = [], number
                break

    @property
    def own_name(self) -> str:
        """The own address and port, as a text."""
        return "{}:{}".format(*self.name.own)

    def let_go(self) -> None:
        """Let everything that is held pass, in its order."""
        held, self._held = self._held or [], None
        for segment in held:
            self._transmit(segment)
        if self._reset_held:
            self._reset_held = False
            self._send_reset(self._arrives_ns)
        self._forget_if_idle()

    def unwatched(self) -> None:
        """Nothing waits for requests on the link any more."""
        self._requests = None

    # -- arriving

    def nothing_arrives_before(self, when_ns: int) -> None:
        """Delay the first arrival until the connection is open."""
        self._arrives_ns = when_ns

    def _arrive(self, segment: _Segment) -> None:
        sender = self.peer
        link = sender._out
        number, data = segment
        if number != self._expected or (
            link.cuts and sender._is_dropped(segment)  # dropped on its way
        ):
            sender._queue_for_retry(segment)
            return
        self._expected += 1
        link.arrived(sender._ack_header if data is None else sender._header)
        if data is not None:
            world = self._world
            world.trace.noted(world.now_ns, self.loop.number, "bytes", zlib.crc32(data))
            if self._network.observer is not None:
                self._network.observer.arrived(sender, number)
        if self._ended:
            if data is not None:
                self._send_reset(0)
            return
        self._unread.append(data)
        if not self._read_paused:
            self._read()

    def _acknowledge(self, size: int) -> None:
        sender = self.peer
        if self._out.cuts and self._out.drops(self._ack_header):
            sender._unacknowledged += size
            sender._retry_later()
        elif sender._unsent:
            sender._acknowledged(size)
        else:
            sender._in_window -= size

    # -- the end

    def _send_reset(self, not_before_ns: int) -> None:
        """Send one reset to the peer; a lost reset is not retransmitted."""
        if self._held is not None:
            self._reset_held = True
            return
        if self._out.cuts and self._out.drops(self._ack_header):
            return
        arrives_ns = max(self._world.now_ns + self._out.delay_ns(0), not_before_ns)
        self.peer._is_reset(arrives_ns)

    def _is_reset(self, when_ns: int) -> None:
        if not self.loop.dead and not self._ended:
            error = ConnectionResetError(errno.ECONNRESET, f"{self._out_name} reset the connection")
            self.loop.delivered_at_ns(when_ns, self._fail, error)

    def reset_both_ends(self) -> bool:
        """Reset both ends now; return whether an open connection ended that was not counted yet."""
        if self._ended or self._was_reset:
            return False
        for end in (self, self.peer):
            end._was_reset = True
            end._is_reset(self._world.now_ns)
        return True

    def process_died(self) -> None:
        """End the connection as the kernel does: in order, unless some bytes were never read."""
        unread, orderly = bool(self._unread), self._detach()
        if unread:
            self._drop()
            self._send_reset(self._arrives_ns)
        elif orderly:
            self._next_number += 1
            self._transmit((self._next_number - 1, None))
            if self.peer._in_window:  # on its way to a program that is gone
                self._send_reset(self._world.now_ns + self.peer._out.delay_ns(0))
        self._forget_if_idle()

    def power_lost(self) -> None:
        """Drop this end; nothing acknowledges what the peer has on its way."""
        self._detach()
        self._drop()
        self._powered_off = True
        self._forget_if_idle()
        if self.peer._in_window and not self.peer._powered_off:
            self.peer._unacknowledged = self.peer._in_window
            self.peer._retry_later()

    def _drop(self) -> None:
        """Forget what was still to be sent, and what arrived and was not read."""
        self._gave_up = True
        self._undelivered.clear()
        self._unread.clear()
        self._unacknowledged = 0
        self._cancel_retry()

    def _forget_if_idle(self) -> None:
        """Forget a socket that has no program and nothing left to send."""
        idle = not self._undelivered and self._held is None
        if (self._ended or self.loop.dead) and idle:
            self._network.sockets.pop(self.number, None)


def _number_of(segment: _Segment) -> int:
    return segment[0]
