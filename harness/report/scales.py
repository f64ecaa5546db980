"""From values to pixels: the shared time axis, log and linear scales, their ticks, path texts."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

WIDTH = 1080
LEFT, RIGHT = 78.0, 1072.0
"""Where the time axis begins and ends, in a drawing WIDTH px wide."""
TITLE_HEIGHT = 18
CHARACTER_PX = 6.3
"""Width of a character of the small print, on the safe side."""

TICK_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
MAX_TIME_TICKS = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A mark on an axis, at `at` px."""

    at: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeAxis:
    """Seconds since the start of the run, from `left` px to `right` px."""

    span_s: float
    left: float
    right: float

    def x(self, at_s: float) -> float:
        """Where a moment is; moments outside of the run are drawn at its edge."""
        inside = min(max(at_s, 0.0), self.span_s)
        return self.left + (self.right - self.left) * inside / self.span_s

    def ticks(self) -> list[Tick]:
        """Round moments, at most MAX_TIME_TICKS."""
        step = next(
            (s for s in TICK_STEPS_S if self.span_s / s <= MAX_TIME_TICKS), TICK_STEPS_S[-1]
        )
        return [
            Tick(at=self.x(at_s), label=time_label(at_s))
            for at_s in range(0, int(self.span_s) + 1, step)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogScale:
    """Latencies in ms, decades from `bottom` px up to `top` px."""

    low_decade: int
    high_decade: int
    top: float
    bottom: float

    def y(self, value_ms: float) -> float:
        """Where a latency is, kept inside the panel."""
        share = (math.log10(value_ms) - self.low_decade) / (self.high_decade - self.low_decade)
        return self.bottom - (self.bottom - self.top) * min(max(share, 0.0), 1.0)

    def ticks(self) -> list[Tick]:
        """One per decade."""
        return [
            Tick(at=self.y(10**decade), label=latency_label(10**decade))
            for decade in range(self.low_decade, self.high_decade + 1)
        ]


def decades(values_ms: Iterable[float]) -> tuple[int, int]:
    """The decades that hold all values; at least one, and 0.1 ms to 1 s for no value."""
    listed = list(values_ms)
    if not listed:
        return -1, 3
    low = math.floor(math.log10(min(listed)))
    return low, max(low + 1, math.ceil(math.log10(max(listed))))


def nice_ceiling(value: float) -> float:
    """The next round number, at least 1."""
    if value <= 1:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(f * power for f in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if f * power >= value)


def latency_label(value_ms: float) -> str:
    """Such as 10 µs, 0.1 ms, 5 s."""
    if value_ms < 0.1:
        return f"{value_ms * 1000:g} µs"
    return f"{value_ms:g} ms" if value_ms < 1000 else f"{value_ms / 1000:g} s"


def time_label(at_s: int) -> str:
    """Such as 90 s, 20 min, 3 h 10 min."""
    if at_s < 600 or at_s % 60:
        return f"{at_s} s"
    hours, minutes = divmod(at_s // 60, 60)
    return " ".join([f"{hours} h"] * bool(hours) + [f"{minutes} min"] * bool(minutes or not hours))


def px(value: float) -> str:
    """A coordinate as short as it can be without being seen to be off."""
    return f"{value:.1f}".removesuffix(".0")


def line(points: Iterable[tuple[float, float | None]]) -> str:
    """A path through points; it is interrupted where there is no value, a lone point is a dash."""
    made: list[str] = []
    run: list[str] = []
    for x, y in points:
        if y is None:
            made.extend(_strokes(run))
            run = []
        else:
            run.append(f"{px(x)} {px(y)}")
    made.extend(_strokes(run))
    return "".join(made)


def _strokes(run: Sequence[str]) -> list[str]:
    if len(run) == 1:
        return [f"M{run[0]}h2"]
    return [f"M{'L'.join(run)}"] if run else []


def bars(spans: Iterable[tuple[float, float, float]], base: float) -> str:
    """Filled bars from `base` to y; spans are (left, right, y). Bars of no height are left out."""
    return "".join(
        f"M{px(left)} {px(base)}V{px(y)}H{px(right)}V{px(base)}z"
        for left, right, y in spans
        if px(y) != px(base)
    )


def points(places: Iterable[tuple[float, float]]) -> str:
    """Dots: strokes without length, which round line caps make visible."""
    return "".join(f"M{px(x)} {px(y)}h0" for x, y in places)


def crosses(places: Iterable[tuple[float, float]], size: float = 2.2) -> str:
    """Diagonal crosses."""
    d, e = px(size * 2), px(-size * 2)
    return "".join(f"M{px(x - size)} {px(y - size)}l{d} {d}m{e} 0l{d} {e}" for x, y in places)


def triangles(places: Iterable[tuple[float, float]]) -> str:
    """Small triangles that point upwards from their base at y."""
    return "".join(f"M{px(x - 3)} {px(y)}h6l-3 -5z" for x, y in places)
