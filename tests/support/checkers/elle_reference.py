"""What phenomena a small history has, the slow way: every edge of the graph, and every way in it.

Written from the definitions (Adya's, as jepsen.tests.kafka has them), not from the checker: no edge
is left out, and a circle is there when an edge's end reaches its begin.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Edges = set[tuple[int, int, str]]
Row = Mapping[str, Any]


def all_edges(rows: Sequence[Row]) -> Edges:
    """Every ww, wr and rw edge between the transactions of a history's rows."""
    log: dict[tuple[str, int], dict[int, int]] = {}
    for row in rows:
        if row["f"] in ("poll", "final-read") and row.get("value") is not None:
            log.setdefault(home(row), {})[row["offset"]] = row["value"]
    writer = {row["value"]: node(row) for row in rows if row["f"] == "send"}
    edges: Edges = set()
    for partition, values in log.items():
        order = [values[offset] for offset in sorted(values)]
        place = {value: number for number, value in enumerate(order)}
        edges |= {
            (writer[one], writer[other], "ww")
            for one in order
            for other in order
            if place[one] < place[other]
        }
        last: dict[int, int] = {}
        for row in rows:
            if row["f"] == "poll" and home(row) == partition:
                last[node(row)] = max(last.get(node(row), -1), place[row["value"]])
        for reader, at in last.items():
            edges |= {(writer[order[at]], reader, "wr")}
            follows = {writer[value] for value in order[at + 1 : at + 2]}
            edges |= {(reader, other, "rw") for other in follows - {writer[order[at]]}}
    return {edge for edge in edges if edge[0] != edge[1]}


def home(row: Row) -> tuple[str, int]:
    """The partition of a row; a poll may have returned nothing."""
    return row.get("topic", ""), row.get("partition", -1)


def node(row: Row) -> int:
    """The transaction of a row."""
    return int(row["op"] if row.get("txn") is None else row["txn"])


def circles(edges: Edges) -> dict[str, bool]:
    """Which kinds of circles there are."""
    return {
        "ww": closes(edges, ("ww",), ("ww",)),
        "wr": closes(edges, ("wr",), ("wr",)),
        "ww or wr": closes(edges, ("ww", "wr"), ("ww", "wr")),
        "one rw": closes(edges, ("rw",), ("ww", "wr")),
        "any": closes(edges, ("ww", "wr", "rw"), ("ww", "wr", "rw")),
    }


def closes(edges: Edges, first: Iterable[str], back: Iterable[str]) -> bool:
    """Whether some edge of a kind of `first` has a way back of edges of kinds of `back`."""
    behind: dict[int, set[int]] = {}
    for src, dst, kind in edges:
        if kind in back:
            behind.setdefault(src, set()).add(dst)
    return any(src in reached(behind, dst) for src, dst, kind in edges if kind in first)


def reached(behind: Mapping[int, set[int]], start: int) -> set[int]:
    """All that can be reached, the start included."""
    found, waiting = {start}, [start]
    while waiting:
        new = behind.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found
