"""The difference between each node's wall clock and the true time, bounded for drawing."""

from dataclasses import dataclass
from typing import Any

MOST_CHANGES = 2_000
"""Changes of one clock. With more, the last one of each of this many time spans is drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WallClock:
    """One node's clock: how many ms it was ahead (negative: behind) from each moment on; 0
    before."""

    node: int
    at_s: tuple[float, ...]
    ahead_ms: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WallClocks:
    """The clocks that a fault ever set, in the order of the nodes."""

    clocks: tuple[WallClock, ...]
    crowded_s: float | None
    """Only the last change within this time is kept; None: all are."""


def read_wall_clocks(db: Any, span_s: float) -> WallClocks:
    """Read the view `cluster`."""
    [most] = db.execute(
        "SELECT max(many) FROM (SELECT count(*) AS many FROM cluster"
        " WHERE kind = 'clock' AND node IS NOT NULL GROUP BY node)"
    ).fetchone()
    crowded_s = span_s / MOST_CHANGES if (most or 0) > MOST_CHANGES else None
    moment_ns = max(1, round((crowded_s or 0) * 1e9))
    found: dict[int, list[tuple[float, float]]] = {}
    for node, at_ns, ahead_ms in db.execute(
        "SELECT node, at_ns, ahead_ms FROM cluster"
        " WHERE kind = 'clock' AND node IS NOT NULL AND ahead_ms IS NOT NULL"
        " QUALIFY row_number() OVER"
        f" (PARTITION BY node, at_ns // {moment_ns} ORDER BY at_ns DESC) = 1"
        " ORDER BY node, at_ns"
    ).fetchall():
        found.setdefault(node, []).append((at_ns / 1e9, ahead_ms))
    clocks = tuple(
        WallClock(
            node=node,
            at_s=tuple(at_s for at_s, _ in changes),
            ahead_ms=tuple(ahead_ms for _, ahead_ms in changes),
        )
        for node, changes in found.items()
    )
    return WallClocks(clocks=clocks, crowded_s=crowded_s)
