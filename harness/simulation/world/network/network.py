"""The network of a simulated world: machines, listeners, and new connections.

Each ordered pair of machines has a link (`link`); `transport` has the connections. Bytes arrive
late, never wrong, and in the order in which they were sent. Packets of different connections
overtake each other.
"""

import asyncio
import errno
from dataclasses import dataclass, field
from typing import Any, Final

from harness.simulation.world.loop import HostLoop, Machine, ProtocolFactory
from harness.simulation.world.network.link import Link, NetworkSettings, PacketHeader, SocketName
from harness.simulation.world.network.observer import Observer
from harness.simulation.world.network.tcp import Socket
from harness.simulation.world.network.transport import Endpoint, pair
from harness.simulation.world.world import NS, World

SYN_RETRY_NS: Final = NS
SYN_RETRIES: Final = 6
"""The default of tcp_syn_retries."""
EPHEMERAL: Final = range(32_768, 61_000)


class Listener(asyncio.AbstractServer):
    """A listening socket of one incarnation: bound, and open for connections once it serves."""

    def __init__(
        self,
        network: "Network",
        loop: HostLoop,
        factory: ProtocolFactory,
        port: int,
        *,
        serving: bool,
    ) -> None:
        self.port = port
        self.listens = serving
        self.factory = factory
        self._network = network
        self._loop = loop

    @property
    def sockets(self) -> tuple[Any, ...]:
        """Stand-ins for sockets; they only know their address."""
        return (SocketName((self._loop.host.address, self.port)),) if self.is_serving() else ()

    def get_loop(self) -> HostLoop:
        return self._loop

    def is_serving(self) -> bool:
        return self._network.listener(self._loop.host.number, self.port) is self

    async def start_serving(self) -> None:
        self.listens = True

    async def serve_forever(self) -> None:
        try:
            await self._loop.create_future()
        finally:
            self.close()

    def close(self) -> None:
        self._network.unlisten(self)

    async def wait_closed(self) -> None:
        """Return at once: closing takes no time."""


@dataclass(slots=True, kw_only=True)
class _Registry:
    """The machines by number and by address, and the listeners by machine and port."""

    by_number: dict[int, Machine] = field(default_factory=dict)
    by_address: dict[str, Machine] = field(default_factory=dict)
    listeners: dict[tuple[int, int], Listener] = field(default_factory=dict)


class Network:
    """See the module."""

    def __init__(self, world: World, settings: NetworkSettings | None = None) -> None:
        self.world = world
        self.settings = settings or NetworkSettings()
        self.observer: Observer | None = None
        """The observer that is called for each segment; None if nothing observes the network."""
        self.sockets: dict[int, Socket] = {}
        """The sockets of connections that a kernel still knows, by number."""
        self._registry = _Registry()
        self._links: dict[tuple[int, int], Link] = {}
        self._last_port = EPHEMERAL.start

    def attach(self, machine: Machine) -> None:
        """Connect the machine to the network."""
        self._registry.by_number[machine.number] = machine
        self._registry.by_address[machine.address] = machine

    def detach(self, machine: Machine) -> None:
        """Remove the machine for good."""
        del self._registry.by_number[machine.number]
        del self._registry.by_address[machine.address]

    def machine(self, number: int) -> Machine | None:
        """Return the machine with that number, if there is one."""
        return self._registry.by_number.get(number)

    def link(self, src: int, dst: int) -> Link:
        """Return the link from one machine to another."""
        found = self._links.get((src, dst))
        if found is None:
            found = self._links[src, dst] = Link(self.world, src, dst, self.settings)
        return found

    # -- listening

    def listen(
        self,
        loop: HostLoop,
        factory: ProtocolFactory,
        host: str,
        port: int,
        *,
        serving: bool = True,
    ) -> Listener:
        """Bind a socket on the loop's host; it listens if `serving`. Raises OSError."""
        machine = loop.host
        if host not in ("", "0.0.0.0", machine.address):
            raise OSError(errno.EADDRNOTAVAIL, f"{machine.name} has no address {host}")
        port = port or self._free_port()
        place = machine.number, port
        if place in self._registry.listeners:
            raise OSError(errno.EADDRINUSE, f"port {port} of {machine.name} is in use")
        listener = self._registry.listeners[place] = Listener(
            self, loop, factory, port, serving=serving
        )
        return listener

    def listener(self, machine: int, port: int) -> Listener | None:
        """Return the listener at that port, if it serves."""
        bound = self._registry.listeners.get((machine, port))
        return bound if bound is not None and bound.listens else None

    def unlisten(self, listener: Listener) -> None:
        """Close a listening socket."""
        place = listener.get_loop().host.number, listener.port
        if self._registry.listeners.get(place) is listener:
            del self._registry.listeners[place]

    def _free_port(self) -> int:
        self._last_port += 1
        if self._last_port not in EPHEMERAL:
            self._last_port = EPHEMERAL.start
        return self._last_port

    # -- connecting

    async def connect(
        self, loop: HostLoop, factory: ProtocolFactory, host: str, port: int
    ) -> tuple[Endpoint, asyncio.BaseProtocol]:
        """Open a connection from the loop's host. Raises OSError: refused, timed out,
        unknown host.
        """
        machine = self._registry.by_address.get(host)
        if machine is None:
            raise OSError(errno.EHOSTUNREACH, f"no simulated host has the address {host}")
        attempt = _ConnectAttempt(self, loop, machine, port)
        attempt.send()
        try:
            endpoint = await attempt.connected
        finally:
            attempt.abandon()
        endpoint.connect_to(factory())
        return endpoint, endpoint.get_protocol()

    # -- machines that go

    def process_died(self, loop: HostLoop) -> None:
        """Close the process's sockets, as its kernel does; the kernel still sends what it was
        given.
        """
        self._close_listeners(loop)
        for socket in self._sockets_of(loop):
            socket.process_died()

    def power_lost(self, loop: HostLoop) -> None:
        """Drop the machine's sockets without a packet; the peers find out later, or never."""
        self._close_listeners(loop)
        for socket in self._sockets_of(loop):
            socket.power_lost()

    def reset(self, one: int, other: int) -> int:
        """Reset each connection between two machines at both ends; return the number of
        connections.
        """
        sockets = self.sockets_on(one, other)
        if one != other:
            sockets += self.sockets_on(other, one)
        return sum(socket.reset_both_ends() for socket in sockets)

    def sockets_on(self, src: int, dst: int) -> list[Socket]:
        """Return the ends on machine `src` of its connections with `dst`."""
        return [s for s in self.sockets.values() if (s.here, s.there) == (src, dst)]

    def _close_listeners(self, loop: HostLoop) -> None:
        for place, listener in list(self._registry.listeners.items()):
            if listener.get_loop() is loop:
                del self._registry.listeners[place]

    def _sockets_of(self, loop: HostLoop) -> list[Socket]:
        return [socket for socket in self.sockets.values() if socket.loop is loop]


class _ConnectAttempt:
    """One attempt to connect: what the kernels do until it succeeds, is refused or is given up."""

    def __init__(self, network: Network, loop: HostLoop, target: Machine, port: int) -> None:
        self.connected: asyncio.Future[Endpoint] = loop.create_future()
        self._network = network
        self._loop = loop
        self._target = target
        self._own = loop.host.address, network._free_port()
        self._there = target.address, port
        self._out = network.link(loop.host.number, target.number)
        self._back = network.link(target.number, loop.host.number)
        self._tries = 0
        self._abandoned = False

    def send(self) -> None:
        """Send a SYN, and send it again if it is lost."""
        world = self._network.world
        world.after(self._out.delay_ns(0), self._syn_arrives)

    def abandon(self) -> None:
        """Stop the attempt: the caller no longer waits."""
        self._abandoned = True

    def _syn_arrives(self) -> None:
        if self._abandoned or self._loop.dead:
            return
        out = PacketHeader(source=self._own[1], target=self._there[1], data=False)
        back = PacketHeader(source=self._there[1], target=self._own[1], data=False)
        if self._out.drops(out) or not self._target.powered or self._back.drops(back):
            self._try_again()
            return
        world = self._network.world
        back_ns = world.now_ns + self._back.delay_ns(0)
        listener = self._network.listener(self._target.number, self._there[1])
        if listener is None:
            what = f"nobody listens on {self._there[0]}:{self._there[1]}"
            self._fails(back_ns, ConnectionRefusedError(errno.ECONNREFUSED, what))
            return
        here, there = pair(self._network, self._loop, listener.get_loop(), self._own, self._there)
        accepted_ns = back_ns + self._out.delay_ns(0)
        here.nothing_arrives_before(accepted_ns)
        there.nothing_arrives_before(back_ns)
        self._loop.delivered_at_ns(back_ns, self._established, here)
        listener.get_loop().delivered_at_ns(accepted_ns, _accepted, listener, there)

    def _try_again(self) -> None:
        pause_ns = SYN_RETRY_NS << self._tries
        self._tries += 1
        if self._tries > SYN_RETRIES:
            what = f"{self._there[0]}:{self._there[1]} did not answer"
            error = TimeoutError(errno.ETIMEDOUT, what)
            self._fails(self._network.world.now_ns + pause_ns, error)
        else:
            self._network.world.after(pause_ns, self._syn_arrives)

    def _fails(self, when_ns: int, error: OSError) -> None:
        if not self._loop.dead:
            self._loop.delivered_at_ns(when_ns, self._failed, error)

    def _failed(self, error: OSError) -> None:
        if not self.connected.done():
            self.connected.set_exception(error)

    def _established(self, endpoint: Endpoint) -> None:
        if self.connected.done():
            endpoint.abort()
        elif endpoint.is_closing():
            what = f"{self._there[0]}:{self._there[1]} reset the connection"
            self._failed(ConnectionResetError(errno.ECONNRESET, what))
        else:
            self.connected.set_result(endpoint)


def _accepted(listener: Listener, endpoint: Endpoint) -> None:
    if endpoint.is_closing():
        return
    if listener.is_serving():
        endpoint.connect_to(listener.factory())
    else:
        endpoint.abort()
