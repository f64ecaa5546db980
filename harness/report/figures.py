"""The figures of a run as geometry on one shared time axis; the template only writes them down.

From top to bottom: the faults with their names, the latency of each acks mode, its throughput and
errors, the leader of each partition. Every fault's band runs through all of them. All positions
are px in a drawing WIDTH wide. What is thinned or left out is counted, so that it can be said.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.report.scales import (
    LogScale,
    Tick,
    TimeAxis,
    bars,
    crosses,
    decades,
    line,
    nice_ceiling,
    points,
    px,
)
from harness.report.series import AcksSeries, FaultSpan, Grid, LeaderLane, Series
from harness.report.words import acks_class, acks_label, number, seconds

WIDTH = 1080
LEFT, RIGHT = 78.0, 1072.0
CELL_PX = 3
LATENCY_HEIGHT = 128
PX_PER_DECADE = 26
RATE_HEIGHT, ERRORS_HEIGHT = 56, 22
LANE_HEIGHT, LANE_GAP = 16, 4
FAULT_HEIGHT, FAULT_GAP = 15, 4
TITLE_HEIGHT, PANEL_GAP, SECTION_GAP = 18, 16, 46
CHARACTER_PX = 6.3
MAX_FAULT_ROWS = 8
MAX_LANES = 30
CROWDED_FAULTS = 40

GRID = Grid(columns=round((RIGHT - LEFT) / CELL_PX), rows_per_decade=round(PX_PER_DECADE / CELL_PX))

PATTERNS = {"kill": "hatch", "pause": "dots", "partition": "stripes"}
"""Pattern of a fault's band by the first word of its name; anything else is checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """One fault over time, and its bar with its name above the panels."""

    fault_id: int
    x: float
    width: float
    bar_y: float
    text_x: float
    text_place: str
    text: str
    title: str
    pattern: str
    took_effect: bool


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
    """Acknowledged sends per second upwards, errors per second downwards from `base`."""

    title: str
    css: str
    top: float
    base: float
    bottom: float
    acked: str
    failed: str
    indeterminate: str
    ticks: Sequence[Tick]


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One reign: its bar is as high as the ISR is large."""

    x: float
    y: float
    width: float
    height: float
    css: str
    text: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One partition's leaders."""

    label: str
    top: float
    middle: float
    segments: Sequence[Segment]
    changes: Sequence[Tick]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """The title of a section of the drawing."""

    at: float
    text: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """The whole drawing, and the values behind it for whoever points at it."""

    width: int
    height: float
    left: float
    right: float
    top: float
    bottom: float
    headings: Sequence[Heading]
    bands: Sequence[Band]
    latency: Sequence[LatencyPanel]
    rates: Sequence[RatePanel]
    lanes: Sequence[Lane]
    time_ticks: Sequence[Tick]
    sends: int
    dots: int
    lanes_left_out: int
    values: Mapping[str, Any]


def draw(series: Series) -> Figure | None:
    """Lay out all panels; None when nothing was recorded."""
    if series.span_s <= 0 or not (series.acks or series.lanes or series.faults):
        return None
    axis = TimeAxis(span_s=series.span_s, left=LEFT, right=RIGHT)
    headings = []
    y = 0.0
    bands: list[Band] = []
    if series.faults:
        headings.append(Heading(at=y + 12, text="Faults", note=""))
        bands, y = _bands(series.faults, axis, y + TITLE_HEIGHT + 2)
        y += 6
    top = y
    latency: list[LatencyPanel] = []
    rates: list[RatePanel] = []
    if series.acks:
        y += SECTION_GAP
        headings.append(
            Heading(at=y - 12, text="Publish latency", note="log scale, by the time of the send")
        )
        latency, y = _latency_panels(series, axis, y)
        y += SECTION_GAP
        headings.append(
            Heading(at=y - 12, text="Acknowledged per second", note="errors per second downwards")
        )
        rates, y = _rate_panels(series, axis, y)
    lanes, left_out = _most_telling(series.lanes)
    drawn: list[Lane] = []
    if lanes:
        y += SECTION_GAP
        note = "number: leader; height of the bar: size of the ISR; ▼ another leader took over"
        headings.append(Heading(at=y - 10, text="Leader of each partition", note=note))
        drawn, y = _lanes(lanes, axis, y)
    return Figure(
        width=WIDTH,
        height=y + 26,
        left=LEFT,
        right=RIGHT,
        top=top,
        bottom=y,
        headings=headings,
        bands=bands,
        latency=latency,
        rates=rates,
        lanes=drawn,
        time_ticks=axis.ticks(),
        sends=sum(each.sends for each in series.acks),
        dots=sum(len(each.dots) for each in series.acks),
        lanes_left_out=left_out,
        values=_values(series, lanes),
    )


def _bands(faults: Sequence[FaultSpan], axis: TimeAxis, top: float) -> tuple[list[Band], float]:
    """Bars in as many rows as keep their names apart, and where they end."""
    row_ends: list[float] = []
    bands = []
    crowded = len(faults) > CROWDED_FAULTS
    for fault in faults:
        if fault.started_s is None:
            continue  # never injected; the table of faults says why
        x = axis.x(fault.started_s)
        end_s = axis.span_s if fault.healed_s is None else fault.healed_s
        width = max(2.0, axis.x(end_s) - x)
        text = f"{fault.fault_id}" if crowded else f"{fault.fault_id} {fault.label}"
        if not fault.took_effect:
            text += " (no effect)"
        text_px = len(text) * CHARACTER_PX + 8
        inside = text_px <= width
        text_x, end = x + 4, x + width
        if not inside:
            text_x, end = end + 4, end + text_px
            if end > RIGHT:
                text_x, end = x - 4, x + width
        before = text_x < x
        start = x - text_px if before else x
        row = next((r for r, used in enumerate(row_ends) if used + 6 <= start), len(row_ends))
        if row >= MAX_FAULT_ROWS:
            row = min(range(MAX_FAULT_ROWS), key=row_ends.__getitem__)
        row_ends[row : row + 1] = [end]
        bands.append(
            Band(
                fault_id=fault.fault_id,
                x=x,
                width=width,
                bar_y=top + row * (FAULT_HEIGHT + FAULT_GAP),
                text_x=text_x,
                text_place="in" if inside else "before" if before else "after",
                text=text,
                title=_fault_title(fault),
                pattern=PATTERNS.get(fault.fault.split(".")[0], "checks"),
                took_effect=fault.took_effect,
            )
        )
    return bands, top + len(row_ends) * (FAULT_HEIGHT + FAULT_GAP)


def _fault_title(fault: FaultSpan) -> str:
    healed = "never healed" if fault.healed_s is None else f"healed {seconds(fault.healed_s)}"
    effect = fault.effect if fault.took_effect else "it did not take effect"
    return f"fault {fault.fault_id}: {fault.label}, {seconds(fault.started_s)}, {healed}; {effect}"


def _latency_panels(series: Series, axis: TimeAxis, y: float) -> tuple[list[LatencyPanel], float]:
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


def _rate_panels(series: Series, axis: TimeAxis, y: float) -> tuple[list[RatePanel], float]:
    """All modes on one scale, so that they can be compared; errors on their own."""
    step_s = series.step_s
    most = nice_ceiling(max(max(each.acked, default=0) for each in series.acks) / step_s)
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
        for b, (left, right) in enumerate(itertools.pairwise(edges)):
            # A hair of overlap, or the browser shows seams between neighbours.
            acked.append((left, right + 0.2, base - RATE_HEIGHT * each.acked[b] / step_s / most))
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


def _most_telling(lanes: Sequence[LeaderLane]) -> tuple[list[LeaderLane], int]:
    """At most MAX_LANES partitions, those with the most changes of leader, in their order."""
    kept = sorted(lanes, key=lambda lane: -len(lane.changes))[:MAX_LANES]
    return [lane for lane in lanes if lane in kept], len(lanes) - len(kept)


def _lanes(lanes: Sequence[LeaderLane], axis: TimeAxis, y: float) -> tuple[list[Lane], float]:
    largest = max((len(r.isr) for lane in lanes for r in lane.reigns), default=1) or 1
    drawn = []
    for lane in lanes:
        segments = []
        for reign in lane.reigns:
            x, end = axis.x(reign.start_s), axis.x(reign.end_s)
            height = LANE_HEIGHT * (len(reign.isr) / largest if reign.isr else 1.0)
            led = reign.leader is not None
            named = end - x > len(str(reign.leader)) * CHARACTER_PX + 4
            segments.append(
                Segment(
                    x=x,
                    y=y + LANE_HEIGHT - height,
                    width=max(0.8, end - x),
                    height=height,
                    css=f"n{((reign.leader or 1) - 1) % 6}" if led else "none",
                    text=str(reign.leader) if led and named else "",
                    title=f"{lane.topic}/{lane.partition}, {seconds(reign.start_s)} to "
                    f"{seconds(reign.end_s)}: {_reign_words(reign.leader, reign.epoch, reign.isr)}",
                )
            )
        changes = [Tick(at=axis.x(r.start_s), label=str(r.leader)) for r in lane.changes]
        drawn.append(
            Lane(
                label=f"{lane.topic}/{lane.partition}",
                top=y,
                middle=y + LANE_HEIGHT / 2,
                segments=_without_repeated_names(segments),
                changes=changes,
            )
        )
        y += LANE_HEIGHT + LANE_GAP
    return drawn, y - LANE_GAP


def _without_repeated_names(segments: Sequence[Segment]) -> list[Segment]:
    """A reign whose ISR changes is several segments; its leader is named at the first with room."""
    made: list[Segment] = []
    said = ("", "")
    for segment in segments:
        text = "" if (segment.css, segment.text) == said else segment.text
        if segment.text:
            said = (segment.css, segment.text)
        elif segment.css != said[0]:
            said = ("", "")
        made.append(replace(segment, text=text))
    return made


def _reign_words(leader: int | None, epoch: int, isr: Sequence[int]) -> str:
    led = "no leader" if leader is None else f"leader node {leader}"
    members = ", ".join(map(str, isr)) or "unknown"
    return f"{led}, epoch {epoch}, ISR {members}"


def _values(series: Series, lanes: Sequence[LeaderLane]) -> dict[str, Any]:
    """What the pointer shows: per bucket and acks mode, per fault, per drawn partition."""
    return {
        "span": series.span_s,
        "step": series.step_s,
        "left": LEFT,
        "right": RIGHT,
        "width": WIDTH,
        "acks": [
            {
                "name": acks_label(each.acks),
                "css": acks_class(each.acks),
                "acked": each.acked,
                "failed": each.failed,
                "info": each.indeterminate,
                "p50": [_short(value) for value in each.p50_ms],
                "p99": [_short(value) for value in each.p99_ms],
            }
            for each in series.acks
        ],
        "faults": [
            [
                f"{fault.fault_id} {fault.label}",
                round(fault.started_s, 3),
                round(series.span_s if fault.healed_s is None else fault.healed_s, 3),
            ]
            for fault in series.faults
            if fault.started_s is not None
        ],
        "lanes": [
            {
                "name": f"{lane.topic}/{lane.partition}",
                "reigns": [
                    [round(r.start_s, 3), r.leader, r.epoch, ",".join(map(str, r.isr))]
                    for r in lane.reigns
                ],
            }
            for lane in lanes
        ],
    }


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.3g}")


__all__ = ["GRID", "Figure", "draw", "px"]
