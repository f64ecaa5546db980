"""The edges of a dependency graph, as arrays of integers. Pure: places in, edges out.

A node is a transaction: all rows that share a `txn`, or a single send or poll (its `op`). The
version order of a partition is the order of the places of its records. An edge says which of two
transactions came first in a partition.

    ww   the first wrote a record, and the second wrote a later one
    wr   the first wrote the last record that the second read
    rw   the first read up to a record, and the second wrote the next one

Only the last record that a transaction read of a partition counts: the transaction read a range,
and the writers of earlier records come before the writer of the last one by ww. A read that ended
inside the writes of one transaction is not a cycle of the two, but a phenomenon of its own (G1b,
`read_inside`).

Most edges cannot be in a cycle and are never made. In one partition all edges go up, so a cycle
needs transactions at two places (*connectors*: in two partitions, or twice in one). The graph keeps
the writes of connectors, the writes that they read last, the write behind each of these, and the ww
edges between neighbours of the kept writes. Reachability between kept nodes does not change. Every
other edge that is left out is parallel to a kept ww edge, and its cycle would say less than the
cycle of that edge.

Millions of edges are a few arrays here. Only the edges of the cycles that are found become objects
(`checkers.elle.cycles`).
"""

from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.integer[Any]]
Flags: TypeAlias = npt.NDArray[np.bool_]

WW, WR, RW = range(3)
"""The kinds of edges."""

LAST: Final = 2**63 - 1
"""No place is beyond it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Records that were written, or read last: the node, the number of the partition, and the place
    of each. Nodes and partitions are numbered from 0 on."""

    node: Ints
    partition: Ints
    place: Ints

    def at(self, chosen: Ints | Flags | slice) -> "Places":
        """Some of them, or all of them in another order."""
        return Places(
            node=self.node[chosen], partition=self.partition[chosen], place=self.place[chosen]
        )

    def __len__(self) -> int:
        return len(self.node)


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Edges: the nodes src and dst, the kind, and the numbers of two writes: of the one that was
    written or last read first, and of the one that was written or read later."""

    src: Ints
    dst: Ints
    kind: Ints
    one: Ints
    other: Ints

    def at(self, chosen: Ints | Flags | slice) -> "Links":
        """Some of them, or all of them in another order."""
        return Links(**{name: getattr(self, name)[chosen] for name in COLUMNS})

    def __len__(self) -> int:
        return len(self.src)

    def sorted(self) -> "Links":
        """In a fixed order, with one edge for equal src, dst and kind: that of the first write."""
        links = self.at(np.lexsort((self.other, self.one, self.kind, self.dst, self.src)))
        same = (links.src[1:] == links.src[:-1]) & (links.dst[1:] == links.dst[:-1])
        same &= links.kind[1:] == links.kind[:-1]
        return links.at(np.concatenate((np.ones(min(1, len(links)), np.bool_), ~same)))


COLUMNS: Final = tuple(Links.__dataclass_fields__)


def version_order(writes: Places) -> Ints:
    """Return the numbers of the writes by partition and place; two at one place are sorted by their
    nodes."""
    order = np.argsort(_keys(writes, writes.at(slice(0)))[0], kind="stable")
    partition, place = writes.partition[order], writes.place[order]
    if np.any((partition[1:] == partition[:-1]) & (place[1:] == place[:-1])):
        return np.lexsort((writes.node, writes.place, writes.partition))
    return order


def links(writes: Places, reads: Places) -> Links:
    """Return every edge that may be in a cycle. writes: in version order. reads: the last record
    that a node read of a partition; each is at the place of a write."""
    nodes = int(max(writes.node.max(initial=-1), reads.node.max(initial=-1))) + 1
    places = np.bincount(writes.node, minlength=nodes) + np.bincount(reads.node, minlength=nodes)
    connects = places > 1
    reader, at, behind = _beside(writes, reads.at(connects[reads.node]))
    # There may be no write behind the place: then its number is that of another partition's first
    # write, or the number of all writes.
    followed = np.append(writes.partition[1:] == writes.partition[:-1], False)
    kept = connects[writes.node]
    kept[at] = True
    kept[1:] |= kept[:-1] & followed[:-1]
    chain = np.flatnonzero(kept).astype(np.int32)
    one, other = chain[:-1], chain[1:]
    together = writes.partition[one] == writes.partition[other]
    overtaken = followed[behind - 1]
    before, last, following = reader[overtaken], at[overtaken], behind[overtaken]
    told = writes.node[following] != writes.node[last]
    return _joined(
        _edges(writes, WW, one[together], other[together]),
        _edges(writes, WR, at, at, dst=reader),
        _edges(writes, RW, last[told], following[told], src=before[told]),
    )


def read_inside(writes: Places, reads: Places) -> tuple[Ints, Ints]:
    """G1b: return reads that ended inside what another node wrote to the partition, as the nodes
    that read and the numbers of the last writes that they read. writes: in version order."""
    reader, at, _ = _beside(writes, reads)
    foreign = writes.node[at] != reader
    reader, at = reader[foreign], at[foreign]
    concerned = np.zeros(int(writes.node.max(initial=-1)) + 1, np.bool_)
    concerned[writes.node[at]] = True
    theirs = np.flatnonzero(concerned[writes.node])[::-1]
    partitions = int(writes.partition.max(initial=-1)) + 1
    home = writes.node[theirs].astype(np.int64) * partitions + writes.partition[theirs]
    homes, first = np.unique(home, return_index=True)
    wanted = writes.node[at].astype(np.int64) * partitions + writes.partition[at]
    last = theirs[first][np.searchsorted(homes, wanted)]
    inside = writes.place[at] < writes.place[last]
    return reader[inside], at[inside]


def _beside(writes: Places, reads: Places) -> tuple[Ints, Ints, Ints]:
    """Return for each read, and each write at its place: the node that read, the number of that
    write, and the number of the next write behind the place (of any partition)."""
    key, wanted = _keys(writes, reads)
    order = np.argsort(wanted)  # searching in order is faster
    first, behind = (np.searchsorted(key, wanted[order], side) for side in ("left", "right"))
    count = behind - first
    again = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    at = (np.repeat(first, count) + again).astype(np.int32)
    return np.repeat(reads.node[order], count), at, np.repeat(behind, count).astype(np.int32)


def _keys(writes: Places, reads: Places) -> tuple[Ints, Ints]:
    """Return one integer for partition and place of each of both, in their order."""
    least = min(each.place.min(initial=LAST) for each in (writes, reads))
    span = max(each.place.max(initial=least) for each in (writes, reads)) - least
    partitions = max(each.partition.max(initial=0) for each in (writes, reads))
    bits = int(span).bit_length()
    if int(partitions).bit_length() + bits <= 62:
        one, other = (
            each.partition.astype(np.int64) << bits | (each.place - least)
            for each in (writes, reads)
        )
        return one, other
    _, rank = np.unique(np.concatenate((writes.place, reads.place)), return_inverse=True)
    cut = len(writes)
    return _keys(replace(writes, place=rank[:cut]), replace(reads, place=rank[cut:]))


def _edges(
    writes: Places, kind: int, one: Ints, other: Ints, *, src: Ints | None = None,
    dst: Ints | None = None,
) -> Links:  # fmt: skip
    """Return the edges from writes to writes, between different nodes; src, dst: nodes in the place
    of those that wrote."""
    src = writes.node[one] if src is None else src
    dst = writes.node[other] if dst is None else dst
    apart = src != dst
    kinds = np.full(int(apart.sum()), kind, np.int8)
    return Links(src=src[apart], dst=dst[apart], kind=kinds, one=one[apart], other=other[apart])


def _joined(*parts: Links) -> Links:
    return Links(
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS}
    )
