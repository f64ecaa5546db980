"""Points and numbers in words, the same on a terminal and on the page. Pure."""

from collections.abc import Callable, Mapping
from typing import Final

from harness.bench.points import Client, Measure, Point, Sweep
from harness.bench.stats import Spread
from harness.plans.plan import acks_name

TITLES: Final[Mapping[Measure, str]] = {
    Measure.LATENCY: "Time to publish one message",
    Measure.PRODUCER: "Producer throughput",
    Measure.CONSUMER: "Consumer throughput",
    Measure.FAILOVER: "Leader killed: gap in acknowledgements",
    Measure.SHUTDOWN: "Controlled shutdown of a leader: gap in acknowledgements",
    Measure.CONTROLLER: "Controller killed: time to the next decision",
}
SWEEPS: Final[Mapping[Sweep, str]] = {
    Sweep.ACKS: "acks",
    Sweep.MESSAGES: "messages per send",
    Sweep.PRODUCERS: "producers",
    Sweep.FETCH: "fetch size",
    Sweep.PARTITIONS: "partitions",
}


def bytes_label(size: int) -> str:
    """Such as 500 B, 10 KB, 1 MB (powers of two, as in fetch sizes)."""
    for unit, factor in (("MB", 1 << 20), ("KB", 1 << 10)):
        if size >= factor and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"


def x_label(point: Point) -> str:
    """Where a point is along its sweep."""
    match point.sweep:
        case Sweep.ACKS:
            return f"acks={acks_name(point.acks)}"
        case Sweep.FETCH:
            return bytes_label(point.fetch_bytes)
        case _:
            return f"{point.x:,}"


def series_label(point: Point) -> str:
    """What tells the curves of a sweep apart: the acks mode, and a client that is not raw."""
    parts = []
    if point.measure is Measure.PRODUCER:
        parts.append(f"acks={acks_name(point.acks)}")
    if point.measure is Measure.LATENCY or point.client is not Client.RAW:
        parts.append(point.client.value)
    return " ".join(parts)


def point_label(point: Point) -> str:
    """What tells a point from all others of its sweep."""
    return " ".join(filter(None, (series_label(point), x_label(point))))


def number(value: float) -> str:
    """Three digits that count, never an exponent: 0.123, 1.23, 12.3, 123, 1,234."""
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def spread(found: Spread | None, shown: Callable[[float], str] = number) -> str:
    """The median, and the extremes where there was more than one round."""
    if found is None:
        return ""
    if found.count == 1:
        return shown(found.median)
    return f"{shown(found.median)} ({shown(found.least)}..{shown(found.most)})"


def median(found: Spread | None) -> str:
    """The median alone."""
    return "" if found is None else number(found.median)


def ratio(found: Spread | None) -> str:
    """Such as 1.25x (1.1..1.4)."""
    return spread(found, lambda value: f"{value:.2f}x")
