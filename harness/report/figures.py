"""The figures of a run as geometry on one shared time axis; the template only writes them down.

From top to bottom: the faults with their names, the latency of each acks mode, its throughput and
errors, the leader of each partition. Every fault's band runs through all of them. All positions
are px in a drawing WIDTH wide. What is thinned or left out is counted, so that it can be said.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.report.lanes import Band, Lane, fault_bands, leader_lanes
from harness.report.panels import (
    CELL_PX,
    PX_PER_DECADE,
    LatencyPanel,
    RatePanel,
    latency_panels,
    rate_panels,
)
from harness.report.scales import LEFT, RIGHT, TITLE_HEIGHT, WIDTH, Tick, TimeAxis
from harness.report.series import Grid, Series
from harness.report.words import acks_class, acks_label

SECTION_GAP = 46

GRID = Grid(columns=round((RIGHT - LEFT) / CELL_PX), rows_per_decade=round(PX_PER_DECADE / CELL_PX))
"""The cells in which sends are drawn as one dot."""


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
    values: Mapping[str, Any]


def draw(series: Series) -> Figure | None:
    """Lay out all panels; None when nothing was recorded."""
    timeline = series.timeline
    if series.span_s <= 0 or not (series.acks or timeline.lanes or timeline.faults):
        return None
    axis = TimeAxis(span_s=series.span_s, left=LEFT, right=RIGHT)
    headings: list[Heading] = []
    y = 0.0

    def section(text: str, note: str = "") -> float:
        """Write a heading below what is there; returns where its section begins."""
        begin = y + (SECTION_GAP if headings else TITLE_HEIGHT + 4)
        headings.append(Heading(at=begin - 11, text=text, note=note))
        return begin

    bands: list[Band] = []
    if timeline.faults:
        bands, y = fault_bands(timeline.faults, axis, section("Faults"))
    top = y
    latency: list[LatencyPanel] = []
    rates: list[RatePanel] = []
    if series.acks:
        y = section("Publish latency", "log scale, by the time of the send")
        latency, y = latency_panels(series, axis, y)
        y = section("Acknowledged per second", "errors downwards; ▲ a burst beyond the scale")
        rates, y = rate_panels(series, axis, y)
    lanes: list[Lane] = []
    if timeline.lanes:
        y = section(
            "Leader of each partition",
            "number: leader; height of the bar: size of the ISR; ▼ another leader took over",
        )
        lanes, y = leader_lanes(timeline.lanes, axis, y)
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
        lanes=lanes,
        time_ticks=axis.ticks(),
        sends=sum(each.sends for each in series.acks),
        dots=sum(len(each.dots) for each in series.acks),
        values=_values(series),
    )


def _values(series: Series) -> dict[str, Any]:
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
            for fault in series.timeline.faults
            if fault.started_s is not None and fault.injected
        ],
        "lanes": [
            {
                "name": lane.name,
                "reigns": [
                    [round(r.start_s, 3), r.leader, r.epoch, ",".join(map(str, r.isr))]
                    for r in lane.reigns
                ],
            }
            for lane in series.timeline.lanes
        ],
    }


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.3g}")
