"""The interface of a deployment target, whatever its machines are made of.

A target gives every node an address, a data directory and a controlled process. It puts clients on
the same network, and it makes faults. Which fault hits which node, and whether data was lost, is
decided elsewhere. Every call is synchronous and quick, so that the nemesis can call it from a plain
thread.
"""

import subprocess
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NoReturn, Protocol

from nemesis.hosts import CLIENTS as CLIENTS
from nemesis.hosts import Clients, Clocks, Disks, Links, Power


class TargetError(Exception):
    """Base of a target's errors. The call may be half done; `down` cleans up after it.

    TargetError
    ├── UnknownNode        the target has no node of that number
    ├── NodeState          the node's state does not allow the call (start of a running node)
    ├── NotInForce         a fault was made, but the kernel does not show its effect in time
    ├── Unsupported        this target, volume or machine cannot do that at all
    └── PrivilegeMissing   the user is not root, and user namespaces are not allowed
    """


class UnknownNode(TargetError):
    """The target has no node of that number."""


class NodeState(TargetError):
    """The node's state does not allow the call."""


class NotInForce(TargetError):
    """The kernel does not show the fault's effect in time."""


class Unsupported(TargetError):
    """This target, volume or machine cannot do that at all."""


class PrivilegeMissing(TargetError):
    """The user is not root, and user namespaces are not allowed."""


class ClientProcesses(Clients, Protocol):
    """The processes of clients."""

    program_namespace: Path | None
    """The network namespace of the tested program, if it has one of its own."""

    def adopt(self, process: subprocess.Popen[bytes]) -> None:
        """Add a process that was not started by `spawn_client` to the clients."""
        ...


class NoPower:
    """See `nemesis.hosts.Power`: machines whose power the harness cannot switch."""

    def _none(self, *_: object) -> NoReturn:
        raise Unsupported("these machines have no hypervisor that the harness can call")

    cut = is_off = restore = boot = _none


class Target(Protocol):
    """The machines of one run: the nodes and one machine for the clients, on one network."""

    @property
    def abilities(self) -> frozenset[str]:
        """The supported abilities, named as in `nemesis.faults.fault.Ability`."""
        ...

    @property
    def clients(self) -> ClientProcesses:
        """The processes of clients, and their faults."""
        ...

    @property
    def links(self) -> Links:
        """The network's faults."""
        ...

    @property
    def disks(self) -> Disks:
        """The faults of the nodes' disks."""
        ...

    @property
    def clocks(self) -> Clocks:
        """The faults of the nodes' wall clocks."""
        ...

    @property
    def power(self) -> Power:
        """The power of the nodes' machines."""
        ...

    def python(self, node: int) -> str:
        """The Python interpreter on the node's machine, which can import the broker."""
        ...

    def up(self) -> None:
        """Make the machines; no process runs on them yet. After an error, call `down`."""
        ...

    def down(self, *, keep_data: bool = False) -> None:
        """End every process and remove every machine; the data too unless `keep_data`.

        Safe to call twice, and after a failed `up`.
        """
        ...

    def node_ids(self) -> Sequence[int]:
        """All nodes, running or not, ascending."""
        ...

    def add_node(self, node: int) -> None:
        """Make one more machine; no process runs on it yet."""
        ...

    def remove_node(self, node: int, *, keep_data: bool = False) -> None:
        """End the node's processes and remove its machine; the data too unless `keep_data`."""
        ...

    def address(self, node: int) -> str:
        """The IPv4 address of a node, or of the clients' machine."""
        ...

    def data_dir(self, node: int) -> Path:
        """The node's data directory as the harness sees it: RUN/nodes/<node>/data.

        For a node on another machine it holds the files that `fetch` has copied.
        """
        ...

    def home(self, node: int) -> Path:
        """The path of RUN/nodes/<node> on the node's own machine; the data is in its `data`."""
        ...

    def environment(self, node: int) -> Mapping[str, str]:
        """The environment variables of every process on the node's machine."""
        ...

    def place(self, node: int, path: Path) -> Path:
        """The path on the node's machine of a file or directory that the nodes read."""
        ...

    def publish(self, node: int) -> None:
        """Copy the files and directories in RUN/nodes/<node> to the node's machine."""
        ...

    def fetch(self, node: int, *names: str) -> None:
        """Copy files and directories of the node's home to RUN/nodes/<node>; all without names.

        Files that no longer exist on the node's machine are removed here too.
        """
        ...

    def set_command(
        self, node: int, argv: Sequence[str], env: Mapping[str, str], log_path: Path
    ) -> None:
        """Register the command for `start`; its output is appended to `log_path`.

        All paths are paths on the node's machine.
        """
        ...

    def start(self, node: int) -> None:
        """Start the node's registered command."""
        ...

    def stop(self, node: int, timeout_s: float = 10.0) -> bool:
        """SIGTERM and wait; SIGKILL after `timeout_s`. Return True when it ended in time."""
        ...

    def terminate(self, node: int) -> None:
        """SIGTERM the node's process and return at once."""
        ...

    def kill(self, node: int) -> None:
        """SIGKILL the node's processes and return when they have ended."""
        ...

    def pause(self, node: int) -> None:
        """SIGSTOP the node's processes and return when all are stopped."""
        ...

    def resume(self, node: int) -> None:
        """SIGCONT the node's processes."""
        ...

    def is_running(self, node: int) -> bool:
        """Whether the node's process exists; a paused process does."""
        ...

    def exit_code(self, node: int) -> int | None:
        """The exit code of the node's last process (negative: the signal); None while it runs."""
        ...

    def take_unexpected_exits(self) -> Sequence[tuple[int, int | None]]:
        """Return (node, exit code) of each process that ended without a request to this target.

        They are in the order of their detection. Each exit is returned once.
        """
        ...

    def state(self, node: int) -> str:
        """The kernel's process state letter; empty without a process."""
        ...

    def spawn_client(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        log_path: Path | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a process on the clients' machine. The caller waits for it; `down` ends it."""
        ...

    def enter(self, machine: int) -> str:
        """The command that opens a shell on a machine."""
        ...

    def in_client_netns(self) -> AbstractContextManager[None]:
        """Move the calling thread to the clients' network for the block."""
        ...
