"""Faults and leaders as bars along the time axis.

A fault is a bar with its name, in a row where no other name is in its way, and a band of a pattern
of its family through all panels. A partition is a lane of bars, one per reign.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.report.scales import CHARACTER_PX, RIGHT, Tick, TimeAxis
from harness.report.timeline import FaultSpan, LeaderLane, Reign
from harness.report.words import seconds

LANE_HEIGHT, LANE_GAP = 16, 4
FAULT_HEIGHT, FAULT_GAP = 15, 4
MAX_FAULT_ROWS = 8
CROWDED_FAULTS = 40
"""More faults than this are named by their number only."""

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


def fault_bands(
    faults: Sequence[FaultSpan], axis: TimeAxis, top: float
) -> tuple[list[Band], float]:
    """Bars in as many rows as keep their names apart, and where they end."""
    row_ends: list[float] = []
    bands = []
    crowded = len(faults) > CROWDED_FAULTS
    for fault in faults:
        if fault.started_s is None or not fault.injected:
            continue  # the table of faults says why
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


def leader_lanes(lanes: Sequence[LeaderLane], axis: TimeAxis, y: float) -> tuple[list[Lane], float]:
    """One lane below the other from `y` on, and where they end."""
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
                    title=f"{lane.name}, {_reign_words(reign)}",
                )
            )
        changes = [Tick(at=axis.x(r.start_s), label=str(r.leader)) for r in lane.changes]
        drawn.append(
            Lane(
                label=lane.name,
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


def _reign_words(reign: Reign) -> str:
    led = "no leader" if reign.leader is None else f"leader node {reign.leader}"
    members = ", ".join(map(str, reign.isr)) or "unknown"
    return (
        f"{seconds(reign.start_s)} to {seconds(reign.end_s)}: {led}, epoch {reign.epoch}, "
        f"ISR {members}"
    )
