"""The protocol of an observer of a simulated network. An observer changes nothing.

The network calls its observer, if there is one, for each segment, and for programs that begin and
end. An observer records the calls, and evaluates them later. It draws no random number, sets no
timer and touches no socket: a run has the same trace with and without it.
"""

from typing import Protocol

from harness.simulation.world.loop import HostLoop, Machine
from harness.simulation.world.network.link import SocketName


class ConnectionEnd(Protocol):
    """One end of a TCP connection (`tcp.Socket`), as an observer sees it."""

    number: int
    name: SocketName

    @property
    def loop(self) -> HostLoop:
        """The program's loop."""
        ...

    @property
    def peer(self) -> "ConnectionEnd":
        """The other end."""
        ...


class Observer(Protocol):
    """See the module. Each end numbers the segments that it sends, from 0."""

    def sent(self, socket: ConnectionEnd, number: int, data: bytes) -> None:
        """A program passed a segment to its kernel."""

    def held_up(self, socket: ConnectionEnd, number: int) -> None:
        """A segment from `socket` was dropped on its way; the kernel will retransmit it."""

    def arrived(self, socket: ConnectionEnd, number: int) -> None:
        """A segment from `socket` reached the other kernel."""

    def noted(self, host: Machine, what: str) -> None:
        """A program of the host began or ended."""
