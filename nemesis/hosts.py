"""The machines of a cluster, as far as faults reach into them: what a deployment target provides.

Every call is synchronous and quick (signals, netlink messages, ioctls, reads of /proc), so that the
nemesis can make it from its one thread, and says nothing of when or why: that is the schedule's.
Every change is undoable by whoever finds the target's own journal; undoing twice is no error. A
call may raise OSError or a target's own error; the nemesis records it with the fault. A part that a
target cannot offer raises on use; plans are refused before that by the abilities.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

CLIENTS: Final = 0
"""The number that stands for the clients' machine where a node's number is asked for."""
ANY_PORT: Final = 0


class Cut(NamedTuple):
    """Packets that are dropped on their way: those that arrive at `dst` from `src`, one way."""

    src: int
    dst: int
    port: int = ANY_PORT
    """Only what belongs to connections with this TCP port at either end."""


class Processes(Protocol):
    """The nodes' processes."""

    def node_ids(self) -> Sequence[int]:
        """All nodes of the cluster, running or not, in ascending order."""
        ...

    def start(self, node: int) -> None:
        """Start the node's process again, with its data as it was left."""
        ...

    def kill(self, node: int) -> None:
        """SIGKILL the node's processes and return when they are gone."""
        ...

    def pause(self, node: int) -> None:
        """SIGSTOP the node's processes."""
        ...

    def resume(self, node: int) -> None:
        """SIGCONT the node's processes."""
        ...

    def is_running(self, node: int) -> bool:
        """Whether the node's process exists (a paused one does)."""
        ...

    def state(self, node: int) -> str:
        """The process state letter of /proc/<pid>/stat: R, S, D, T...; empty when there is none."""
        ...


class Links(Protocol):
    """The network between nodes, and between nodes and clients (machine 0)."""

    def block(self, cut: Cut) -> None:
        """Drop what the cut says; again is no error."""
        ...

    def unblock(self, cut: Cut) -> None:
        """Undo `block`; nothing happens where nothing was blocked."""
        ...

    def dropped(self, cut: Cut) -> int | None:
        """Packets dropped since `block`; None where nothing is blocked."""
        ...


class Disks(Protocol):
    """The nodes' disks."""

    def freeze(self, node: int) -> None:
        """Stall the node's disk: writes and fsyncs block until `thaw`."""
        ...

    def thaw(self, node: int) -> None:
        """Undo `freeze`; nothing happens where nothing is frozen."""
        ...


class Clocks(Protocol):
    """The nodes' wall clocks."""


class Administration(Protocol):
    """The cluster's own administration: members, replicas, topics, configs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """Everything that faults may act on."""

    processes: Processes
    links: Links
    disks: Disks
    clocks: Clocks
    cluster: Administration
