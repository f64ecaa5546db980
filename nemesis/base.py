"""What the nemesis needs of its surroundings, and its errors.

Everything here is synchronous: the nemesis runs in one plain thread. The package knows neither the
broker nor the harness; the harness hands in objects that fit these protocols and `nemesis.hosts`.
"""

import threading
from collections.abc import Sequence
from typing import Protocol


class NemesisError(Exception):
    """Base of this package's errors.

    NemesisError
    ├── UnknownFault      no fault of that name
    ├── BadTargets        a target expression that cannot be parsed
    ├── Unresolved        a target that names nothing right now (no leader known); may be retried
    ├── Futile            the fault would change nothing: its target is already down
    └── BadSchedule       a schedule file or event list that cannot be used
    """


class UnknownFault(NemesisError):
    """No fault has that name."""


class BadTargets(NemesisError):
    """The target expression cannot be parsed, or can never name a node of this cluster."""


class Unresolved(NemesisError):
    """The target names nothing right now, for instance a partition without a leader."""


class Futile(NemesisError):
    """Injecting would change nothing; said instead of counting a fault that did nothing."""


class BadSchedule(NemesisError):
    """A schedule that cannot be read or that contradicts itself."""


class ClusterView(Protocol):
    """What the cluster says of itself; may lag behind, and says None when it does not know."""

    def leader(self, topic: str, partition: int) -> int | None:
        """The partition's leader."""
        ...

    def controller(self) -> int | None:
        """The active controller: the leader of the metadata quorum."""
        ...

    def isr(self, topic: str, partition: int) -> Sequence[int] | None:
        """The partition's in-sync replicas."""
        ...

    def replicas(self, topic: str, partition: int) -> Sequence[int] | None:
        """The nodes that are to hold the partition, in sync or not."""
        ...

    def elr(self, topic: str, partition: int) -> Sequence[int] | None:
        """The partition's eligible leader replicas (KIP-966)."""
        ...

    def ends(self, topic: str, partition: int) -> tuple[int, int] | None:
        """The high watermark and the end of the log, as the partition's leader names them."""
        ...

    def partitions(self) -> Sequence[tuple[str, int]]:
        """All partitions (topic, partition) of the run, in a stable order."""
        ...

    def brokers(self) -> Sequence[int]:
        """The nodes that may hold partitions, running or not, ascending."""
        ...

    def controllers(self) -> Sequence[int]:
        """The voters of the metadata quorum, running or not, ascending."""
        ...

    def voters(self) -> Sequence[int] | None:
        """The nodes that have a vote in the metadata quorum on the disk that they are on (KIP-853),
        and all that it has committed, by what its leader said lately.
        """
        ...

    def answers(self, node: int) -> bool | None:
        """Whether the node answered when it was last asked."""
        ...

    def fenced(self, node: int) -> bool | None:
        """Whether most brokers that answer hold this broker to be out of service."""
        ...

    def reassigning(self) -> bool | None:
        """Whether replicas are being moved."""
        ...


class Past(Protocol):
    """What became of the events of a schedule so far; an event goes by its name, by the name of
    its fault, or by its number.
    """

    def took(self, event: str) -> bool:
        """Whether such an event has its proof of effect."""
        ...

    def healed(self, event: str) -> bool:
        """Whether such an event is healed."""
        ...


class Journal(Protocol):
    """The run's append-only journal: on disk when `record` returns."""

    def record(self, kind: str, /, **fields: object) -> None:
        """Append one entry of `kind` with JSON-able fields, and fsync it."""
        ...


class Clock(Protocol):
    """Run time: monotonic nanoseconds since the run's start, and a wait that can be cut short."""

    def now_ns(self) -> int:
        """Nanoseconds since the run's start."""
        ...

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        """Wait up to `seconds`, or until `stop` is set; True when it is set."""
        ...
