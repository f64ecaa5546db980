"""What `highwater bench` may be asked for, checked before anything starts. Pure.

Everything wrong is a BenchError of one sentence.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeVar

from harness.bench.points import OUTAGES, Client, Measure, Point, Wanted, points
from harness.plans.plan import PlanError, System

T = TypeVar("T", bound=StrEnum)

BUILT_IN: Final = "builtin"
KAFKA: Final = "kafka"
STARTED: Final[Mapping[str, System]] = {BUILT_IN: "nodes", KAFKA: "kafka"}
"""In place of addresses: clusters that the command starts itself, as plans name their systems."""
DEFAULT_NAME: Final = "highwater"
MAX_PARTITIONS: Final = 100_000
MAX_MESSAGES: Final = 10_000
MAX_PRODUCERS: Final = 100
MAX_FETCH_KB: Final = 65_536
MAX_SEND_BYTES: Final = 15 << 20
"""Of one produce request; the topics take 16 MB."""
MAX_ROUNDS: Final = 1000
MAX_DURATION_S: Final = 3600
MAX_SIZE: Final = 1 << 20
NODES: Final = 3


class BenchError(PlanError):
    """What was asked for cannot be measured; one sentence that says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemName:
    """A system under measurement, as it was named."""

    name: str
    bootstrap: str | None
    """host:port[,host:port...]; None for a cluster that the command starts."""
    system: System = "nodes"
    """Which that is."""

    @property
    def is_ours(self) -> bool:
        """Whether its nodes can be stopped."""
        return self.bootstrap is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """A whole benchmark, valid by construction through `build`."""

    wanted: Wanted
    systems: tuple[SystemName, ...]
    rounds: int
    duration_s: float
    size: int
    """Bytes of a message's value."""
    seed: int
    broker: Mapping[str, str]
    """Properties of the built-in cluster's nodes, by Kafka's names."""
    broker_module: str
    kafka_home: str | None = None
    client_cpus: tuple[int, ...]
    """Where clients run; empty is anywhere."""
    check_crcs: bool

    @property
    def points(self) -> list[Point]:
        """What is measured."""
        return points(self.wanted)


def quick(options: Options) -> Options:
    """The same in under a minute: one round, short, the ends of each sweep."""
    wanted = options.wanted
    return replace(
        options,
        rounds=1,
        duration_s=min(options.duration_s, 0.5),
        wanted=wanted._replace(
            messages=_ends(wanted.messages),
            producers=_ends(wanted.producers),
            fetch_bytes=_ends(wanted.fetch_bytes),
            partitions=wanted.partitions[:1],
        ),
    )


def _ends(values: Sequence[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys((values[0], values[-1])))


def check(options: Options) -> Options:
    """The options as they are. Raises BenchError for what contradicts itself."""
    for what, value, most in (
        ("--rounds", options.rounds, MAX_ROUNDS),
        ("--duration", options.duration_s, MAX_DURATION_S),
        ("--size", options.size, MAX_SIZE),
    ):
        if not 0 < value <= most:  # NaN is neither
            raise BenchError(f"{what} {value}: must be above zero, and at most {most}")
    if options.size * max(options.wanted.messages) > MAX_SEND_BYTES:
        raise BenchError(
            f"--messages-per-send {max(options.wanted.messages)}: of {options.size} bytes each are "
            f"more than the {MAX_SEND_BYTES >> 20} MB of one request"
        )
    names = [system.name for system in options.systems]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BenchError(f"--system {twice[0]}: is named twice; give each system its own name")
    stopping = [measure.value for measure in OUTAGES if measure in options.wanted.measures]
    if stopping and not any(system.is_ours for system in options.systems):
        raise BenchError(
            f"{', '.join(stopping)}: stops nodes, which only a cluster of our own allows; add "
            f"--system {DEFAULT_NAME}={BUILT_IN}, or leave it out"
        )
    if not options.points:
        raise BenchError("nothing is left to be measured")
    return options


def parse_measures(names: Sequence[str], *, ours: bool) -> tuple[Measure, ...]:
    """The measures named; without a name all that are possible. Raises BenchError."""
    if names:
        return tuple(dict.fromkeys(_one_of(Measure, name, "measure") for name in names))
    return tuple(measure for measure in Measure if ours or measure not in OUTAGES)


def parse_clients(names: Sequence[str]) -> tuple[Client, ...]:
    """raw, librdkafka, or both. Raises BenchError."""
    return tuple(dict.fromkeys(_one_of(Client, name, "--client") for name in names))


def parse_systems(named: Sequence[str], bootstrap: str | None) -> tuple[SystemName, ...]:
    """From NAME=HOST:PORT[,...], NAME=builtin, NAME=kafka, builtin or kafka; without any, the
    built-in cluster. Raises BenchError.
    """
    systems = [] if bootstrap is None else [SystemName(name="system", bootstrap=bootstrap)]
    for text in named:
        name, given, where = text.partition("=")
        if not given and name in STARTED:
            name, where = DEFAULT_NAME if name == BUILT_IN else name, name
        if not name or not where:
            raise BenchError(
                f"--system {text}: write NAME=HOST:PORT[,HOST:PORT...], NAME={BUILT_IN} or "
                f"NAME={KAFKA}"
            )
        systems.append(
            SystemName(name=name, bootstrap=None, system=STARTED[where])
            if where in STARTED
            else SystemName(name=name, bootstrap=where)
        )
    for system in systems:
        if system.bootstrap is not None:
            parse_bootstrap(system.bootstrap)
    return tuple(systems) or (SystemName(name=DEFAULT_NAME, bootstrap=None),)


def parse_bootstrap(text: str) -> list[tuple[str, int]]:
    """The addresses of a bootstrap list. Raises BenchError."""
    addresses = []
    for address in text.split(","):
        host, colon, port = address.strip().rpartition(":")
        if not (host and colon and port.isdigit() and 0 < int(port) < 65536):
            raise BenchError(f"{address or text!r}: is no HOST:PORT")
        addresses.append((host.strip("[]"), int(port)))
    return addresses


def parse_numbers(option: str, text: str, *, most: int) -> tuple[int, ...]:
    """Whole numbers from 1 to `most`, with commas, ascending, each once. Raises BenchError."""
    return _listed(option, text, f"a whole number from 1 to {most}", lambda n: 1 <= int(n) <= most)


def parse_cpus(text: str, available: Iterable[int]) -> tuple[int, ...]:
    """The processors clients may use. Raises BenchError for one that is not there."""
    there = sorted(available)
    return _listed(
        "--client-cpus", text, f"one of this process's {there}", lambda n: int(n) in there
    )


def parse_acks(values: Iterable[str]) -> tuple[int, ...]:
    """0, 1, all, each once, in that order. Raises BenchError."""
    known = {"0": 0, "1": 1, "all": -1}
    asked = list(values)
    if wrong := [value for value in asked if value not in known]:
        raise BenchError(f"--acks {wrong[0]}: is none of {', '.join(known)}")
    return tuple(acks for name, acks in known.items() if name in asked or not asked)


def parse_properties(texts: Sequence[str]) -> dict[str, str]:
    """From NAME=VALUE. Raises BenchError."""
    made = {}
    for text in texts:
        name, given, value = text.partition("=")
        if not name or not given:
            raise BenchError(f"--property {text}: write NAME=VALUE")
        made[name.strip()] = value.strip()
    return made


def _one_of(kind: type[T], name: str, what: str) -> T:
    try:
        return kind(name)
    except ValueError:
        raise BenchError(f"{what} {name!r}: there is only {', '.join(kind)}") from None


def _listed(
    option: str, text: str, accepts: str, accepted: Callable[[str], bool]
) -> tuple[int, ...]:
    numbers = set()
    for part in text.split(","):
        if not (part.strip().isdigit() and accepted(part)):
            raise BenchError(f"{option} {text}: {part.strip()!r} is not {accepts}")
        numbers.add(int(part))
    return tuple(sorted(numbers))
