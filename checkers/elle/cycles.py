"""The cycles of a dependency graph, with Adya's names for phenomena and Elle's for anomalies.

    G0         ww edges alone
    G1c        ww and wr edges, at least one wr edge
    G-single   one rw edge, and ww and wr edges
    G2-item    two rw edges or more

Two transactions are in a cycle when each can be reached from the other. So cycles are searched for
inside strongly connected components, and each component gives one short cycle of each kind. Pure:
edges in, cycles out.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final, TypeAlias

import rustworkx as rx


class Dependency(StrEnum):
    """Why one transaction came before another; see `edges`."""

    WW = "ww"
    WR = "wr"
    RW = "rw"


class Phenomenon(StrEnum):
    """A kind of cycle; `G1C_READS` is a G1c of wr edges only."""

    G0 = "G0"
    G1C = "G1c"
    G1C_READS = "G1c of reads alone"
    G_SINGLE = "G-single"
    G2_ITEM = "G2-item"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """One dependency: two transactions, the partition, and the values."""

    src: int
    dst: int
    kind: Dependency
    topic: str
    partition: int
    value: int
    other_value: int

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Edge":
        """An edge from a row of `edges.EDGE`."""
        return cls(**{**row, "kind": Dependency(row["kind"])})

    @property
    def text(self) -> str:
        """Such as `3 wrote 7 to orders-0 before 5 wrote 9`."""
        where = f"{self.topic}-{self.partition}"
        match self.kind:
            case Dependency.WW:
                return f"{self.src} wrote {self.value} to {where} before {self.dst} wrote " + str(
                    self.other_value
                )
            case Dependency.WR:
                return f"{self.src} wrote {self.value} to {where}, which {self.dst} read last"
            case Dependency.RW:
                return (
                    f"{self.src} read {where} up to {self.value}, before {self.dst} wrote "
                    f"{self.other_value}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """A cycle of dependencies: each edge begins where the edge before it ends."""

    phenomenon: Phenomenon
    edges: tuple[Edge, ...]


MAX_TRIES: Final = 100
"""How many edges of one component are tried for a cycle; further edges would show the same."""

Digraph: TypeAlias = "rx.PyDiGraph[int, Edge]"


def find_cycles(edges: Sequence[Edge]) -> Iterator[Cycle]:
    """Yield a cycle of each kind in each component, the most severe kinds first.

    A component with a more severe cycle may also have a less severe one; it is yielded if it has an
    edge of its own kind.
    """
    # Each search below makes a graph of its edges. Most edges are in no cycle at all.
    inside = {id(edge) for component in components(edges) for edge in component}
    edges = [edge for edge in edges if id(edge) in inside]
    ww, wr, rw = Dependency.WW, Dependency.WR, Dependency.RW
    yield from _through(edges, Phenomenon.G0, through=ww, back=(ww,))
    yield from _through(edges, Phenomenon.G1C_READS, through=wr, back=(wr,))
    yield from _through(
        edges, Phenomenon.G1C, through=wr, back=(ww, wr), unless=lambda found: ww not in found
    )
    yield from _through(edges, Phenomenon.G_SINGLE, through=rw, back=(ww, wr))
    yield from _through(
        edges, Phenomenon.G2_ITEM, through=rw, back=(ww, wr, rw),
        unless=lambda found: sum(kind is rw for kind in found) < 2,
    )  # fmt: skip


def _through(
    edges: Iterable[Edge],
    phenomenon: Phenomenon,
    *,
    through: Dependency,
    back: tuple[Dependency, ...],
    unless: Callable[[Sequence[Dependency]], bool] = lambda _: False,
) -> Iterator[Cycle]:
    """Yield for each component a cycle: an edge `through`, and a path `back` from its end to its
    start.

    The components are those of both kinds of edges together. The path back is a shortest one.
    """
    wanted = [edge for edge in edges if edge.kind is through or edge.kind in back]
    for component in components(wanted):
        graph, numbers = _graph(edge for edge in component if edge.kind in back)
        tried = 0
        for edge in component:
            if edge.kind is not through:
                continue
            tried += 1
            if tried > MAX_TRIES:
                break
            way = _way(graph, numbers, edge.dst, edge.src)
            circle = None if way is None else (edge, *way)
            if circle is not None and not unless([each.kind for each in circle]):
                yield Cycle(phenomenon=phenomenon, edges=circle)
                break


def components(edges: Sequence[Edge]) -> list[list[Edge]]:
    """Return the edges inside each strongly connected component of two or more nodes."""
    graph, numbers = _graph(edges)
    home: dict[int, int] = {}
    for number, component in enumerate(rx.strongly_connected_components(graph)):
        home.update(dict.fromkeys(component, number))
    inside: dict[int, list[Edge]] = {}
    for edge in edges:
        src, dst = home[numbers[edge.src]], home[numbers[edge.dst]]
        if src == dst:
            inside.setdefault(src, []).append(edge)
    return list(inside.values())


def _graph(edges: Iterable[Edge]) -> tuple[Digraph, dict[int, int]]:
    """Return a graph, and the node number of each transaction."""
    numbers: dict[int, int] = {}
    listed = [
        (numbers.setdefault(e.src, len(numbers)), numbers.setdefault(e.dst, len(numbers)), e)
        for e in edges
    ]
    graph: Digraph = rx.PyDiGraph()
    graph.add_nodes_from(list(numbers))
    graph.add_edges_from(listed)
    return graph, numbers


def _way(
    graph: Digraph, numbers: Mapping[int, int], start: int, end: int
) -> tuple[Edge, ...] | None:
    """Return the edges of a shortest path; None without one."""
    if start not in numbers or end not in numbers:
        return None
    first, last = numbers[start], numbers[end]
    paths = rx.digraph_dijkstra_shortest_paths(graph, first, target=last)
    if last not in paths:
        return None
    path = list(paths[last])
    return tuple(graph.get_edge_data(one, other) for one, other in pairwise(path))
