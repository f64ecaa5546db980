"""What may look on while a simulated world goes on: it is told, and changes nothing.

The network tells its observer, if it has one, of segments, and of programs that begin and end. An
observer keeps what it is told and looks at it later; it draws no random number, sets no timer and
touches no socket, so that a run has the same trace with and without.
"""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from harness.simulation.world.host import Host
    from harness.simulation.world.network.tcp import Socket


class Observer(Protocol):
    """See the module. Segments of a socket's stream are numbered from 0 on."""

    def sent(self, socket: "Socket", number: int, data: bytes) -> None:
        """The program has handed a segment to its kernel."""

    def held_up(self, socket: "Socket", number: int) -> None:
        """A segment that `socket` sent did not get through; its kernel will try again."""

    def arrived(self, socket: "Socket", number: int) -> None:
        """A segment that `socket` sent is with the other kernel."""

    def noted(self, host: "Host", what: str) -> None:
        """A program of the host began or ended."""
