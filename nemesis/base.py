"""The protocols that the nemesis needs from the harness, and the errors of this package.

Everything here is synchronous: the nemesis runs in one plain thread. See also `nemesis.hosts`.
"""

import threading
from collections.abc import Sequence
from typing import Protocol


class NemesisError(Exception):
    """Base of this package's errors.

    NemesisError
    ├── UnknownFault         no fault has that name
    ├── BadSelector          a selector that cannot be parsed
    ├── UnresolvedSelector   a selector that chooses no node now (no leader known); may be retried
    ├── NotApplicable        the fault would change nothing: the node is already down
    └── BadSchedule          a schedule file or event list that cannot be used
    """


class UnknownFault(NemesisError):
    """No fault has that name."""


class BadSelector(NemesisError):
    """The selector cannot be parsed, or can never choose a node of this cluster."""


class UnresolvedSelector(NemesisError):
    """The selector chooses no node right now, for instance the leader of a leaderless partition."""


class NotApplicable(NemesisError):
    """Injecting would change nothing; raised so that such a fault does not count as injected."""


class BadSchedule(NemesisError):
    """The schedule cannot be read, or contradicts itself."""


class ClusterView(Protocol):
    """The state of the cluster as its nodes report it; may lag behind, and is None if unknown."""

    def leader(self, topic: str, partition: int) -> int | None:
        """The partition's leader."""
        ...

    def controller(self) -> int | None:
        """The active controller: the leader of the metadata quorum, or the broker that ZooKeeper
        names."""
        ...

    def isr(self, topic: str, partition: int) -> Sequence[int] | None:
        """The partition's in-sync replicas."""
        ...

    def replicas(self, topic: str, partition: int) -> Sequence[int] | None:
        """The nodes assigned to the partition, in sync or not."""
        ...

    def elr(self, topic: str, partition: int) -> Sequence[int] | None:
        """The partition's eligible leader replicas (KIP-966)."""
        ...

    def ends(self, topic: str, partition: int) -> tuple[int, int] | None:
        """The high watermark and the log end offset that the partition's leader reports."""
        ...

    def coordinator(self, kind: str, key: str) -> int | None:
        """The coordinator of a group (kind `group`) or of a transactional id (`transaction`)."""
        ...

    def partitions(self) -> Sequence[tuple[str, int]]:
        """All partitions (topic, partition) of the run, in a stable order."""
        ...

    def brokers(self) -> Sequence[int]:
        """The broker ids, running or not, ascending."""
        ...

    def controllers(self) -> Sequence[int]:
        """The voters of the metadata quorum, running or not, ascending."""
        ...

    def zookeepers(self) -> Sequence[int]:
        """The nodes that run ZooKeeper servers, ascending; none beside a metadata quorum."""
        ...

    def zookeeper_leader(self) -> int | None:
        """The node whose server leads the ZooKeeper ensemble."""
        ...

    def voters(self) -> Sequence[int] | None:
        """The nodes that vote in the metadata quorum with their present disk (KIP-853) and have all
        that the quorum has committed, as its leader reported lately.
        """
        ...

    def answers(self, node: int) -> bool | None:
        """Whether the node answered the last request."""
        ...

    def fenced(self, node: int) -> bool | None:
        """Whether most brokers that answer report this broker as fenced."""
        ...

    def reassigning(self) -> bool | None:
        """Whether a partition reassignment is in progress."""
        ...


class EventOutcomes(Protocol):
    """The outcomes of a schedule's events so far. `event` is the event's name, the name of its
    fault, or its number.
    """

    def took_effect(self, event: str) -> bool:
        """Whether the effect of such an event has been measured."""
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
    """Run time: monotonic nanoseconds since the run's start, and a wait that can be interrupted."""

    def now_ns(self) -> int:
        """Nanoseconds since the run's start."""
        ...

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        """Wait up to `seconds`, or until `stop` is set; True when it is set."""
        ...
