"""A started instance of the tested program: a command's process, or a container."""

from collections.abc import Callable
from signal import Signals
from typing import IO, Protocol


class ProgramFailed(Exception):
    """The program cannot be started, or ends at once. The message is for people."""


class Started(Protocol):
    """One instance from its start to its end."""

    @property
    def pid(self) -> int:
        """Its first process here, which leads a process group."""
        ...

    @property
    def output(self) -> IO[bytes]:
        """What it prints, to its end."""
        ...

    def poll(self) -> int | None:
        """Return the exit code (negative: the signal) when it has ended; None before."""
        ...

    def wait(self, timeout_s: float) -> int:
        """Wait for the end and return the exit code. Raises subprocess.TimeoutExpired."""
        ...

    def signal(self, number: Signals) -> None:
        """Send a signal to its processes; one that has ended is no error."""
        ...

    def clean_up(self) -> None:
        """Remove what it left behind at its end: children, or its container."""
        ...


Starter = Callable[[int], Started]
"""Starts an instance, by its number. Raises ProgramFailed."""
