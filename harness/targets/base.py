"""What a run asks of a deployment target, whatever its machines are made of.

A target gives every node an address, a data directory and a process under control, puts clients
on the same network, and breaks what it is told to break. It judges nothing: which fault hits whom,
and whether anything was lost by it, is decided elsewhere. Every call is synchronous and quick, so
that a nemesis can make it from a plain thread.
"""

import subprocess
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NoReturn, Protocol

from nemesis.hosts import CLIENTS as CLIENTS
from nemesis.hosts import Clients, Clocks, Disks, Links, Power


class TargetError(Exception):
    """Base of what a target raises; what it was doing may be half done, `down` copes with that.

    TargetError
    ├── UnknownNode        no node of that number on this target
    ├── NodeState          the node is not in a state that allows this (start of a running one)
    ├── NotInForce         a fault was made, but the kernel does not show it within the bound
    ├── Unsupported        this target, volume or machine cannot do that at all
    └── PrivilegeMissing   neither root nor a user namespace is to be had
    """


class UnknownNode(TargetError):
    """No node of that number on this target."""


class NodeState(TargetError):
    """The node's state does not allow what was asked."""


class NotInForce(TargetError):
    """The kernel does not show the fault's effect within the bound."""


class Unsupported(TargetError):
    """This target, volume or machine cannot do what was asked."""


class PrivilegeMissing(TargetError):
    """Neither root nor a user namespace is to be had."""


class ClientProcesses(Clients, Protocol):
    """The processes of clients; whoever starts one otherwise than by `spawn_client` says so."""

    def adopt(self, process: subprocess.Popen[bytes]) -> None:
        """Count the process among the clients."""
        ...


class NoPower:
    """See `nemesis.hosts.Power`: of machines without a plug that could be pulled."""

    def _none(self, *_: object) -> NoReturn:
        raise Unsupported("no hypervisor of ours gives these machines their power")

    cut = is_off = restore = boot = _none


class Target(Protocol):
    """The machines of one run: n nodes and one place for clients, on a network of their own."""

    @property
    def abilities(self) -> frozenset[str]:
        """What can be broken here, by the names of `nemesis.faults.fault.Ability`."""
        ...

    @property
    def clients(self) -> ClientProcesses:
        """The processes of clients, to be stopped."""
        ...

    @property
    def links(self) -> Links:
        """The network, to be broken."""
        ...

    @property
    def disks(self) -> Disks:
        """The nodes' disks, to be broken."""
        ...

    @property
    def clocks(self) -> Clocks:
        """The nodes' wall clocks, to be set."""
        ...

    @property
    def power(self) -> Power:
        """The nodes' machines' power, to be cut."""
        ...

    def python(self, node: int) -> str:
        """The interpreter on the node's machine, which has the broker and all that it needs."""
        ...

    def up(self) -> None:
        """Make the machines; nothing runs on them yet. On an error, call `down`."""
        ...

    def down(self, *, keep_data: bool = False) -> None:
        """End every process and remove every machine, their data too unless `keep_data`; safe to
        call twice and half-way.
        """
        ...

    def node_ids(self) -> Sequence[int]:
        """All nodes, running or not, ascending."""
        ...

    def add_node(self, node: int) -> None:
        """Make one more machine; nothing runs on it yet."""
        ...

    def remove_node(self, node: int, *, keep_data: bool = False) -> None:
        """End the node's processes and remove its machine, its data too unless `keep_data`."""
        ...

    def address(self, node: int) -> str:
        """The IPv4 address of a node, or of the clients' machine."""
        ...

    def data_dir(self, node: int) -> Path:
        """The directory on the node's own volume, as the harness sees it: RUN/nodes/<node>/data.

        On another machine's disk, what `fetch` has brought of it.
        """
        ...

    def home(self, node: int) -> Path:
        """What RUN/nodes/<node> is on the node's own machine: the data is below it, in data."""
        ...

    def environment(self, node: int) -> Mapping[str, str]:
        """What a process on the node's machine begins with."""
        ...

    def place(self, node: int, path: Path) -> Path:
        """Where a file or directory of this machine, which nodes read, is on the node's machine."""
        ...

    def publish(self, node: int) -> None:
        """Bring the files and directories that are in RUN/nodes/<node> to the node's machine."""
        ...

    def fetch(self, node: int, *names: str) -> None:
        """Bring these files and directories of the node's home, all without names, as they are by
        now to RUN/nodes/<node>; what is there no more goes here too.
        """
        ...

    def set_command(
        self, node: int, argv: Sequence[str], env: Mapping[str, str], log_path: Path
    ) -> None:
        """Register what `start` runs; its output is appended to `log_path`. All paths are those of
        the node's machine.
        """
        ...

    def start(self, node: int) -> None:
        """Start the node's registered command."""
        ...

    def stop(self, node: int, timeout_s: float = 10.0) -> bool:
        """SIGTERM and wait; SIGKILL at the bound. True when it ended by itself."""
        ...

    def terminate(self, node: int) -> None:
        """SIGTERM the node's process and return at once."""
        ...

    def kill(self, node: int) -> None:
        """SIGKILL the node's processes and return when they are gone."""
        ...

    def pause(self, node: int) -> None:
        """SIGSTOP the node's processes and return when all of them stand still."""
        ...

    def resume(self, node: int) -> None:
        """SIGCONT the node's processes."""
        ...

    def is_running(self, node: int) -> bool:
        """Whether the node's process exists; a paused one does."""
        ...

    def exit_code(self, node: int) -> int | None:
        """How the node's last process ended (negative: by that signal); None while it runs."""
        ...

    def take_deaths(self) -> Sequence[tuple[int, int | None]]:
        """Nodes whose processes ended though nobody asked that of this target, and how they ended
        (as `exit_code`), in the order in which that was seen; each is told once.
        """
        ...

    def state(self, node: int) -> str:
        """The process state letter as the kernel gives it; empty when there is no process."""
        ...

    def spawn_client(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        log_path: Path | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a process on the clients' machine; the caller waits for it, `down` ends it."""
        ...

    def enter(self, machine: int) -> str:
        """The shell command that takes a person onto a machine."""
        ...

    def in_client_netns(self) -> AbstractContextManager[None]:
        """Move the calling thread to the clients' network for the duration of the block."""
        ...
