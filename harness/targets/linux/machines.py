"""The difference between Linux targets: a node's machine is a namespace or a container.

Network, disks and faults are the same for both. A machine has a named network namespace, its
processes are visible in /proc, and its files are below the run's directory, at the same paths
inside and outside.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from harness.targets.linux import processes
from harness.targets.linux.disks import throttles
from harness.targets.linux.disks.throttles import ControlGroup
from harness.targets.linux.network import namespaces
from harness.targets.linux.processes import Process
from harness.targets.linux.recorder import Recorder
from harness.targets.linux.undo import UNDO, Undo


class MachineMaker(Protocol):
    """Makes machines that have nothing but a network namespace of a given name."""

    @property
    def undo(self) -> Mapping[str, Undo]:
        """How to undo each kind of record that a target with these machines makes."""
        ...

    def make(self, node: int, namespace: Path, files: Path) -> None:
        """Make a machine with an empty network namespace of that name. Its files, the disk too,
        are in the directory `files`. Raises OSError, TargetError.
        """
        ...


class Machines(MachineMaker, Protocol):
    """Makes the machines of one run's nodes, and starts processes in them."""

    @property
    def python(self) -> str:
        """The Python interpreter on a machine, which can import the broker."""
        ...

    def prepare(self, place: Path) -> None:
        """Prepare the directory of the nodes' files; a second call is no error."""
        ...

    def remove(self, node: int, namespace: Path) -> None:
        """Remove a machine with its processes and its namespace's name. Raises TargetError."""
        ...

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables of every process on a machine."""
        ...

    def spawn(
        self, node: int, namespace: Path, argv: Sequence[str], env: Mapping[str, str], log: Path
    ) -> Process:
        """Start a process with exactly this environment, as the leader of its own process group.

        Its output is appended to `log`. Raises OSError, TargetError.
        """
        ...

    def groups(self, node: int, namespace: Path) -> Sequence[ControlGroup]:
        """The control groups whose limits hold for a machine's processes and for the harness."""
        ...

    def enter(self, node: int, namespace: Path) -> str:
        """The command that opens a shell on a machine, as root."""
        ...


class Namespaces:
    """Machines that are only network namespaces. See `Machines`."""

    python = sys.executable
    undo = UNDO

    def __init__(self, journal: Recorder) -> None:
        self._journal = journal

    def prepare(self, place: Path) -> None:
        """Do nothing."""

    def make(self, node: int, namespace: Path, files: Path) -> None:
        """Make the namespace."""
        self._journal.record("local.netns", path=str(namespace))
        namespaces.create(namespace)

    def remove(self, node: int, namespace: Path) -> None:
        """Remove the namespace."""
        UNDO["local.netns"]({"path": str(namespace)})

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of this process."""
        return os.environ

    def spawn(
        self, node: int, namespace: Path, argv: Sequence[str], env: Mapping[str, str], log: Path
    ) -> Process:
        """Start a child of this process."""
        return processes.spawn(argv, namespace, env=env, log_path=log)

    def groups(self, node: int, namespace: Path) -> Sequence[ControlGroup]:
        """The control groups of this process."""
        return throttles.groups()

    def enter(self, node: int, namespace: Path) -> str:
        """A command that enters the namespace."""
        return f"nsenter --net={namespace}"
