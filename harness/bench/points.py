"""What is measured: the points of the sweeps, the order of the rounds, the published figures.

Pure. A point is one setting that is measured on every system in turn. The throughput points and
their units are those of the replication talk of 2013: messages of 1 KB, one partition with three
replicas, rates in MB of message values per second (10^6 bytes).
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self


class Measure(StrEnum):
    """The measures, as the command line names them."""

    LATENCY = "latency"
    PRODUCER = "producer-throughput"
    CONSUMER = "consumer-throughput"
    COMMITS = "commits"
    GROUPS = "groups"
    TRANSACTIONS = "transactions"
    COPIES = "copies"
    COMPACTION = "compaction"
    FAILOVER = "failover"
    SHUTDOWN = "controlled-shutdown"
    CONTROLLER = "controller-failover"
    CREATION = "creation"


OUTAGES: Final = (Measure.CREATION, Measure.FAILOVER, Measure.SHUTDOWN, Measure.CONTROLLER)
"""Measures of clusters of their own, in this order: how they get their partitions, and what stops
nodes."""
CONTROL_PLANES: Final = "control-planes"
"""Stands for all of OUTAGES on every control plane that can be started here."""
STARTED_ONLY: Final = (*OUTAGES, Measure.COMPACTION)
"""Measures of clusters that the benchmark starts: it stops their nodes, or looks at their files."""
COORDINATORS: Final = (Measure.COMMITS, Measure.GROUPS, Measure.TRANSACTIONS, Measure.COPIES)
"""Measures of coordinators, by our own client."""


class Sweep(StrEnum):
    """The quantity that varies along a sweep; the value is the field of Point."""

    ACKS = "acks"
    MESSAGES = "messages_per_send"
    PRODUCERS = "producers"
    FETCH = "fetch_bytes"
    PARTITIONS = "partitions"
    MEMBERS = "members"


class Client(StrEnum):
    """The client that measures.

    `raw` repeats encoded requests, so that the measured time is the broker's and not the client's.
    Applications use librdkafka. `own` measures groups and transactions, and only those.
    """

    RAW = "raw"
    LIBRDKAFKA = "librdkafka"
    OWN = "own"


MESSAGES_PER_SEND: Final = (1, 10, 100, 1000)
PRODUCERS: Final = (1, 5, 10, 20)
FETCH_BYTES: Final = (1 << 10, 10 << 10, 100 << 10, 1 << 20)
PARTITIONS: Final = (100, 1000)
TOUCHED: Final = (1, 10)
"""The partitions of one commit, and of one transaction."""
COPIED: Final = (100, 1000)
"""The messages of one transaction that copies from one partition to another."""
COMPACTED: Final = (10, 100)
"""The messages of a batch in a log that is compacted."""
MEMBERS: Final = (10, 100)
COPIED_FETCH_BYTES: Final = 1 << 20
ASSIGNED: Final = 1000
"""The partitions of a group whose members join."""
ACKS: Final = (0, 1, -1)

PIPELINE: Final = 5
"""Requests in flight on a connection: the maximum of an idempotent producer."""
PRODUCERS_MESSAGES: Final = 10
"""Messages per send while the number of producers varies. Each producer waits for its answer before
it sends again, as the producers of 2013 did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One setting. The fields that its measure does not use are 0."""

    measure: Measure
    sweep: Sweep
    client: Client
    acks: int = 0
    messages_per_send: int = 0
    producers: int = 0
    in_flight: int = 0
    fetch_bytes: int = 0
    partitions: int = 0
    members: int = 0

    @property
    def x(self) -> int:
        """The point's value of the sweep's quantity."""
        return int(getattr(self, self.sweep.value))

    def to_json(self) -> dict[str, Any]:
        """Return plain data, which `from_json` reads back."""
        return asdict(self)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Return the point of plain data. Raises KeyError, TypeError, ValueError for other data."""
        numbers = {f.name: int(raw[f.name]) for f in fields(cls) if f.type is int}
        return cls(
            measure=Measure(raw["measure"]),
            sweep=Sweep(raw["sweep"]),
            client=Client(raw["client"]),
            **numbers,
        )


class PointSelection(NamedTuple):
    """The points that a user asks for."""

    measures: Sequence[Measure]
    clients: Sequence[Client]
    """Empty stands for the raw client, and for latency librdkafka too."""
    acks: Sequence[int] = ACKS
    messages: Sequence[int] = MESSAGES_PER_SEND
    producers: Sequence[int] = PRODUCERS
    fetch_bytes: Sequence[int] = FETCH_BYTES
    partitions: Sequence[int] = PARTITIONS


def points(selection: PointSelection) -> list[Point]:
    """Return all selected points in the order in which they are shown, each once."""
    made: list[Point] = []
    for measure in Measure:
        if measure in selection.measures:
            made += _points_of(measure, selection)
    return list(dict.fromkeys(made))


def _points_of(measure: Measure, selection: PointSelection) -> list[Point]:
    clients = selection.clients or (Client.RAW,)
    match measure:
        case Measure.LATENCY:
            return [
                Point(
                    measure=measure, sweep=Sweep.ACKS, client=client, acks=acks,
                    messages_per_send=1, producers=1, in_flight=1,
                )
                for client in selection.clients or (Client.RAW, Client.LIBRDKAFKA)
                for acks in selection.acks
            ]  # fmt: skip
        case Measure.PRODUCER:
            return [
                Point(
                    measure=measure, sweep=Sweep.MESSAGES, client=client, acks=acks,
                    messages_per_send=count, producers=1, in_flight=PIPELINE,
                )
                for client in clients
                for acks in selection.acks
                for count in selection.messages
            ] + [
                Point(
                    measure=measure, sweep=Sweep.PRODUCERS, client=client, acks=acks,
                    messages_per_send=PRODUCERS_MESSAGES, producers=count, in_flight=1,
                )
                for client in clients
                for acks in selection.acks
                for count in selection.producers
            ]  # fmt: skip
        case Measure.CONSUMER:
            return [
                Point(
                    measure=measure, sweep=Sweep.FETCH, client=client, fetch_bytes=size,
                    in_flight=1,
                )
                for client in clients
                for size in selection.fetch_bytes
            ]  # fmt: skip
        case _ if measure in _OWN_SWEEPS:
            return _own_points(measure)
        case _:
            return [
                Point(
                    measure=measure, sweep=Sweep.PARTITIONS, client=Client.RAW, acks=-1,
                    messages_per_send=1, in_flight=1, partitions=count,
                )
                for count in selection.partitions
            ]  # fmt: skip


def _own_points(measure: Measure) -> list[Point]:
    """The points of our own client, without options."""
    match measure:
        case Measure.GROUPS:
            values = [{"partitions": ASSIGNED, "members": count} for count in MEMBERS]
        case Measure.COPIES:
            base = {"partitions": 2, "fetch_bytes": COPIED_FETCH_BYTES}
            values = [{**base, "messages_per_send": count} for count in COPIED]
        case Measure.COMPACTION:
            values = [{"messages_per_send": count} for count in COMPACTED]
        case _:
            values = [{"partitions": count} for count in TOUCHED]
    sweep = _OWN_SWEEPS[measure]
    return [Point(measure=measure, sweep=sweep, client=Client.OWN, **each) for each in values]


_OWN_SWEEPS: Final = {
    Measure.COMMITS: Sweep.PARTITIONS,
    Measure.GROUPS: Sweep.MEMBERS,
    Measure.TRANSACTIONS: Sweep.PARTITIONS,
    Measure.COPIES: Sweep.MESSAGES,
    Measure.COMPACTION: Sweep.MESSAGES,
}


class Turn(NamedTuple):
    """One measurement: a point on a system in a round."""

    round: int
    point: Point
    system: str


ShowTurn = Callable[[Turn, int, int], None]
"""Shows the measurement that begins, its number, and the number of all measurements."""


def rounds(points: Sequence[Point], systems: Sequence[str], count: int, seed: int) -> list[Turn]:
    """Return all measurements in the order in which they are made.

    Within a round, the systems take turns at each point (A B, A B, ...). The first system changes
    from round to round, and each round has its own random order of points. So a slow drift of the
    machine affects all systems and all points alike.
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
    """The key in the JSON file; the unit comes last."""
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
    Measure.COMMITS: (
        Quantity("commits_per_s", "commits/s", more_is_better=True),
        Quantity("p50_ms", "p50 ms"),
    ),
    Measure.GROUPS: (Quantity("joined_ms", "ms until all are assigned"),),
    Measure.TRANSACTIONS: (
        Quantity("transactions_per_s", "transactions/s", more_is_better=True),
        Quantity("p50_ms", "p50 of the commit ms"),
    ),
    Measure.COPIES: (
        Quantity("mb_per_s", "MB/s", more_is_better=True),
        Quantity("messages_per_s", "messages/s", more_is_better=True),
    ),
    Measure.COMPACTION: (Quantity("mb_per_s", "MB/s", more_is_better=True),),
    Measure.FAILOVER: (
        Quantity("gap_ms", "gap ms"),
        Quantity("takeover_ms", "after the election ms"),
    ),
    Measure.SHUTDOWN: (Quantity("gap_ms", "gap ms"), Quantity("stopped_ms", "node down after ms")),
    Measure.CONTROLLER: (Quantity("gap_ms", "ms to the next topic"),),
    Measure.CREATION: (Quantity("created_ms", "ms until all are in sync"),),
}
"""The first quantity of a measure is compared and plotted."""
PLOTTED: Final[Mapping[Measure, tuple[str, ...]]] = {Measure.SHUTDOWN: ("gap_ms", "stopped_ms")}
"""The quantities that have plots, where that is not the first one alone."""

REFERENCE_MS: Final[Mapping[int, float]] = {0: 0.29, 1: 1.05, -1: 2.05}
"""Time to publish a message, by acks: the replication talk, 2013 (three brokers, 1 KB)."""
REFERENCE_PRODUCER_MB_S: Final = 70.0
REFERENCE_CONSUMER_MB_S: Final = 90.0
REFERENCE_FAILOVER_MS: Final = 10.0


class Reference(NamedTuple):
    """A published figure of 2013 for a point; `text` is the wording of the talk."""

    value: float
    text: str


def reference(point: Point) -> Reference | None:
    """Return the talk's figure for a point's first quantity; on a curve only for the last point."""
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
