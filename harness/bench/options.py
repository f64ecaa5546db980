"""The options of a benchmark, checked before anything starts. Pure.

A wrong option is a BenchError, or a BadRequest for bad bootstrap servers, of one sentence.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, TypeVar

from harness.admin.client import parse_bootstrap
from harness.bench.points import (
    CONTROL_PLANES,
    OUTAGES,
    STARTED_ONLY,
    Client,
    Measure,
    Point,
    PointSelection,
    points,
)
from harness.plans.plan import PlanError, System

T = TypeVar("T", bound=StrEnum)

BUILT_IN: Final = "builtin"
KAFKA: Final = "kafka"
DEFAULT_NAME: Final = "highwater"
MAX_PARTITIONS: Final = 100_000
MAX_MESSAGES: Final = 10_000
MAX_PRODUCERS: Final = 100
MAX_FETCH_KB: Final = 65_536
MAX_SEND_BYTES: Final = 15 << 20
"""The greatest produce request; the topics accept 16 MB."""
MAX_ROUNDS: Final = 1000
MAX_DURATION_S: Final = 3600
MAX_SIZE: Final = 1 << 20
NODES: Final = 3


class BenchError(PlanError):
    """The options cannot be measured; the message is one sentence that says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSystem:
    """A measured system, as the command line names it."""

    name: str
    bootstrap: str | None
    """host:port[,host:port...]; None for a cluster that the benchmark starts."""
    system: System = "nodes"
    """The system of a cluster that the benchmark starts."""
    zookeeper: bool = False
    """Whether the control plane of that cluster is ZooKeeper."""
    kafka_39: bool = False
    """Whether Kafka is the one that `make kafka-zookeeper` has fetched."""
    properties: tuple[tuple[str, str], ...] = ()
    """Server properties of that cluster."""

    @property
    def is_ours(self) -> bool:
        """Whether the benchmark starts the cluster, and can stop its nodes."""
        return self.bootstrap is None


def _ours(
    name: str, system: System = "nodes", *, zookeeper: bool = False, **more: Any
) -> MeasuredSystem:
    return MeasuredSystem(name=name, bootstrap=None, system=system, zookeeper=zookeeper, **more)


STARTED: Final[Mapping[str, MeasuredSystem]] = {
    each.name: each
    for each in (
        _ours(BUILT_IN),
        _ours("builtin-zookeeper", zookeeper=True),
        _ours("builtin-one-by-one", zookeeper=True, properties=(("control.batched", "false"),)),
        _ours(KAFKA, "kafka"),
        _ours("kafka-3.9", "kafka", kafka_39=True),
        _ours("kafka-3.9-zookeeper", "kafka", zookeeper=True, kafka_39=True),
    )
}
"""Clusters that the benchmark starts, by their names on the command line. `one-by-one` is the
controller before Kafka 1.1, which waited for each write of a znode before the next (KAFKA-5642)."""
BESIDE_EACH_OTHER: Final = (
    *(BUILT_IN, "builtin-zookeeper", "builtin-one-by-one"),
    *("kafka-3.9", "kafka-3.9-zookeeper"),
)
"""The clusters that `bench control-planes` compares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a whole benchmark; `check` validates them."""

    selection: PointSelection
    systems: tuple[MeasuredSystem, ...]
    rounds: int
    duration_s: float
    warmup_s: float
    """The load before the rounds, for each measure and each cluster that the benchmark starts."""
    size: int
    """Bytes of a message's value."""
    seed: int
    broker: Mapping[str, str]
    """Server properties of the clusters that the benchmark starts, by Kafka's names."""
    broker_module: str
    kafka_home: str | None = None
    client_cpus: tuple[int, ...]
    """The processors that clients may use; empty is all."""
    check_crcs: bool

    @property
    def points(self) -> list[Point]:
        """The measured points."""
        return points(self.selection)


def quick(options: Options) -> Options:
    """Return options that take less than a minute: one short round with the ends of each sweep."""
    selection = options.selection
    return replace(
        options,
        rounds=1,
        duration_s=min(options.duration_s, 0.5),
        warmup_s=0.0,
        selection=selection._replace(
            messages=_ends(selection.messages),
            producers=_ends(selection.producers),
            fetch_bytes=_ends(selection.fetch_bytes),
            partitions=selection.partitions[:1],
        ),
    )


def _ends(values: Sequence[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys((values[0], values[-1])))


def check(options: Options) -> Options:
    """Return the options unchanged. Raises BenchError for options that contradict each other."""
    for what, value, most in (
        ("--rounds", options.rounds, MAX_ROUNDS),
        ("--duration", options.duration_s, MAX_DURATION_S),
        ("--size", options.size, MAX_SIZE),
    ):
        if not 0 < value <= most:  # NaN is neither
            raise BenchError(f"{what} {value}: must be above zero, and at most {most}")
    if not 0 <= options.warmup_s <= MAX_DURATION_S:
        raise BenchError(
            f"--warm-up {options.warmup_s}: must be zero or more, and at most {MAX_DURATION_S}"
        )
    most = max(options.selection.messages)
    if options.size * most > MAX_SEND_BYTES:
        raise BenchError(
            f"--messages-per-send {most}: {most} messages of {options.size} bytes are more than "
            f"the {MAX_SEND_BYTES >> 20} MB of one request"
        )
    names = [system.name for system in options.systems]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BenchError(f"--system {twice[0]}: is named twice; give each system its own name")
    started = [each.value for each in STARTED_ONLY if each in options.selection.measures]
    if started and not any(system.is_ours for system in options.systems):
        raise BenchError(
            f"{', '.join(started)}: stops nodes or looks at files, so it needs a cluster that the "
            f"benchmark starts; add --system {DEFAULT_NAME}={BUILT_IN}, or leave the measure out"
        )
    if not options.points:
        raise BenchError("nothing is left to measure; name other measures or systems")
    return options


def parse_measures(names: Sequence[str], *, ours: bool) -> tuple[Measure, ...]:
    """Return the named measures; without a name all possible ones. Raises BenchError."""
    if names:
        listed = [
            each for name in names for each in (OUTAGES if name == CONTROL_PLANES else (name,))
        ]
        return tuple(dict.fromkeys(_one_of(Measure, name, "measure") for name in listed))
    return tuple(measure for measure in Measure if ours or measure not in STARTED_ONLY)


def parse_clients(names: Sequence[str]) -> tuple[Client, ...]:
    """Return the named clients, each once. Raises BenchError."""
    clients = tuple(dict.fromkeys(_one_of(Client, name, "--client") for name in names))
    if Client.OWN in clients:
        raise BenchError("--client own: measures groups and transactions without being named")
    return clients


def parse_systems(named: Sequence[str], bootstrap: str | None) -> tuple[MeasuredSystem, ...]:
    """Return the systems of NAME=HOST:PORT[,...], NAME=CLUSTER or CLUSTER, one of STARTED.

    Without any it is the built-in cluster. Raises BenchError, and BadRequest for bad addresses.
    """
    systems = [] if bootstrap is None else [MeasuredSystem(name="system", bootstrap=bootstrap)]
    for text in named:
        name, given, where = text.partition("=")
        if not given and name in STARTED:
            name, where = DEFAULT_NAME if name == BUILT_IN else name, name
        if not name or not where:
            raise BenchError(
                f"--system {text}: write NAME=HOST:PORT[,HOST:PORT...], or NAME= and one of "
                f"{', '.join(STARTED)}"
            )
        systems.append(
            replace(STARTED[where], name=name)
            if where in STARTED
            else MeasuredSystem(name=name, bootstrap=where)
        )
    for system in systems:
        if system.bootstrap is not None:
            parse_bootstrap(system.bootstrap)
    return tuple(systems) or (MeasuredSystem(name=DEFAULT_NAME, bootstrap=None),)


def parse_numbers(option: str, text: str, *, most: int) -> tuple[int, ...]:
    """Return comma-separated numbers from 1 to `most`, ascending, each once. Raises BenchError."""
    return _listed(option, text, f"a whole number from 1 to {most}", lambda n: 1 <= int(n) <= most)


def parse_cpus(text: str, available: Iterable[int]) -> tuple[int, ...]:
    """Return comma-separated processors. Raises BenchError for one that is not available."""
    cpus = sorted(available)
    return _listed("--client-cpus", text, f"one of the processors {cpus}", lambda n: int(n) in cpus)


def parse_acks(values: Iterable[str]) -> tuple[int, ...]:
    """Return the acks modes as numbers, each once, weakest first. Raises BenchError."""
    known = {"0": 0, "1": 1, "all": -1}
    given = list(values)
    if wrong := [value for value in given if value not in known]:
        raise BenchError(f"--acks {wrong[0]}: is none of {', '.join(known)}")
    return tuple(acks for name, acks in known.items() if name in given or not given)


def _one_of(kind: type[T], name: str, what: str) -> T:
    try:
        return kind(name)
    except ValueError:
        raise BenchError(f"{what} {name!r}: is none of {', '.join(kind)}") from None


def _listed(
    option: str, text: str, accepts: str, accepted: Callable[[str], bool]
) -> tuple[int, ...]:
    numbers = set()
    for part in text.split(","):
        if not (part.strip().isdigit() and accepted(part)):
            raise BenchError(f"{option} {text}: {part.strip()!r} is not {accepts}")
        numbers.add(int(part))
    return tuple(sorted(numbers))
