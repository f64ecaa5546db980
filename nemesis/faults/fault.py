"""What a fault is: a small object without state that breaks, proves, heals and proves again.

`aim` turns resolved nodes into a `Strike`, plain data that says exactly what will be done to whom;
`inject`, `effect`, `heal` and `healing` act on a strike through `Hosts`. The strike is journalled
before it is made. Faults that act more than once while they are in force (a flapping link, a
crash loop) have a `pulse`.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Protocol, Self

from nemesis.base import BadSchedule
from nemesis.hosts import Cut, Hosts


class Ability(StrEnum):
    """What a deployment target must be able to do for a fault to be injectable there."""

    SIGNALS = "signals"
    """Kill, stop and continue a node's process, and start it again."""
    CLIENT_SIGNALS = "client-signals"
    """Stop and continue the processes of clients."""
    PACKET_DROPS = "packet-drops"
    """Drop the packets that arrive at one node from another, one way, and count them."""
    LINK_QUALITY = "link-quality"
    """Delay, lose, reorder, duplicate and rate-limit the packets of a link."""
    CONNECTION_RESETS = "connection-resets"
    """End the TCP connections between two machines by a reset."""
    DISK_STALLS = "disk-stalls"
    """Freeze a node's file system."""
    DISK_FAULTS = "disk-faults"
    """Fill a node's file system, make it read-only, let its reads and writes fail."""
    DISK_READ_ONLY = "disk-read-only"
    """Turn a node's file system read-only under its open files."""
    FAILED_SYNCS = "failed-syncs"
    """Let one fsync fail, and what it was to write be taken for clean."""
    DISK_SPEED = "disk-speed"
    """Limit a node's disk in bytes and operations per second."""
    POWER_LOSS = "power-loss"
    """End a node with everything that it did not bring to its disk by fsync."""
    MACHINE_POWER = "machine-power"
    """Take the power from a node's whole machine, as a pulled plug does, and give it back."""
    FILES = "files"
    """Change, cut, replace and remove the files of a stopped node."""
    CLOCKS = "clocks"
    """Set each node's wall clock apart, its monotonic clock untouched."""
    ADMINISTRATION = "administration"
    """Change the cluster's members, replicas, topics and configs while it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A parameter that an event may give a fault."""

    name: str
    default: str
    about: str
    """What it means, with its unit."""
    read: Callable[[str], object] = str
    """Raises ValueError for what it cannot be, with a text that says what it can be."""


@dataclass(frozen=True, slots=True)
class Params:
    """A fault's parameters: those that the event gives, the defaults for the others."""

    values: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, options: Iterable[Option], given: Mapping[str, str]) -> Self:
        """Check what is given. Raises BadSchedule, naming the parameters that there are."""
        known = {option.name: option for option in options}
        for name, value in given.items():
            if name not in known:
                raise BadSchedule(
                    f"there is no parameter {name!r}; parameters are {', '.join(known) or 'none'}"
                )
            try:
                known[name].read(value)
            except ValueError as error:
                raise BadSchedule(f"parameter {name} is {value!r}: {error}") from error
        return cls({name: given.get(name, option.default) for name, option in known.items()})

    def text(self, name: str) -> str:
        """The parameter as it was written."""
        return self.values[name]

    def count(self, name: str) -> int:
        """The parameter as a whole number."""
        return int(self.values[name])

    def number(self, name: str) -> float:
        """The parameter as a number."""
        return float(self.values[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """One fault, aimed: plain data that says exactly what will be done to whom."""

    nodes: tuple[int, ...] = ()
    """The nodes that the fault is aimed at."""
    cuts: tuple[Cut, ...] = ()
    """Packets that are dropped."""
    links: tuple[tuple[int, int], ...] = ()
    """(src, dst): links whose packets are tampered with, one way."""
    details: tuple[tuple[str, str], ...] = ()
    """What else was decided: (name, value), such as a parameter or a file."""

    def detail(self, name: str) -> str:
        """The value of that name. Raises KeyError."""
        return dict(self.details)[name]

    def as_json(self) -> dict[str, object]:
        """The strike as JSON-able data, for the journal and the record of faults."""
        found = {key: value for key, value in asdict(self).items() if value}
        if self.cuts:
            found["cuts"] = [list(cut[:3]) for cut in self.cuts]
        if self.details:
            found["details"] = dict(self.details)
        return found

    def without(self, others: Sequence["Strike"], *, same_fault: Sequence["Strike"]) -> "Strike":
        """What is left of the strike when other strikes stay in force.

        A cut that any other strike holds stays as it is; a node only when the same kind of fault
        still holds it. Links are all given back: what faults do to a link are layers, each of
        which goes alone.
        """
        nodes = {node for strike in same_fault for node in strike.nodes}
        cuts = {cut for strike in others for cut in strike.cuts}
        return Strike(
            nodes=tuple(node for node in self.nodes if node not in nodes),
            cuts=tuple(cut for cut in self.cuts if cut not in cuts),
            links=self.links,
            details=self.details,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A measured proof: that a fault did something, or that its healing did; or that it did not."""

    took: bool
    evidence: str


class Fault(Protocol):
    """One way to break a cluster: stateless, reusable, safe to heal twice."""

    @property
    def name(self) -> str:
        """The name that plans and schedules use."""
        ...

    @property
    def about(self) -> str:
        """One sentence for the catalogue: what is done, by which means."""
        ...

    @property
    def needs(self) -> frozenset[Ability]:
        """What the deployment target must be able to do."""
        ...

    @property
    def options(self) -> tuple[Option, ...]:
        """The parameters that an event may give."""
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

    @property
    def pulse_ms(self) -> int | None:
        """How often `pulse` is called while the fault is in force; None for never."""
        ...

    @property
    def look_after_ms(self) -> int:
        """For how long `look_after` is called again and again once it is healed; 0 for not."""
        ...

    @property
    def heal_within_s(self) -> float:
        """How long its heal may take before it counts as hanging when all is to be healed."""
        ...

    def label(self, strike: Strike) -> str:
        """A short text for people: what was done to whom."""
        ...

    def aim(
        self, targets: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Strike:
        """What will be done, given the resolved targets and all nodes. Raises BadTargets."""
        ...

    def prepare(self, hosts: Hosts, strike: Strike) -> None:
        """Do beforehand what takes time and breaks nothing, so that `inject` is quick; may be left
        out, and nothing has to be undone.
        """
        ...

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Break it. Raises Futile when that would change nothing; then nothing was changed."""
        ...

    def pulse(self, hosts: Hosts, strike: Strike, elapsed_ms: int) -> None:
        """Act again, `elapsed_ms` after the injection; only what `heal` undoes."""
        ...

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """Measure, while the fault is in force, whether it does anything."""
        ...

    def heal(self, hosts: Hosts, strike: Strike) -> None:
        """Undo `inject` and every `pulse`, also when they failed half-way, also twice."""
        ...

    def healing(self, hosts: Hosts, strike: Strike) -> Effect:
        """Measure, after `heal`, whether everything is as it was."""
        ...

    def look_after(self, hosts: Hosts, strike: Strike) -> str:
        """Undo what the fault did to a node only after the heal; what that was, if anything.

        Other faults may be in force by then, on the same nodes too: theirs is to be left alone.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultBase:
    """What most faults have in common; a fault is a frozen dataclass on top of it."""

    name: str
    about: str
    needs: frozenset[Ability]
    options: tuple[Option, ...] = ()
    min_nodes: int = 1
    default_targets: str = "one"
    aimable: bool = True
    pulse_ms: int | None = None
    look_after_ms: int = 0
    heal_within_s: float = 45.0

    def label(self, strike: Strike) -> str:
        """Such as `kill node 2`; a fault without a target says just its name."""
        return f"{self.name} {node_list(strike.nodes)}" if strike.nodes else self.name

    def aim(
        self, targets: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Strike:
        """Every target, with the parameters as details."""
        return Strike(nodes=tuple(targets), details=tuple(sorted(params.values.items())))

    def prepare(self, hosts: Hosts, strike: Strike) -> None:
        """Nothing takes long."""

    def pulse(self, hosts: Hosts, strike: Strike, elapsed_ms: int) -> None:
        """Nothing more is done."""

    def look_after(self, hosts: Hosts, strike: Strike) -> str:
        """What is healed stays so."""
        return ""


def node_list(nodes: Sequence[int]) -> str:
    """Such as `node 2` or `nodes 1, 3`; the clients by their name."""
    named = [str(node) if node else "clients" for node in nodes]
    if named == ["clients"]:
        return "clients"
    return f"node{'s' if len(nodes) > 1 else ''} {', '.join(named)}"
