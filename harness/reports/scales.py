"""Geometry for drawings without a script: a log scale, its ticks, SVG paths."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A mark on an axis, `at` px."""

    at: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogScale:
    """A log scale of latencies in ms, from `bottom` px up to `top` px."""

    low_decade: int
    high_decade: int
    top: float
    bottom: float

    def y(self, value_ms: float) -> float:
        """Return the y of a latency in px, inside the panel."""
        share = (math.log10(value_ms) - self.low_decade) / (self.high_decade - self.low_decade)
        return self.bottom - (self.bottom - self.top) * min(max(share, 0.0), 1.0)

    def ticks(self) -> list[Tick]:
        """Return one tick per decade."""
        return [
            Tick(at=self.y(10**decade), label=latency_label(10**decade))
            for decade in range(self.low_decade, self.high_decade + 1)
        ]


def decades(values_ms: Iterable[float]) -> tuple[int, int]:
    """Return the decades that contain all values, at least one; 0.1 ms to 1 s without values."""
    listed = list(values_ms)
    if not listed:
        return -1, 3
    low = math.floor(math.log10(min(listed)))
    return low, max(low + 1, math.ceil(math.log10(max(listed))))


def latency_label(value_ms: float) -> str:
    """Return a label such as 10 µs, 0.1 ms, 5 s."""
    if value_ms < 0.1:
        return f"{value_ms * 1000:g} µs"
    return f"{value_ms:g} ms" if value_ms < 1000 else f"{value_ms / 1000:g} s"


def px(value: float) -> str:
    """Return a coordinate with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def line(points: Iterable[tuple[float, float | None]]) -> str:
    """Return a path through points. It is interrupted at points without a value; a single point is
    a dash."""
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
