"""What a node's machine is made of, as far as Linux targets differ in it.

The network, the disks and the faults are the same whatever it is: a machine has a network namespace
with a name, its processes are seen in /proc, and its files are below the run's directory, at the
same paths inside as outside.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from harness.targets.linux import processes
from harness.targets.linux.disks import throttles
from harness.targets.linux.disks.throttles import Group
from harness.targets.linux.network import namespaces
from harness.targets.linux.network.network import Recorder
from harness.targets.linux.processes import Process
from harness.targets.linux.undo import UNDO, Undo


class Machines(Protocol):
    """Makes the machines of one run's nodes, and starts processes in them."""

    @property
    def python(self) -> str:
        """The interpreter on a machine, which has the broker and all that it needs."""
        ...

    @property
    def undo(self) -> Mapping[str, Undo]:
        """How each kind of record is undone that a target of these machines makes."""
        ...

    def prepare(self, place: Path) -> None:
        """Make ready the directory below which the nodes' files will be; again is no error."""
        ...

    def make(self, node: int, namespace: Path, files: Path) -> None:
        """Make a machine whose network namespace, empty as yet, has that name; its files, the disk
        among them, are in the directory `files`. Raises OSError, TargetError.
        """
        ...

    def remove(self, node: int, namespace: Path) -> None:
        """Remove a machine and whoever lives in it; the name too. Raises TargetError."""
        ...

    @property
    def environment(self) -> Mapping[str, str]:
        """What a process on a machine begins with."""
        ...

    def spawn(
        self, node: int, namespace: Path, argv: Sequence[str], env: Mapping[str, str], log: Path
    ) -> Process:
        """Start a process of that whole environment, leader of a process group of its own, whose
        output is appended to `log`. Raises OSError, TargetError.
        """
        ...

    def groups(self, node: int, namespace: Path) -> Sequence[Group]:
        """The control groups whose limits hold for a machine's processes and for ours."""
        ...

    def enter(self, node: int, namespace: Path) -> str:
        """The shell command that takes a person onto a machine, as root."""
        ...


class Namespaces:
    """Machines that are network namespaces, and nothing else. See `Machines`."""

    python = sys.executable
    undo = UNDO

    def __init__(self, journal: Recorder) -> None:
        self._journal = journal

    def prepare(self, place: Path) -> None:
        """Nothing is to be done."""

    def make(self, node: int, namespace: Path, files: Path) -> None:
        """Make the namespace."""
        self._journal.record("local.netns", path=str(namespace))
        namespaces.create(namespace)

    def remove(self, node: int, namespace: Path) -> None:
        """Remove the namespace."""
        UNDO["local.netns"]({"path": str(namespace)})

    @property
    def environment(self) -> Mapping[str, str]:
        """This process's own."""
        return os.environ

    def spawn(
        self, node: int, namespace: Path, argv: Sequence[str], env: Mapping[str, str], log: Path
    ) -> Process:
        """A child of this process."""
        return processes.spawn(argv, namespace, env=env, log_path=log)

    def groups(self, node: int, namespace: Path) -> Sequence[Group]:
        """This process's own."""
        return throttles.groups()

    def enter(self, node: int, namespace: Path) -> str:
        """Into the namespace."""
        return f"nsenter --net={namespace}"
