"""The layout of a diagram: lanes side by side, time downwards. Pure; in pixels.

Time is not to scale: each send, arrival and event has its own place below the one before it, so
that all can be read. A break shows how much time passes where nothing happens.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from harness.simulation.diagram.events import Mark, Span
from harness.simulation.diagram.messages import Message

WIDTH: Final = 1232
LEFT: Final = 92
RIGHT: Final = 24
TOP: Final = 12
ROW: Final = 19
"""The distance below an item with a text."""
STEP: Final = 7
"""The distance below an arrival, which has no text."""
BREAK: Final = 26
BREAK_NS: Final = 150_000_000
"""This much time without an event is a break."""
LETTER: Final = 6.1
"""The approximate width of a letter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """A message on its way; the arrow of a lost message ends in a cross."""

    x1: float
    y1: float
    x2: float
    y2: float
    text: "Note"
    css: str
    lost: bool
    loops: bool
    """The message goes from a machine to itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of a lane (up, leading, down), or a fault beside it."""

    x: float
    y1: float
    y2: float
    css: str
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A text at a place on a lane, or across all lanes."""

    x: float
    y: float
    words: str
    css: str
    after: bool = True
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A machine, or one client on the clients' machine."""

    name: str
    x: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Everything that is drawn."""

    height: float
    lanes: Sequence[Lane]
    pieces: Sequence[Piece]
    bars: Sequence[Piece]
    arrows: Sequence[Arrow]
    notes: Sequence[Note]
    breaks: Sequence[Note]
    times: Sequence[Note]


class Order(IntEnum):
    """The order of events at one instant: a message that was sent at the time of a kill was sent
    before it.
    """

    HEALED = 0
    ARRIVED = 1
    SENT = 2
    BEGAN = 3
    MARK = 4
    END = 5


Moment = tuple[int, Order]


class Rows:
    """The places of moments: later moments are lower; moments of one instant are sorted
    by `Order`.
    """

    def __init__(self, moments: Iterable[Moment], base_ns: int) -> None:
        self.breaks: list[tuple[float, str]] = []
        self.times: list[tuple[float, str]] = []
        self._places: dict[Moment, list[float]] = {}
        self._known: list[tuple[int, float]] = []
        y, last_ns, last_text = float(TOP), None, ""
        for at_ns, order in sorted(moments):
            room = STEP if order in (Order.ARRIVED, Order.END) else ROW
            if last_ns is not None and at_ns - last_ns >= BREAK_NS:
                self.breaks.append((y + BREAK / 2 - 6, f"{(at_ns - last_ns) / 1e9:.2f} s later"))
                y += BREAK
            text = f"{(at_ns - base_ns) / 1e9:.3f} s"
            if text != last_text and room >= ROW:
                self.times.append((y, text))
                last_text = text
            self._places.setdefault((at_ns, order), []).append(y)
            self._known.append((at_ns, y))
            last_ns = at_ns
            y += room
        self.end = y + TOP

    def take(self, at_ns: int, order: Order) -> float:
        """Return the next place of that moment."""
        return self._places[at_ns, order].pop(0)

    def near(self, at_ns: int) -> float:
        """Return where a moment without a place of its own would be."""
        return next((y for known, y in self._known if known >= at_ns), self.end - TOP)


def lanes_of(chosen: Sequence[Message], nodes: Sequence[str]) -> list[Lane]:
    """Return the lanes: clients with messages on the left, then the nodes."""
    others = {name for m in chosen for name in (m.sender, m.receiver)} - set(nodes)
    names = [*sorted(others), *nodes]
    gap = (WIDTH - LEFT - RIGHT) / max(1, len(names))
    return [Lane(name=n, x=LEFT + gap * (i + 0.5)) for i, n in enumerate(names)]


def draw(
    chosen: Sequence[Message],
    marks: Sequence[Mark],
    spans: Sequence[Span],
    nodes: Sequence[str],
    *,
    shown: tuple[int, int],
    base_ns: int,
    words: Callable[[Message], tuple[str, str, str]],
) -> Drawing:
    """Return the drawing of the chosen messages. `words` gives a message's short text, long text
    and CSS classes.

    Marks before the window decide in which state a lane begins.
    """
    start_ns, end_ns = shown
    lanes = lanes_of(chosen, nodes)
    inside = [mark for mark in marks if start_ns <= mark.at_ns <= end_ns]
    edges = [
        (at_ns, span, order)
        for span in spans
        for at_ns, order in ((span.began_ns, Order.BEGAN), (span.ended_ns, Order.HEALED))
        if at_ns is not None and start_ns <= at_ns <= end_ns
    ]
    rows = Rows(
        [
            (start_ns, Order.END),
            *((m.sent_ns, Order.SENT) for m in chosen),
            *((m.arrived_ns, Order.ARRIVED) for m in chosen if m.arrived_ns is not None),
            *((mark.at_ns, Order.MARK) for mark in inside),
            *((at_ns, order) for at_ns, _, order in edges),
            (end_ns, Order.END),
        ],
        base_ns,
    )
    at = {lane.name: lane.x for lane in lanes}
    notes = [_edge(rows.take(at_ns, order), span, order) for at_ns, span, order in edges]
    placed = [(mark, rows.take(mark.at_ns, Order.MARK)) for mark in inside]
    notes += [_note(mark, at[mark.lane], y) for mark, y in placed if mark.lane in at]
    return Drawing(
        height=rows.end,
        lanes=lanes,
        pieces=[p for lane in lanes for p in _lane(lane, marks, placed, start_ns, rows.end)],
        bars=[bar for span in spans for bar in _bars(span, at, rows, shown)],
        arrows=[_arrow(message, at, rows, *words(message)) for message in chosen],
        notes=notes,
        breaks=[Note(x=LEFT - 10, y=y, words=text, css="break") for y, text in rows.breaks],
        times=[Note(x=LEFT - 18, y=y, words=text, css="time") for y, text in rows.times],
    )


def _arrow(
    message: Message, at: Mapping[str, float], rows: Rows, short: str, title: str, css: str
) -> Arrow:
    x1, x2 = at[message.sender], at[message.receiver]
    y1 = rows.take(message.sent_ns, Order.SENT)
    lost = message.arrived_ns is None
    if message.arrived_ns is None:
        x2, y2 = x1 + (x2 - x1) * 0.6, y1 + 12
    else:
        y2 = rows.take(message.arrived_ns, Order.ARRIVED)
    rightwards = x2 >= x1
    text_x = x1 + 9 if rightwards else x1 - 9
    room = (WIDTH - text_x if rightwards else text_x - 4) / LETTER
    return Arrow(
        x1=x1,
        y1=y1,
        x2=x2,
        y2=y2,
        text=Note(
            x=text_x,
            y=y1 - 3,
            words=clipped(short, int(room)),
            css=css,
            after=rightwards,
            title=title,
        ),
        css=css,
        lost=lost,
        loops=x1 == x2,
    )


def clipped(words: str, most: int) -> str:
    """Return the text, cut with an ellipsis to `most` letters."""
    return words if len(words) <= most else words[: max(1, most - 1)].rstrip(" ,") + "…"


def _note(mark: Mark, x: float, y: float) -> Note:
    rightwards = WIDTH - x > x - LEFT or len(mark.words) * LETTER < WIDTH - x
    text_x = x + 9 if rightwards else x - 9
    room = (WIDTH - text_x if rightwards else text_x - 4) / LETTER
    return Note(
        x=text_x,
        y=y + 4,
        words=clipped(mark.words, int(room) - 2),
        css=f"mark {mark.kind}{' grave' if mark.grave else ''}",
        after=rightwards,
        title=f"{mark.lane} {mark.words}",
    )


def _edge(y: float, span: Span, order: Order) -> Note:
    words = (
        f"{span.words} begins"
        if order is Order.BEGAN
        else f"{span.words} is healed; it did: {span.effect}"
    )
    most = int((WIDTH - LEFT) / LETTER) - 4
    return Note(x=LEFT, y=y, words=clipped(words, most), css="fault", title=span.effect)


LANE_STATES: Final = {
    "boot": "up",
    "leader": "leads",
    "follower": "up",
    "offline": "up",
    "end": "down",
}


def _lane(
    lane: Lane,
    marks: Sequence[Mark],
    placed: Sequence[tuple[Mark, float]],
    start_ns: int,
    end: float,
) -> list[Piece]:
    """Return a lane in pieces: its state before the window, and its changes in the window."""
    own = [m for m in marks if m.lane == lane.name and m.kind in LANE_STATES and m.at_ns < start_ns]
    state, since = (LANE_STATES[own[-1].kind] if own else "up"), 0.0
    pieces = []
    for mark, y in placed:
        if mark.lane == lane.name and mark.kind in LANE_STATES:
            pieces.append(Piece(x=lane.x, y1=since, y2=y, css=state))
            state, since = LANE_STATES[mark.kind], y
    return [*pieces, Piece(x=lane.x, y1=since, y2=end, css=state)]


def _bars(
    span: Span, at: Mapping[str, float], rows: Rows, shown: tuple[int, int]
) -> Iterable[Piece]:
    """Yield a fault's bars beside the lanes that it affects."""
    ended_ns = shown[1] if span.ended_ns is None else span.ended_ns
    if span.began_ns > shown[1] or ended_ns < shown[0]:
        return
    y1 = 0.0 if span.began_ns < shown[0] else rows.near(span.began_ns)
    y2 = rows.end if ended_ns > shown[1] else rows.near(ended_ns)
    for lane in span.lanes:
        if lane in at:
            yield Piece(x=at[lane], y1=y1, y2=y2, css="fault", title=span.words)
