"""The kernel's side of a simulated TCP connection: it outlives the program.

What was handed to it is sent, and sent again after ever longer pauses while nothing gets through,
until TCP gives up. A segment arrives once, in order, or the connection ends. What the peer has not
read yet, or has acknowledged in vain, fills a window, which is `transport`'s to mind.

Left out: slow start and congestion, keep-alive, urgent data, Nagle's algorithm.
"""

import errno
import zlib
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harness.simulation.world.loop import HostLoop
from harness.simulation.world.network.link import (
    FIRST_RETRY_NS,
    GIVE_UP_NS,
    LAST_RETRY_NS,
    Link,
    Passage,
)
from harness.simulation.world.world import Call

if TYPE_CHECKING:
    from harness.simulation.world.network.network import Network

WINDOW_BYTES: Final = 256 << 10

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class SocketName:
    """A stand-in for a socket: it knows its address, nothing else."""

    own: Address
    peer: Address = ("", 0)

    def getsockname(self) -> Address:
        return self.own

    def getpeername(self) -> Address:
        return self.peer


_Segment = tuple[int, bytes | None]
"""A segment's number, and its bytes, or None for the end of them."""


class Socket(ABC):
    """One side of a connection. What the program does with it is a subclass's."""

    peer: "Socket"

    def __init__(
        self, network: "Network", loop: HostLoop, there: int, own: Address, peer: Address
    ) -> None:
        self.loop = loop
        self.here = loop.host.number
        self.there = there
        self.name = SocketName(own, peer)
        self._network = network
        self._world = network.world
        self._out: Link = network.link(self.here, there)
        self._passage = Passage(source=own[1], target=peer[1])
        self._ack_passage = Passage(source=own[1], target=peer[1], data=False)
        self._closing = False
        self._ended = False
        """The program is done with it, or gone."""
        self._next_number = 0
        self._expected = 0
        self._arrives_ns = 0
        """When the last segment sent arrives: what is sent next does not overtake it."""
        self._in_window = 0
        self._unacknowledged = 0
        """Bytes that arrived, and whose acknowledgement did not."""
        self._unsent: deque[bytes] = deque()
        """The program's, for which the window has no room."""
        self._read_paused = False
        self._unread: deque[bytes | None] = deque()
        self._undelivered: list[_Segment] = []
        self._retry: Call | None = None
        self._retry_ns = FIRST_RETRY_NS
        self._failing_since_ns = 0
        self._gave_up = False
        """What was to be sent is not sent any more."""
        self._cut_off = False
        self._silent = False
        """The machine lost its power: nobody answers for the socket any more."""
        self.number = self._world.next_number()
        network.sockets[self.number] = self

    # -- what the program's side adds

    @abstractmethod
    def _read(self) -> None:
        """Take what came."""

    @abstractmethod
    def _fill_window(self) -> None:
        """There is room in the window."""

    @abstractmethod
    def _fail(self, error: OSError) -> None:
        """The connection ends now."""

    @abstractmethod
    def _let_go(self) -> bool:
        """The program is gone; whether it had left the connection open."""

    # -- sending

    def _send(self, data: bytes | None) -> None:
        number = self._next_number
        self._next_number = number + 1
        segment = number, data
        if self._network.observer is not None and data is not None:
            self._network.observer.sent(self, number, data)
        if self.loop.held is not None:
            # The program stands still in the middle of something: no byte of it can leave.
            self.loop.delivered_at_ns(self._world.now_ns, self._leave, segment)
        elif self._undelivered or self.peer._silent or self._out.cuts:
            self._leave(segment)
        else:
            self._travel(segment)

    def _leave(self, segment: _Segment) -> None:
        stuck = self._undelivered or self.peer._silent
        if stuck or (self._out.cuts and self._is_dropped(segment)):
            self._keep(segment)
        else:
            self._travel(segment)

    def _travel(self, segment: _Segment) -> None:
        peer, data = self.peer, segment[1]
        if peer.loop.dead:  # its kernel answers for it
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
        passage = self._ack_passage if segment[1] is None else self._passage
        return self._out.drops(passage)

    def _keep(self, segment: _Segment) -> None:
        """It did not get through: send it again later, in order."""
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
        """The sender's kernel: try what did not get through."""
        self._retry = None
        if self._silent or not (self._undelivered or self._unacknowledged):
            return
        if self.peer._silent:
            machine = self._network.machine(self.there)
            blocked = self._out.cuts and self._out.drops(self._passage)
            if machine is not None and machine.powered and not blocked:
                # It has started again, and knows no such connection.
                self._drop()
                self._is_reset(self._world.now_ns + 2 * self._out.delay_ns(0))
                self._forget_if_idle()
                return
        elif self._undelivered:
            waiting = sorted(self._undelivered, key=_number_of)
            if not (self._out.cuts and self._is_dropped(waiting[0])):
                self._undelivered.clear()
                for segment in waiting:
                    self._travel(segment)
                self._forget_if_idle()
        else:
            self._ask_for_acknowledgement()
        if self._undelivered or self._unacknowledged:
            self._go_on_trying()

    def _go_on_trying(self) -> None:
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
        """What arrived is sent again, as its acknowledgement got lost; it is acknowledged again."""
        if self._out.cuts and self._out.drops(self._passage):
            return
        back = self.peer._out
        if not (back.cuts and back.drops(self.peer._ack_passage)):
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

    # -- arriving

    def nothing_arrives_before(self, when_ns: int) -> None:
        """What is sent from here is not there before the connection is."""
        self._arrives_ns = when_ns

    def _arrive(self, segment: _Segment) -> None:
        sender = self.peer
        link = sender._out
        number, data = segment
        if number != self._expected or (
            link.cuts and sender._is_dropped(segment)  # cut off on its way
        ):
            sender._keep(segment)
            return
        self._expected += 1
        link.arrived(sender._ack_passage if data is None else sender._passage)
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
        if self._out.cuts and self._out.drops(self._ack_passage):
            sender._unacknowledged += size
            sender._retry_later()
        elif sender._unsent:
            sender._acknowledged(size)
        else:
            sender._in_window -= size

    # -- the end

    def _send_reset(self, not_before_ns: int) -> None:
        """Tell the peer, once: a reset that gets lost is not sent again."""
        if self._out.cuts and self._out.drops(self._ack_passage):
            return
        arrives_ns = max(self._world.now_ns + self._out.delay_ns(0), not_before_ns)
        self.peer._is_reset(arrives_ns)

    def _is_reset(self, when_ns: int) -> None:
        if not self.loop.dead and not self._ended:
            error = ConnectionResetError(errno.ECONNRESET, f"{self._out_name} reset the connection")
            self.loop.delivered_at_ns(when_ns, self._fail, error)

    def cut_off(self) -> bool:
        """Somebody resets both ends now; whether there was a connection to end, not counted yet."""
        if self._ended or self._cut_off:
            return False
        for end in (self, self.peer):
            end._cut_off = True
            end._is_reset(self._world.now_ns)
        return True

    def process_died(self) -> None:
        """The kernel ends the connection: in order, unless something was never read."""
        unread, orderly = bool(self._unread), self._let_go()
        if unread:
            self._drop()
            self._send_reset(self._arrives_ns)
        elif orderly:
            self._next_number += 1
            self._leave((self._next_number - 1, None))
            if self.peer._in_window:  # still on its way here, where nobody will take it
                self._send_reset(self._world.now_ns + self.peer._out.delay_ns(0))
        self._forget_if_idle()

    def power_lost(self) -> None:
        """Nothing is left of this end; what the peer has on its way will not be acknowledged."""
        self._let_go()
        self._drop()
        self._silent = True
        self._forget_if_idle()
        if self.peer._in_window and not self.peer._silent:
            self.peer._unacknowledged = self.peer._in_window
            self.peer._retry_later()

    def _drop(self) -> None:
        """Forget what was to be sent, and what came and was not read."""
        self._gave_up = True
        self._undelivered.clear()
        self._unread.clear()
        self._unacknowledged = 0
        self._cancel_retry()

    def _forget_if_idle(self) -> None:
        """The kernel forgets a socket that has no program and nothing left to send."""
        if (self._ended or self.loop.dead) and not self._undelivered:
            self._network.sockets.pop(self.number, None)


def _number_of(segment: _Segment) -> int:
    return segment[0]
