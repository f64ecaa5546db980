"""Labels of points and numbers, for the terminal and the page. Pure."""

from collections.abc import Callable, Mapping
from typing import Final

from harness.bench.points import Client, Measure, Point, Sweep
from harness.bench.stats import Spread
from harness.plans.plan import acks_name

TITLES: Final[Mapping[Measure, str]] = {
    Measure.LATENCY: "Time to publish one message",
    Measure.PRODUCER: "Producer throughput",
    Measure.CONSUMER: "Consumer throughput",
    Measure.COMMITS: "Committed offsets of one group",
    Measure.GROUPS: "All members of a group join at once, classic protocol, 1,000 partitions",
    Measure.TRANSACTIONS: "Transactions of one producer, a record in each partition",
    Measure.COPIES: "Copied in transactions with one send and the read offsets, read_committed",
    Measure.COMPACTION: "One broker cleans a compacted log of 128 MB",
    Measure.FAILOVER: "Leader killed: gap in acknowledgements",
    Measure.SHUTDOWN: "Controlled shutdown of a leader: gap in acknowledgements",
    Measure.CONTROLLER: "Controller killed: time to the next created topic",
    Measure.CREATION: "Topics created: time until all replicas are in sync",
}
SWEEPS: Final[Mapping[Sweep, str]] = {
    Sweep.ACKS: "acks",
    Sweep.MESSAGES: "messages per send",
    Sweep.PRODUCERS: "producers",
    Sweep.FETCH: "fetch size",
    Sweep.PARTITIONS: "partitions",
    Sweep.MEMBERS: "members",
}


def bytes_label(size: int) -> str:
    """Return a size such as 500 B, 10 KB, 1 MB (powers of two, as in fetch sizes)."""
    for unit, factor in (("MB", 1 << 20), ("KB", 1 << 10)):
        if size >= factor and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"


def x_label(point: Point) -> str:
    """Return the label of a point's position along its sweep."""
    match point.sweep:
        case Sweep.ACKS:
            return f"acks={acks_name(point.acks)}"
        case Sweep.FETCH:
            return bytes_label(point.fetch_bytes)
        case _:
            return f"{point.x:,}"


def series_label(point: Point) -> str:
    """Return the label of a point's curve: the acks mode, and the client unless it is raw."""
    parts = []
    if point.measure is Measure.PRODUCER:
        parts.append(f"acks={acks_name(point.acks)}")
    if point.measure is Measure.LATENCY or point.client is Client.LIBRDKAFKA:
        parts.append(point.client.value)
    return " ".join(parts)


def point_label(point: Point) -> str:
    """Return a label that no other point of the sweep has."""
    return " ".join(filter(None, (series_label(point), x_label(point))))


def number(value: float) -> str:
    """Return a number with three significant digits: 0.123, 1.23, 12.3, 123; or whole: 1,234."""
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def spread(found: Spread | None, shown: Callable[[float], str] = number) -> str:
    """Return the median, and the extremes if there was more than one round."""
    if found is None:
        return ""
    if found.count == 1:
        return shown(found.median)
    return f"{shown(found.median)} ({shown(found.least)}..{shown(found.most)})"


def median(found: Spread | None) -> str:
    """Return the median alone."""
    return "" if found is None else number(found.median)


def ratio(found: Spread | None) -> str:
    """Return a ratio such as 1.25x (1.1x..1.4x)."""
    return spread(found, lambda value: f"{value:.2f}x")
