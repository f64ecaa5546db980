"""Panels of numbers over time, one per acks mode: latency; throughput and errors.

All panels of a kind have one scale, so that the modes can be compared.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from harness.report.scales import (
    TITLE_HEIGHT,
    LogScale,
    Tick,
    TimeAxis,
    bars,
    crosses,
    decades,
    line,
    nice_ceiling,
    points,
    triangles,
)
from harness.report.series import AcksSeries, Series
from harness.report.words import acks_class, acks_label, number

CELL_PX = 3
LATENCY_HEIGHT = 128
PX_PER_DECADE = 26
RATE_HEIGHT, ERRORS_HEIGHT = 56, 22
PANEL_GAP = 16
BURST = 1.6
"""How far above the 90th percentile the scale of throughput goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyPanel:
    """Latency of one acks mode: quantile lines, a dot per occupied cell (by density), failures."""

    title: str
    note: str
    css: str
    top: float
    bottom: float
    ticks: Sequence[Tick]
    p50: str
    p99: str
    sparse: str
    dense: str
    failures: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RatePanel:
    """Acknowledged sends per second upwards, errors per second downwards from `base`; `beyond`
    marks the bars that are cut off at the top."""

    title: str
    css: str
    top: float
    base: float
    bottom: float
    acked: str
    beyond: str
    failed: str
    indeterminate: str
    ticks: Sequence[Tick]


def latency_panels(series: Series, axis: TimeAxis, y: float) -> tuple[list[LatencyPanel], float]:
    """One panel below the other from `y` on, and where they end."""
    low, high = decades(dot.latency_ms for each in series.acks for dot in each.dots)
    height = max(LATENCY_HEIGHT, (high - low) * PX_PER_DECADE)
    panels = []
    for each in series.acks:
        top = y + TITLE_HEIGHT
        bottom = top + height
        scale = LogScale(low_decade=low, high_decade=high, top=top, bottom=bottom)
        middles = [axis.x((b + 0.5) * series.step_s) for b in range(len(each.acked))]
        ok = [(axis.x(d.at_s), scale.y(d.latency_ms), d.count) for d in each.dots if d.ok]
        bad = [(axis.x(d.at_s), scale.y(d.latency_ms)) for d in each.dots if not d.ok]
        panels.append(
            LatencyPanel(
                title=acks_label(each.acks),
                note=_latency_note(each),
                css=acks_class(each.acks),
                top=top,
                bottom=bottom,
                ticks=scale.ticks(),
                p50=_quantile_line(middles, each.p50_ms, scale),
                p99=_quantile_line(middles, each.p99_ms, scale),
                sparse=points((x, y) for x, y, count in ok if count < 10),
                dense=points((x, y) for x, y, count in ok if count >= 10),
                failures=crosses(bad),
            )
        )
        y = bottom + PANEL_GAP
    return panels, y - PANEL_GAP


def _latency_note(each: AcksSeries) -> str:
    if each.acks == 0:
        return "no broker answers: the time until the client library had written it to its socket"
    return ""


def _quantile_line(
    middles: Sequence[float], values: Sequence[float | None], scale: LogScale
) -> str:
    pairs = zip(middles, values, strict=True)
    return line((x, None if value is None else scale.y(value)) for x, value in pairs)


def rate_panels(series: Series, axis: TimeAxis, y: float) -> tuple[list[RatePanel], float]:
    """One panel below the other from `y` on, and where they end; errors have their own scale."""
    step_s = series.step_s
    most = _usual_most([n / step_s for each in series.acks for n in each.acked if n])
    errors = nice_ceiling(
        max(
            f + i
            for each in series.acks
            for f, i in zip(each.failed, each.indeterminate, strict=True)
        )
        / step_s
    )
    panels = []
    for each in series.acks:
        top = y + TITLE_HEIGHT
        base = top + RATE_HEIGHT
        bottom = base + ERRORS_HEIGHT
        edges = [axis.x(b * step_s) for b in range(len(each.acked) + 1)]
        acked, failed, indeterminate = [], [], []
        beyond: list[tuple[float, float]] = []
        for b, (left, right) in enumerate(itertools.pairwise(edges)):
            # A hair of overlap, or the browser shows seams between neighbours.
            share = each.acked[b] / step_s / most
            acked.append((left, right + 0.2, base - RATE_HEIGHT * min(share, 1.0)))
            if share > 1.0:
                beyond.append(((left + right) / 2, top - 3))
            fail = ERRORS_HEIGHT * each.failed[b] / step_s / errors
            both = fail + ERRORS_HEIGHT * each.indeterminate[b] / step_s / errors
            failed.append((left, right, base + fail))
            indeterminate.append((left, right, base + both))
        panels.append(
            RatePanel(
                title=acks_label(each.acks),
                css=acks_class(each.acks),
                top=top,
                base=base,
                bottom=bottom,
                acked=bars(acked, base),
                beyond=triangles(beyond),
                failed=bars(failed, base),
                indeterminate=bars(indeterminate, base),
                ticks=[
                    Tick(at=top, label=number(most)),
                    Tick(at=base, label="0"),
                    Tick(at=bottom, label=number(-errors)),
                ],
            )
        )
        y = bottom + PANEL_GAP
    return panels, y - PANEL_GAP


def _usual_most(rates: Sequence[float]) -> float:
    """Where the scale of throughput ends: what waited for a leader is acknowledged in a burst,
    beside which everything else would be a flat line."""
    ordered = sorted(rates)
    usual = BURST * ordered[len(ordered) * 9 // 10] if ordered else 0.0
    return nice_ceiling(min(usual, ordered[-1]) if ordered else 0.0)
