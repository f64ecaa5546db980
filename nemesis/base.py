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

    def partitions(self) -> Sequence[tuple[str, int]]:
        """All partitions (topic, partition) of the run, in a stable order."""
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
