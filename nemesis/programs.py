"""The interface to the program that a run tests: its instances, numbered from 1."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from nemesis.base import NotApplicable
from nemesis.clocks import Clocks


class Programs(Protocol):
    """The processes of the tested program. A supervisor starts an instance that ended again.

    `tag` names the fault that acts: an instance stays down, or stopped, until every fault has let
    it go. Letting go twice is no error.
    """

    def instances(self) -> Sequence[int]:
        """All instances, running or not, in ascending order."""
        ...

    def pid(self, instance: int) -> int | None:
        """The process of an instance; None while it does not run."""
        ...

    def kill(self, instance: int, tag: str) -> None:
        """SIGKILL all processes of an instance, wait for their end, and keep it down."""
        ...

    def release(self, instance: int, tag: str) -> None:
        """Keep the instance down no longer. Return when the supervisor has started it, unless
        another fault keeps it down, or it takes too long."""
        ...

    def is_kept_down(self, instance: int) -> bool:
        """Whether a fault keeps the instance down."""
        ...

    def pause(self, instance: int, tag: str) -> None:
        """SIGSTOP all processes of an instance."""
        ...

    def resume(self, instance: int, tag: str) -> None:
        """SIGCONT the instance, unless another fault still stops it."""
        ...

    def states(self, instance: int) -> Mapping[int, str]:
        """pid -> state letter of every process of an instance."""
        ...

    @property
    def clocks(self) -> Clocks:
        """The wall clocks of the instances, which are numbered as nodes are elsewhere."""
        ...


class NoProgram:
    """A run without a program."""

    def instances(self) -> Sequence[int]:
        """None."""
        return ()

    def pid(self, instance: int) -> int | None:
        """None."""
        return None

    def is_kept_down(self, instance: int) -> bool:
        """Never."""
        return False

    def states(self, instance: int) -> Mapping[int, str]:
        """None."""
        return {}

    @property
    def clocks(self) -> Clocks:
        """Raises NotApplicable."""
        raise NotApplicable("the run tests no program")

    def kill(self, instance: int, tag: str) -> None:
        """Raises NotApplicable."""
        raise NotApplicable("the run tests no program")

    def pause(self, instance: int, tag: str) -> None:
        """Raises NotApplicable."""
        raise NotApplicable("the run tests no program")

    def release(self, instance: int, tag: str) -> None:
        """Do nothing."""

    def resume(self, instance: int, tag: str) -> None:
        """Do nothing."""
