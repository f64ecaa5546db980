"""The geometry of a result's plots; the template draws it. Pure.

Both axes are logarithmic. Sweeps grow by factors of ten, and the values that a curve is compared
with (other acks modes, the talk of 2013, the client without a broker) differ as much. A whisker
reaches from the least to the greatest round. All positions are in px.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from harness.bench.output import claims, words
from harness.bench.points import (
    OUTAGES,
    PLOTTED,
    QUANTITIES,
    Client,
    Measure,
    Point,
    Quantity,
    Sweep,
    reference,
)
from harness.bench.results import CLIENT_ALONE, Result
from harness.bench.stats import Spread
from harness.plans.plan import acks_name
from harness.reports.scales import LogScale, Tick, decades, line, px

WIDTH: Final = 520
HEIGHT: Final = 300
LEFT, RIGHT, TOP, BOTTOM = 58.0, 384.0, 14.0, 256.0
LABEL_GAP: Final = 14.0
FEW_DECADES: Final = 2
ROW: Final = 24.0
GROUP_GAP: Final = 12.0
RANGE_WIDTH: Final = 1080
RANGE_LEFT, RANGE_RIGHT = 250.0, 1010.0

LABEL_X: Final = RIGHT + 6
MARKS: Final = ("circle", "square", "triangle", "diamond", "cross")
"""The marks of the systems, in the order of the command line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """One point of a curve; `title` is its tooltip."""

    x: float
    y: float
    title: str
    mark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One series of a plot."""

    css: str
    path: str
    whiskers: str
    dots: Sequence[Dot]
    label: str
    label_y: float
    ends: tuple[float, float]
    """Where its last dot is."""

    @property
    def leads(self) -> bool:
        """Whether a line has to lead from the last dot to the label."""
        return self.ends[0] < RIGHT - 2 * LABEL_GAP


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A horizontal line for a figure of 2013."""

    y: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A dashed line: how the sources say that a time changes with the number of partitions."""

    path: str
    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """The plot of a sweep by one client."""

    title: str
    unit: str
    x_title: str
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    curves: Sequence[Curve]
    claims: Sequence[Claim]
    rules: Sequence[Rule]
    alone: str
    """The client's rate without a broker, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeRow:
    """One row: p50 to p99 of one setting, in px along the x axis."""

    label: str
    css: str
    mark: str
    y: float
    p50: float
    p95: float
    p99: float
    reference: float | None
    title: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """The plot of the latencies."""

    height: float
    bottom: float
    ticks: Sequence[Tick]
    rows: Sequence[RangeRow]


def plots(result: Result) -> list[Plot]:
    """Return a plot for each sweep and client with values, except latency."""
    made = []
    kinds = groupby(
        (point for point in result.points if point.measure is not Measure.LATENCY),
        lambda p: (p.measure, p.sweep, p.client),
    )
    for (measure, sweep, client), points in kinds:
        here = list(points)
        for name in PLOTTED.get(measure, (QUANTITIES[measure][0].name,)):
            plot = _plot(result, measure, sweep, client, here, quantity_of(measure, name))
            if plot is not None:
                made.append(plot)
    return made


def _plot(
    result: Result,
    measure: Measure,
    sweep: Sweep,
    client: Client,
    points: Sequence[Point],
    quantity: Quantity,
) -> Plot | None:
    series = [
        (name, acks, found)
        for name in result.names
        for acks in dict.fromkeys(point.acks for point in points)
        if (found := _spreads(result, name, [p for p in points if p.acks == acks], quantity.name))
    ]
    if not series:
        return None
    is_first = quantity == QUANTITIES[measure][0]
    alone = [found for _, found in _spreads(result, CLIENT_ALONE, points, quantity.name)]
    references = {
        r.value: r.text for point in points if is_first and (r := reference(point)) is not None
    }
    values = [v for _, _, found in series for _, s in found for v in (s.least, s.most) if v > 0]
    low, high = decades([*values, *references])
    scale = LogScale(low_decade=low, high_decade=high, top=TOP, bottom=BOTTOM)
    xs = sorted({point.x for point in points})
    place = dict(zip(xs, _places(xs), strict=True))
    drawn = [_curve(result, sweep, name, acks, found, place, scale) for name, acks, found in series]
    claims = claim_lines(result, measure, quantity.name, series, place, scale)
    title = words.TITLES[measure] if is_first else _title_of(measure, quantity)
    if client is not Client.RAW:
        title += f" ({client})"
    return Plot(
        title=title,
        unit="ms" if measure in OUTAGES else quantity.label,
        x_title=words.SWEEPS[sweep],
        x_ticks=[
            Tick(at=place[p.x], label=words.x_label(p))
            for p in sorted({p.x: p for p in points}.values(), key=lambda p: p.x)
        ],
        y_ticks=_ticks(scale),
        curves=_apart(drawn),
        claims=claims,
        rules=[Rule(y=scale.y(value), text=f"2013: {text}") for value, text in references.items()],
        alone=_alone(alone, quantity.label),
    )


def _title_of(measure: Measure, quantity: Quantity) -> str:
    """Return the title of a plot of a quantity that is not the measure's first one."""
    return f"{words.TITLES[measure].partition(':')[0]}: {quantity.label}"


def quantity_of(measure: Measure, name: str) -> Quantity:
    """Return a measure's quantity of that name."""
    return next(each for each in QUANTITIES[measure] if each.name == name)


def claim_lines(
    result: Result,
    measure: Measure,
    quantity: str,
    series: Sequence[tuple[str, int, Sequence[tuple[Point, Spread]]]],
    place: Mapping[int, float],
    scale: LogScale,
) -> list[Claim]:
    """Return the claims about control planes, drawn through the first points of the curves.

    Each begins where the slowest cluster of its control plane begins.
    """
    made = []
    for claim in claims.about(measure, quantity):
        begun = [
            found[0]
            for name, _, found in series
            if claims.control_plane(result, name) == claim.control_plane and len(found) > 1
        ]
        if not begun:
            continue
        point, spread = max(begun, key=lambda each: each[1].median)
        last = max(place)
        end = spread.median * (last / point.x if claim.grows else 1.0)
        shown = min(end, 10.0**scale.high_decade)
        share = (
            1.0 if end == shown else math.log(shown / spread.median) / math.log(end / spread.median)
        )
        end_x = place[point.x] + share * (place[last] - place[point.x])
        path = line([(place[point.x], scale.y(spread.median)), (end_x, scale.y(shown))])
        made.append(Claim(path=path, x=end_x, y=scale.y(shown), text=claim.text))
    return made


def _spreads(
    result: Result, name: str, points: Sequence[Point], quantity: str
) -> list[tuple[Point, Spread]]:
    return [
        (point, found)
        for point in points
        if (found := result.spread(point, name, quantity)) is not None
    ]


def _places(xs: Sequence[int]) -> list[float]:
    """Return the x positions, by logarithm between the edges; a single one is in the middle."""
    if len(xs) == 1:
        return [(LEFT + RIGHT) / 2]
    low, high = math.log(xs[0]), math.log(xs[-1])
    inner = (RIGHT - 20) - (LEFT + 20)
    return [LEFT + 20 + inner * (math.log(x) - low) / (high - low) for x in xs]


def _curve(
    result: Result,
    sweep: Sweep,
    name: str,
    acks: int,
    found: Sequence[tuple[Point, Spread]],
    place: dict[int, float],
    scale: LogScale,
) -> Curve:
    at = [(place[point.x], scale.y(max(spread.median, 1e-9))) for point, spread in found]
    by_acks = found[0][0].measure is Measure.PRODUCER
    look = _look(result, name)
    several = len(result.names) > 1
    label = " ".join([f"acks={acks_name(acks)}"] * by_acks + [name] * (several or not by_acks))
    unit = QUANTITIES[found[0][0].measure][0].label
    return Curve(
        css=f"{_acks_css(acks) if by_acks else f's{look}'} y{look}",
        path=line(at),
        whiskers="".join(
            f"M{px(x)} {px(scale.y(max(spread.least, 1e-9)))}V{px(scale.y(spread.most))}"
            for (x, _), (_, spread) in zip(at, found, strict=True)
            if spread.count > 1
        ),
        dots=[
            Dot(
                x=x,
                y=y,
                mark=MARKS[look],
                title=f"{label}, {words.x_label(point)} {words.SWEEPS[sweep]}: "
                f"{words.spread(spread)} {unit}",
            )
            for (x, y), (point, spread) in zip(at, found, strict=True)
        ],
        label=label,
        label_y=at[-1][1],
        ends=at[-1],
    )


def _apart(curves: Sequence[Curve]) -> list[Curve]:
    """Return the curves with their labels moved down until no two overlap."""
    moved = []
    free = -math.inf
    for curve in sorted(curves, key=lambda each: each.label_y):
        label_y = max(curve.label_y, free)
        free = label_y + LABEL_GAP
        moved.append(_with_label_at(curve, label_y))
    excess = max(0.0, free - LABEL_GAP - BOTTOM)
    return [_with_label_at(curve, curve.label_y - excess) for curve in moved]


def _with_label_at(curve: Curve, label_y: float) -> Curve:
    return replace(curve, label_y=label_y)


def _alone(found: Iterable[Spread], unit: str) -> str:
    medians = [each.median for each in found]
    if not medians:
        return ""
    least, most = words.number(min(medians)), words.number(max(medians))
    value = least if least == most else f"{least} to {most}"
    return f"the client without a broker: {value} {unit}"


def ranges(result: Result) -> Ranges | None:
    """Return the plot of the latencies of all settings and systems; None without a latency."""
    found = [
        (point, name, [result.spread(point, name, q.name) for q in QUANTITIES[point.measure]])
        for point in sorted(
            (p for p in result.points if p.measure is Measure.LATENCY),
            key=lambda p: (p.acks if p.acks >= 0 else 2, p.client.value != Client.RAW),
        )
        for name in result.names
    ]
    measured = [
        (point, name, [s for s in spreads if s is not None])
        for point, name, spreads in found
        if all(spreads)
    ]
    if not measured:
        return None
    known = [r.value for point, _, _ in measured if (r := reference(point))]
    low, high = decades([*(s.median for _, _, three in measured for s in three), *known])
    scale = LogScale(low_decade=low, high_decade=high, top=RANGE_RIGHT, bottom=RANGE_LEFT)
    rows = []
    y = 8.0
    last_acks = measured[0][0].acks
    for point, name, (p50, p95, p99) in measured:
        y += ROW + (GROUP_GAP if point.acks != last_acks else 0)
        last_acks = point.acks
        talk = reference(point)
        label = f"acks={acks_name(point.acks)}  {point.client}"
        label += f"  {name}" if len(result.names) > 1 else ""
        rows.append(
            RangeRow(
                label=label,
                css=_acks_css(point.acks),
                mark=MARKS[_look(result, name)],
                y=y,
                p50=scale.y(p50.median),
                p95=scale.y(p95.median),
                p99=scale.y(p99.median),
                reference=scale.y(talk.value) if talk else None,
                title=f"{label}: p50 {words.spread(p50)}, p95 {words.spread(p95)}, "
                f"p99 {words.spread(p99)} ms",
                value=f"{words.number(p50.median)} ms",
            )
        )
    return Ranges(
        height=y + 46,
        bottom=y + 16,
        ticks=_ticks(scale),
        rows=rows,
    )


def _look(result: Result, name: str) -> int:
    """Return the number of a system's mark, colour and dashes."""
    return min(result.names.index(name), len(MARKS) - 1)


def _acks_css(acks: int) -> str:
    return f"a{acks_name(acks)}"


def _ticks(scale: LogScale) -> list[Tick]:
    """Return a tick for each decade; with few decades, also for 2 and 5 of each."""
    low, high = scale.low_decade, scale.high_decade
    steps = (1, 2, 5) if high - low <= FEW_DECADES else (1,)
    values = [step * 10.0**decade for decade in range(low, high) for step in steps]
    return [
        Tick(at=scale.y(value), label=f"{value:,.0f}" if value >= 1 else f"{value:g}")
        for value in (*values, 10.0**high)
    ]
