"""The cycles of a dependency graph, with Adya's names for phenomena and Elle's for anomalies.

    G0         ww edges alone
    G1c        ww and wr edges, at least one wr edge
    G-single   one rw edge, and ww and wr edges
    G2-item    two rw edges or more

Two transactions are in a cycle when each can be reached from the other. So cycles are searched for
inside strongly connected components, and each component gives one short cycle of each kind. Pure:
edges in, cycles out, as numbers of edges.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from checkers.elle.links import RW, WR, WW, Flags, Ints, Links


class Phenomenon(StrEnum):
    """A kind of cycle; `G1C_READS` is a G1c of wr edges only."""

    G0 = "G0"
    G1C = "G1c"
    G1C_READS = "G1c of reads alone"
    G_SINGLE = "G-single"
    G2_ITEM = "G2-item"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What makes a cycle one of a phenomenon: an edge of the kind `through`, and a way back of the
    kinds `back`, with at least one edge of the kind `needed` among them, if any."""

    phenomenon: Phenomenon
    through: int
    back: tuple[int, ...]
    needed: int | None = None


KINDS: Final = (
    Kind(phenomenon=Phenomenon.G0, through=WW, back=(WW,)),
    Kind(phenomenon=Phenomenon.G1C_READS, through=WR, back=(WR,)),
    Kind(phenomenon=Phenomenon.G1C, through=WR, back=(WW, WR), needed=WW),
    Kind(phenomenon=Phenomenon.G_SINGLE, through=RW, back=(WW, WR)),
    Kind(phenomenon=Phenomenon.G2_ITEM, through=RW, back=(WW, WR, RW), needed=RW),
)
"""The most severe first."""

SHORTEST: Final = 2
"""How many edges the smallest cycle has."""

MAX_TRIES: Final = 100
"""How many edges of one component are tried for a smaller cycle; further edges would show the
same."""

MAX_WAYS: Final = 10_000
"""How many ways are tried where the shortest one passes a node twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """A cycle of dependencies, as numbers of edges: each begins where the edge before it ends."""

    phenomenon: Phenomenon
    edges: tuple[int, ...]


def in_cycles(links: Links) -> Links:
    """Return the edges that are in some cycle, in a fixed order."""
    return links.at(_homes(links) >= 0).sorted()


def find_cycles(links: Links) -> Iterator[Cycle]:
    """Yield a cycle of each kind in each component, the most severe kinds first. links: the result
    of `in_cycles`.

    A component with a more severe cycle may also have a less severe one; it is yielded if it has an
    edge of its own kind.
    """
    for kind in KINDS:
        yield from _of_kind(links, kind)


def _of_kind(links: Links, kind: Kind) -> Iterator[Cycle]:
    """Yield a cycle for each component of the edges of both kinds together."""
    wanted = np.flatnonzero(np.isin(links.kind, (kind.through, *kind.back)))
    home = _homes(links.at(wanted))
    wanted, home = wanted[home >= 0], home[home >= 0]
    if kind.needed is not None:
        having = np.unique(home[links.kind[wanted] == kind.needed])
        wanted, home = wanted[np.isin(home, having)], home[np.isin(home, having)]
    ways = _Ways(links, wanted[np.isin(links.kind[wanted], kind.back)], kind.needed)
    start = links.kind[wanted] == kind.through
    starts, home = wanted[start], home[start]
    order = np.argsort(home, kind="stable")
    cuts = np.flatnonzero(np.diff(home[order])) + 1
    for component in np.split(starts[order], cuts) if len(starts) else ():
        found = _smallest(links, component[:MAX_TRIES].tolist(), ways)
        if found is not None:
            yield Cycle(phenomenon=kind.phenomenon, edges=found)


def _smallest(links: Links, starts: Sequence[int], ways: "_Ways") -> tuple[int, ...] | None:
    """Return the smallest cycle through one of some edges; None without any."""
    best: tuple[int, ...] | None = None
    for edge in starts:
        limit = None if best is None else len(best) - 2
        way = ways.back(int(links.dst[edge]), int(links.src[edge]), limit)
        if way is not None:
            best = (edge, *way)
            if len(best) == SHORTEST:
                break
    return best


class _Ways:
    """The ways along some edges, which are in the order of `in_cycles`."""

    def __init__(self, links: Links, edges: Ints, needed: int | None) -> None:
        self._edges = edges
        self._dst = links.dst[self._edges]
        self._needs = links.kind[self._edges] == (-1 if needed is None else needed)
        self._nodes, self._begins = np.unique(links.src[self._edges], return_index=True)
        self._ends = np.append(self._begins[1:], len(self._edges))
        self._needed = needed

    def back(self, start: int, end: int, limit: int | None) -> tuple[int, ...] | None:
        """Return a shortest way, with an edge of the needed kind; None if there is no way of at
        most `limit` edges."""
        # A state is a node, and whether an edge of the needed kind is behind it.
        first = start, self._needed is None
        before: dict[_State, tuple[_State, int] | None] = {first: None}
        reached, length = [first], 0
        while reached and (limit is None or length < limit):
            length += 1
            here, reached = reached, []
            for state in here:
                for edge, node, needed in self._from(state[0]):
                    new = node, state[1] or needed
                    if new in before or new == (end, False):
                        continue
                    before[new] = state, edge
                    if node == end:
                        way = _traced(before, new)
                        return way or self._without_a_loop(start, end, limit)
                    reached.append(new)
        return None

    def _without_a_loop(self, start: int, end: int, limit: int | None) -> tuple[int, ...] | None:
        """Return a shortest way that passes no node twice: of all ways, the shorter ones first,
        until there are too many."""
        ways: list[tuple[tuple[int, ...], tuple[int, ...], bool]] = [
            ((), (start,), self._needed is None)
        ]
        for way, passed, had in ways:
            if limit is not None and len(way) >= limit:
                return None
            for edge, node, needed in self._from(passed[-1]):
                if node == end and (had or needed):
                    return (*way, edge)
                if node != end and node not in passed and len(ways) < MAX_WAYS:
                    ways.append(((*way, edge), (*passed, node), had or needed))
        return None

    def _from(self, node: int) -> Iterator[tuple[int, int, bool]]:
        """Yield the edges from a node: the edge, the node where it ends, whether its kind is the
        needed one."""
        at = int(np.searchsorted(self._nodes, node))
        if at < len(self._nodes) and self._nodes[at] == node:
            part = slice(self._begins[at], self._ends[at])
            columns = (self._edges, self._dst, self._needs)
            yield from zip(*(column[part].tolist() for column in columns), strict=True)


_State = tuple[int, bool]


def _traced(
    before: Mapping[_State, tuple[_State, int] | None], state: _State
) -> tuple[int, ...] | None:
    """Return the edges up to a state; None if a node is passed twice."""
    way, passed = [], [state[0]]
    while (step := before[state]) is not None:
        state, edge = step
        way.append(edge)
        passed.append(state[0])
    return tuple(reversed(way)) if len(set(passed)) == len(passed) else None


def _homes(links: Links) -> Ints:
    """Return for each edge the number of the strongly connected component that it is inside of; -1
    if it is in no cycle."""
    if not len(links):
        return np.zeros(0, np.int64)
    nodes = int(max(links.src.max(), links.dst.max())) + 1
    weights = np.ones(len(links), np.int8)
    graph = csr_array((weights, (links.src, links.dst)), shape=(nodes, nodes))
    _, home = connected_components(graph, directed=True, connection="strong")
    inside: Flags = home[links.src] == home[links.dst]
    return np.where(inside, home[links.src], -1)
