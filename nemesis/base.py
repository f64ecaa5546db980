"""What a nemesis needs of a cluster, and what a fault is.

A fault is a small object with no state of its own: `aim` turns resolved nodes into a `Strike`
(plain data: which nodes, which packets); `inject`, `effect`, `heal` and `ailing` act on a strike
through `Hosts`. The strike is journalled before it is made, so that somebody else can undo it.

Everything here is synchronous and quick (signals, netlink messages, reads of /proc): the nemesis
runs in one plain thread. The package knows neither the broker nor the harness; the harness hands
in objects that fit the protocols below.
"""

import random
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
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


class Ability(StrEnum):
    """What a deployment target must be able to do for a fault to be injectable there."""

    SIGNALS = "signals"
    """Kill, stop and continue a node's process, and start it again."""
    PACKET_DROPS = "packet-drops"
    """Drop the packets that arrive at one node from another, one way, and count them."""


class Hosts(Protocol):
    """The machines of the cluster, as far as faults reach into them.

    Every call may raise OSError or a target's own error; the nemesis records it with the fault.
    """

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

    def block(self, src: int, dst: int) -> None:
        """Drop the packets that arrive at `dst` from `src`, one way; again is no error."""
        ...

    def unblock(self, src: int, dst: int) -> None:
        """Undo `block`; nothing happens where nothing was blocked."""
        ...

    def blocked_packets(self, src: int, dst: int) -> int:
        """Packets from `src` dropped at `dst` since `block`; 0 where nothing is blocked."""
        ...

    def state(self, node: int) -> str:
        """The process state letter of /proc/<pid>/stat: R, S, D, T...; empty when there is none."""
        ...


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """One fault, aimed: plain data that says exactly what will be done to whom."""

    nodes: tuple[int, ...] = ()
    """The nodes that the fault is aimed at."""
    drops: tuple[tuple[int, int], ...] = ()
    """(src, dst): packets that arrive at dst from src are dropped."""

    def as_json(self) -> dict[str, object]:
        """The strike as JSON-able data, for the journal and the record of faults."""
        return {key: value for key, value in asdict(self).items() if value}

    def without(self, nodes: Sequence[int], drops: Sequence[tuple[int, int]]) -> "Strike":
        """What is left of the strike when others still hold `nodes` and `drops`."""
        return Strike(
            nodes=tuple(node for node in self.nodes if node not in nodes),
            drops=tuple(pair for pair in self.drops if pair not in drops),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The measured proof that a fault did something, or that it did not."""

    took: bool
    evidence: str


class Fault(Protocol):
    """One way to break a cluster: stateless, reusable, safe to heal twice."""

    @property
    def name(self) -> str:
        """The name that plans and schedules use."""
        ...

    @property
    def needs(self) -> frozenset[Ability]:
        """What the deployment target must be able to do."""
        ...

    @property
    def min_nodes(self) -> int:
        """The smallest cluster in which the fault means anything."""
        ...

    @property
    def default_targets(self) -> str:
        """The target expression of an event that names none."""
        ...

    @property
    def aimable(self) -> bool:
        """Whether a generated schedule may aim it at any target; else it takes its default."""
        ...

    def label(self, strike: Strike) -> str:
        """A short text for people: what was done to whom."""
        ...

    def aim(
        self,
        targets: Sequence[int],
        nodes: Sequence[int],
        rng: random.Random,
        params: Mapping[str, str],
    ) -> Strike:
        """What will be done, given the resolved targets and all nodes. Raises BadTargets."""
        ...

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Break it."""
        ...

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """Measure, while the fault is in force, whether it does anything."""
        ...

    def heal(self, hosts: Hosts, strike: Strike) -> None:
        """Undo `inject`, also when it failed half-way, also twice."""
        ...

    def ailing(self, hosts: Hosts, strike: Strike) -> str | None:
        """After `heal`: what is still broken, or None."""
        ...
