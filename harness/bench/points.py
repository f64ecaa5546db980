"""What is measured: points of sweeps, the order of the rounds, and the figures of the sources.

Pure. A point is one setting under which one number is taken, on every system in turn. The
throughput points and their units are those of the replication talk of 2013: 1 KB messages, one
partition with three replicas, rates in MB of message values per second (10^6 bytes).
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self


class Measure(StrEnum):
    """What can be asked for by name."""

    LATENCY = "latency"
    PRODUCER = "producer-throughput"
    CONSUMER = "consumer-throughput"
    FAILOVER = "failover"
    SHUTDOWN = "controlled-shutdown"
    CONTROLLER = "controller-failover"


OUTAGES: Final = (Measure.FAILOVER, Measure.SHUTDOWN, Measure.CONTROLLER)
"""Measures that stop nodes: possible only where the nodes are ours."""


class Sweep(StrEnum):
    """What varies along a sweep; the value names the point's field."""

    ACKS = "acks"
    MESSAGES = "messages_per_send"
    PRODUCERS = "producers"
    FETCH = "fetch_bytes"
    PARTITIONS = "partitions"


class Client(StrEnum):
    """Who measures. `raw` sends encoded requests again and again, so that the broker's work is
    measured and not the client's; librdkafka is what applications use."""

    RAW = "raw"
    LIBRDKAFKA = "librdkafka"


MESSAGES_PER_SEND: Final = (1, 10, 100, 1000)
PRODUCERS: Final = (1, 5, 10, 20)
FETCH_BYTES: Final = (1 << 10, 10 << 10, 100 << 10, 1 << 20)
PARTITIONS: Final = (100, 1000)
ACKS: Final = (0, 1, -1)

PIPELINE: Final = 5
"""Requests in flight on a connection: as many as an idempotent producer may have."""
PRODUCERS_MESSAGES: Final = 10
"""Messages per send while the number of producers varies. Each of them waits for its answer before
it sends again, as the producers of 2013 did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One setting. Fields that its measure does not use are 0."""

    measure: Measure
    sweep: Sweep
    client: Client
    acks: int = 0
    messages_per_send: int = 0
    producers: int = 0
    in_flight: int = 0
    fetch_bytes: int = 0
    partitions: int = 0

    @property
    def x(self) -> int:
        """Where it is along its sweep."""
        return int(getattr(self, self.sweep.value))

    def to_json(self) -> dict[str, Any]:
        """Plain data, which `from_json` reads back."""
        return asdict(self)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError, ValueError when it is no point."""
        numbers = {f.name: int(raw[f.name]) for f in fields(cls) if f.type is int}
        return cls(
            measure=Measure(raw["measure"]),
            sweep=Sweep(raw["sweep"]),
            client=Client(raw["client"]),
            **numbers,
        )


class Wanted(NamedTuple):
    """What of the points is asked for."""

    measures: Sequence[Measure]
    clients: Sequence[Client]
    """Empty: the raw client everywhere, and librdkafka too for latency."""
    acks: Sequence[int] = ACKS
    messages: Sequence[int] = MESSAGES_PER_SEND
    producers: Sequence[int] = PRODUCERS
    fetch_bytes: Sequence[int] = FETCH_BYTES
    partitions: Sequence[int] = PARTITIONS


def points(wanted: Wanted) -> list[Point]:
    """All points in the order in which they are shown, each once."""
    made: list[Point] = []
    for measure in Measure:
        if measure in wanted.measures:
            made += _points_of(measure, wanted)
    return list(dict.fromkeys(made))


def _points_of(measure: Measure, wanted: Wanted) -> list[Point]:
    clients = wanted.clients or (Client.RAW,)
    match measure:
        case Measure.LATENCY:
            return [
                Point(
                    measure=measure, sweep=Sweep.ACKS, client=client, acks=acks,
                    messages_per_send=1, producers=1, in_flight=1,
                )
                for client in wanted.clients or (Client.RAW, Client.LIBRDKAFKA)
                for acks in wanted.acks
            ]  # fmt: skip
        case Measure.PRODUCER:
            return [
                Point(
                    measure=measure, sweep=Sweep.MESSAGES, client=client, acks=acks,
                    messages_per_send=count, producers=1, in_flight=PIPELINE,
                )
                for client in clients
                for acks in wanted.acks
                for count in wanted.messages
            ] + [
                Point(
                    measure=measure, sweep=Sweep.PRODUCERS, client=client, acks=acks,
                    messages_per_send=PRODUCERS_MESSAGES, producers=count, in_flight=1,
                )
                for client in clients
                for acks in wanted.acks
                for count in wanted.producers
            ]  # fmt: skip
        case Measure.CONSUMER:
            return [
                Point(
                    measure=measure, sweep=Sweep.FETCH, client=client, fetch_bytes=size,
                    in_flight=1,
                )
                for client in clients
                for size in wanted.fetch_bytes
            ]  # fmt: skip
        case Measure.FAILOVER | Measure.SHUTDOWN | Measure.CONTROLLER:
            return [
                Point(
                    measure=measure, sweep=Sweep.PARTITIONS, client=Client.RAW, acks=-1,
                    messages_per_send=1, in_flight=1, partitions=count,
                )
                for count in wanted.partitions
            ]  # fmt: skip


class Turn(NamedTuple):
    """One measurement: a point, on one system, in one round."""

    round: int
    point: Point
    system: str


def rounds(points: Sequence[Point], systems: Sequence[str], count: int, seed: int) -> list[Turn]:
    """All measurements in the order in which they are taken.

    Within a round the systems take turns at each point (A B, A B, ...), and the one that begins
    changes from round to round; the order of the points is drawn anew for each round. So a slow
    drift of the machine hits all systems and all points alike.
    """
    order = random.Random(seed)
    turns = []
    for number in range(count):
        shuffled = list(points)
        order.shuffle(shuffled)
        start = number % max(len(systems), 1)
        turn = [*systems[start:], *systems[:start]]
        turns += [Turn(number, point, system) for point in shuffled for system in turn]
    return turns


class Quantity(NamedTuple):
    """A number that a measurement yields."""

    name: str
    """Its key in the JSON: the unit comes last."""
    label: str
    more_is_better: bool = False


QUANTITIES: Final[Mapping[Measure, tuple[Quantity, ...]]] = {
    Measure.LATENCY: (
        Quantity("p50_ms", "p50 ms"),
        Quantity("p95_ms", "p95 ms"),
        Quantity("p99_ms", "p99 ms"),
    ),
    Measure.PRODUCER: (Quantity("mb_per_s", "MB/s", more_is_better=True),),
    Measure.CONSUMER: (Quantity("mb_per_s", "MB/s", more_is_better=True),),
    Measure.FAILOVER: (
        Quantity("gap_ms", "gap ms"),
        Quantity("takeover_ms", "of it after the election ms"),
    ),
    Measure.SHUTDOWN: (Quantity("gap_ms", "gap ms"), Quantity("stopped_ms", "node down after ms")),
    Measure.CONTROLLER: (Quantity("gap_ms", "ms to the next decision"),),
}
"""The first is the one that is compared and plotted."""

REFERENCE_MS: Final[Mapping[int, float]] = {0: 0.29, 1: 1.05, -1: 2.05}
"""Time to publish a message, by acks: the replication talk, 2013 (three brokers, 1 KB)."""
REFERENCE_PRODUCER_MB_S: Final = 70.0
REFERENCE_CONSUMER_MB_S: Final = 90.0
REFERENCE_FAILOVER_MS: Final = 10.0


class Reference(NamedTuple):
    """A figure of 2013 beside a point; `text` is as the talk has it."""

    value: float
    text: str


def reference(point: Point) -> Reference | None:
    """What the talk says of a point's first quantity; of a curve, only where it ends."""
    match point.measure:
        case Measure.LATENCY:
            value = REFERENCE_MS[point.acks]
            return Reference(value, f"{value:.2f}")
        case Measure.PRODUCER if point.x == max(MESSAGES_PER_SEND) or (
            point.sweep is Sweep.PRODUCERS and point.x == max(PRODUCERS)
        ):
            return Reference(REFERENCE_PRODUCER_MB_S, f"up to {REFERENCE_PRODUCER_MB_S:.0f}")
        case Measure.CONSUMER if point.x == max(FETCH_BYTES):
            return Reference(REFERENCE_CONSUMER_MB_S, f"up to {REFERENCE_CONSUMER_MB_S:.0f}")
        case Measure.FAILOVER:
            return Reference(REFERENCE_FAILOVER_MS, f"< {REFERENCE_FAILOVER_MS:.0f} (typical)")
        case _:
            return None
