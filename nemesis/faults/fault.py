"""The interface of a fault: a small object without state that breaks, heals, and measures both.

`plan_injection` turns the selected nodes into an `Injection`: plain data that says exactly what
will be done, and to which nodes. `inject`, `measure_effect`, `heal` and `measure_heal` carry it out
through `Hosts`. The injection is journalled before it is made. A fault that acts repeatedly while
it is in force (a flapping link, a crash loop) has a `tick`.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Protocol, Self, runtime_checkable

from nemesis.base import BadSchedule
from nemesis.hosts import Cut, Hosts


class Ability(StrEnum):
    """What a deployment target must be able to do so that a fault can be injected there."""

    SIGNALS = "signals"
    """Kill, stop, continue and restart a node's process."""
    CLIENT_SIGNALS = "client-signals"
    """Stop and continue the processes of clients."""
    PROGRAM_SIGNALS = "program-signals"
    """Kill, stop, continue and restart the tested program (workload kind `app`)."""
    PROGRAM_CLOCKS = "program-clocks"
    """Set the wall clock of each instance of the tested program."""
    PROGRAM_CUTS = "program-cuts"
    """Drop the packets between the tested program and nodes, and count them."""
    PACKET_DROPS = "packet-drops"
    """Drop the packets that arrive at one node from another, one way, and count them."""
    LINK_QUALITY = "link-quality"
    """Delay, lose, reorder, duplicate and rate-limit the packets of a link."""
    CONNECTION_RESETS = "connection-resets"
    """Reset the TCP connections between two machines."""
    DISK_STALLS = "disk-stalls"
    """Freeze a node's file system."""
    DISK_FAULTS = "disk-faults"
    """Fill a node's file system, or let its reads and writes fail."""
    DISK_READ_ONLY = "disk-read-only"
    """Turn a node's file system read-only under its open files."""
    FAILED_SYNCS = "failed-syncs"
    """Let one fsync fail, after which its pages count as clean."""
    DISK_SPEED = "disk-speed"
    """Limit a node's disk in bytes and operations per second."""
    POWER_LOSS = "power-loss"
    """End a node and lose everything that it did not fsync."""
    MACHINE_POWER = "machine-power"
    """Cut the power of a node's whole machine, as by pulling the plug, and restore it."""
    FILES = "files"
    """Change, truncate, replace and remove the files of a stopped node."""
    CLOCKS = "clocks"
    """Set each node's wall clock separately, without a change of its monotonic clock."""
    ADMINISTRATION = "administration"
    """Change the cluster's members, replicas, topics and configs while it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A parameter that an event may give a fault."""

    name: str
    default: str
    about: str
    """The meaning, with its unit."""
    read: Callable[[str], object] = str
    """Parses the value. Raises ValueError, whose text says which values are allowed."""


@dataclass(frozen=True, slots=True)
class Params:
    """A fault's parameters: the event's values, and defaults for the others."""

    values: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, options: Iterable[Option], given: Mapping[str, str]) -> Self:
        """Check the given values. Raises BadSchedule, which lists the parameters."""
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
class Injection:
    """One fault with all choices made: plain data that says what is done, and to which nodes."""

    nodes: tuple[int, ...] = ()
    """The nodes that the fault hits."""
    cuts: tuple[Cut, ...] = ()
    """Packets that are dropped."""
    links: tuple[tuple[int, int], ...] = ()
    """(src, dst): links whose packets are impaired, one way."""
    details: tuple[tuple[str, str], ...] = ()
    """Other choices: (name, value), such as a parameter or a file."""

    def detail(self, name: str) -> str:
        """The value of that name. Raises KeyError."""
        return dict(self.details)[name]

    def as_json(self) -> dict[str, object]:
        """The injection as JSON-able data, for the journal and the fault table."""
        found = {key: value for key, value in asdict(self).items() if value}
        if self.cuts:
            found["cuts"] = [list(cut[:3]) for cut in self.cuts]
        if self.details:
            found["details"] = dict(self.details)
        return found

    def exact_cuts(self) -> dict[str, object]:
        """All fields of the cuts, if `as_json` leaves some out: a later process may heal them."""
        if not any(cut.answers or cut.layer for cut in self.cuts):
            return {}
        return {"exact_cuts": [list(cut) for cut in self.cuts]}

    @classmethod
    def from_journal(cls, entry: Mapping[str, Any]) -> Self:
        """Return the injection that a journal's record of a fault has."""
        cuts = entry.get("exact_cuts") or entry.get("cuts") or ()
        return cls(
            nodes=tuple(entry.get("nodes") or ()),
            cuts=tuple(Cut(*each) for each in cuts),
            links=tuple((src, dst) for src, dst in entry.get("links") or ()),
            details=tuple(dict(entry.get("details") or {}).items()),
        )

    def without(
        self, others: Sequence["Injection"], *, same_fault: Sequence["Injection"]
    ) -> "Injection":
        """The part of the injection to heal while other injections stay in force.

        A cut that any other injection holds stays. A node stays only if an injection of the same
        fault holds it. All links are healed: faults act on a link in layers, and each layer is
        removed separately.
        """
        nodes = {node for injection in same_fault for node in injection.nodes}
        cuts = {cut for injection in others for cut in injection.cuts}
        return Injection(
            nodes=tuple(node for node in self.nodes if node not in nodes),
            cuts=tuple(cut for cut in self.cuts if cut not in cuts),
            links=self.links,
            details=self.details,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Measured evidence that a fault, or its heal, had its effect (`confirmed`) or did not."""

    confirmed: bool
    evidence: str
    damaged: Mapping[int, Sequence[str]] | None = None
    """The files that the fault changed, by node; None: it changes none, or nobody knows which."""


@runtime_checkable
class Fault(Protocol):
    """One way to break a cluster: stateless, reusable, safe to heal twice."""

    @property
    def name(self) -> str:
        """The name that plans and schedules use."""
        ...

    @property
    def about(self) -> str:
        """One sentence for the catalogue: what the fault does, and by which means."""
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
        """The smallest cluster in which the fault makes sense."""
        ...

    @property
    def default_selector(self) -> str:
        """The selector of an event that gives none."""
        ...

    @property
    def selectable(self) -> bool:
        """Whether a generated schedule may give it any selector; otherwise it gets its default."""
        ...

    @property
    def tick_ms(self) -> int | None:
        """How often `tick` is called while the fault is in force; None for never."""
        ...

    @property
    def follow_up_ms(self) -> int:
        """How long `follow_up` is called repeatedly after the heal; 0 for never."""
        ...

    @property
    def heal_timeout_s(self) -> float:
        """How long the heal may take at the end of a run before it counts as hanging."""
        ...

    def label(self, injection: Injection) -> str:
        """A short text for people: what was done, and to which nodes."""
        ...

    def plan_injection(
        self, selected: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Injection:
        """Decide what will be done, given the selected nodes and all nodes. Raises BadSelector."""
        ...

    def prepare(self, hosts: Hosts, injection: Injection) -> None:
        """Do slow and harmless preparations, so that `inject` is quick. Optional; needs no undo."""
        ...

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Inject the fault. Raises NotApplicable, before any change, if it would change nothing."""
        ...

    def tick(self, hosts: Hosts, injection: Injection, elapsed_ms: int) -> None:
        """Act again, `elapsed_ms` after the injection; `heal` must undo it."""
        ...

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Measure, while the fault is in force, whether it has an effect."""
        ...

    def heal(self, hosts: Hosts, injection: Injection) -> None:
        """Undo `inject` and every `tick`, also if they failed half-way; may be repeated."""
        ...

    def measure_heal(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Measure, after `heal`, whether everything is as before."""
        ...

    def follow_up(self, hosts: Hosts, injection: Injection) -> str:
        """Undo late consequences of the fault that appear after the heal; return what was done.

        Other faults may be in force by then, also on the same nodes; their effects must stay.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultBase:
    """The common parts of most faults; a fault is a frozen dataclass that inherits from it."""

    name: str
    about: str
    needs: frozenset[Ability]
    options: tuple[Option, ...] = ()
    min_nodes: int = 1
    default_selector: str = "one"
    selectable: bool = True
    tick_ms: int | None = None
    follow_up_ms: int = 0
    heal_timeout_s: float = 45.0

    def label(self, injection: Injection) -> str:
        """For example `kill node 2`; just the name for a fault without nodes."""
        return f"{self.name} {node_list(injection.nodes)}" if injection.nodes else self.name

    def plan_injection(
        self, selected: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Injection:
        """Every selected node, with the parameters as details."""
        return Injection(nodes=tuple(selected), details=tuple(sorted(params.values.items())))

    def prepare(self, hosts: Hosts, injection: Injection) -> None:
        """Do nothing."""

    def tick(self, hosts: Hosts, injection: Injection, elapsed_ms: int) -> None:
        """Do nothing."""

    def follow_up(self, hosts: Hosts, injection: Injection) -> str:
        """Do nothing."""
        return ""


def node_list(nodes: Sequence[int]) -> str:
    """For example `node 2`, `nodes 1, 3` or `clients`."""
    named = [str(node) if node else "clients" for node in nodes]
    if named == ["clients"]:
        return "clients"
    return f"node{'s' if len(nodes) > 1 else ''} {', '.join(named)}"
