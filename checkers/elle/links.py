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

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

WW, WR, RW = range(3)
"""The kinds of edges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Records that were written, or read last: the node, the number of the partition, the place and
    the value of each. Nodes and partitions are numbered from 0 on."""

    node: Ints
    partition: Ints
    place: Ints
    value: Ints

    def at(self, chosen: Ints | Flags) -> "Places":
        """Some of them, or all of them in another order."""
        return Places(
            node=self.node[chosen],
            partition=self.partition[chosen],
            place=self.place[chosen],
            value=self.value[chosen],
        )

    def __len__(self) -> int:
        return len(self.node)


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Edges: the nodes src and dst, the kind, the number of the partition, and two values: the one
    that was written or last read first, and the one that was written or read later."""

    src: Ints
    dst: Ints
    kind: Ints
    partition: Ints
    value: Ints
    other_value: Ints

    def at(self, chosen: Ints | Flags) -> "Links":
        """Some of them, or all of them in another order."""
        return Links(
            src=self.src[chosen],
            dst=self.dst[chosen],
            kind=self.kind[chosen],
            partition=self.partition[chosen],
            value=self.value[chosen],
            other_value=self.other_value[chosen],
        )

    def __len__(self) -> int:
        return len(self.src)

    def sorted(self) -> "Links":
        """In a fixed order, with one edge for equal src, dst and kind."""
        order = np.lexsort(
            (self.other_value, self.value, self.partition, self.kind, self.dst, self.src)
        )
        links = self.at(order)
        same = (links.src[1:] == links.src[:-1]) & (links.dst[1:] == links.dst[:-1])
        same &= links.kind[1:] == links.kind[:-1]
        return links.at(np.concatenate((np.ones(min(1, len(links)), np.bool_), ~same)))


def version_order(writes: Places) -> Places:
    """Return the writes by partition and place; two at one place are sorted by their nodes."""
    order = np.argsort(_keys(writes, writes)[0], kind="stable")
    sorted_ones = writes.at(order)
    if np.any(_neighbours(sorted_ones) & (np.diff(sorted_ones.place) == 0)):
        return writes.at(np.lexsort((writes.node, writes.place, writes.partition)))
    return sorted_ones


def links(writes: Places, reads: Places) -> Links:
    """Return every edge that may be in a cycle. writes: in version order. reads: the last record
    that a node read of a partition; each is at the place of a write."""
    nodes = int(max(writes.node.max(initial=-1), reads.node.max(initial=-1))) + 1
    places = np.bincount(writes.node, minlength=nodes) + np.bincount(reads.node, minlength=nodes)
    connects = places > 1
    reads = reads.at(connects[reads.node])
    reader, at, behind = _beside(writes, reads)
    # `behind` may be the number of writes: there is no such write.
    followed = np.append(_neighbours(writes), False)
    kept = np.append(connects[writes.node], False)
    kept[at] = True
    kept[1:] |= kept[:-1] & followed
    chain = np.flatnonzero(kept[:-1])
    one, other = chain[:-1], chain[1:]
    together = writes.partition[one] == writes.partition[other]
    overtaken = followed[behind - 1]
    reader_before, last, following = reader[overtaken], at[overtaken], behind[overtaken]
    told = writes.node[following] != writes.node[last]
    return _joined(
        _edges(writes, WW, one[together], other[together]),
        _edges(writes, WR, at, at, dst=reader),
        _edges(writes, RW, last[told], following[told], src=reader_before[told]),
    )


def read_inside(writes: Places, reads: Places) -> tuple[Ints, Ints]:
    """G1b: return reads that ended inside what another node wrote to the partition, as the nodes
    that read and the numbers of the last writes that they read. writes: in version order."""
    reader, at, _ = _beside(writes, reads)
    foreign = writes.node[at] != reader
    reader, at = reader[foreign], at[foreign]
    concerned = np.zeros(int(writes.node.max(initial=-1)) + 1, np.bool_)
    concerned[writes.node[at]] = True
    theirs = np.flatnonzero(concerned[writes.node])
    partitions = int(writes.partition.max(initial=-1)) + 1
    home = writes.node * partitions + writes.partition
    backwards = theirs[::-1]
    homes, first = np.unique(home[backwards], return_index=True)
    last = backwards[first][np.searchsorted(homes, home[at])] if len(at) else at
    inside = writes.place[at] < writes.place[last]
    return reader[inside], at[inside]


def _beside(writes: Places, reads: Places) -> tuple[Ints, Ints, Ints]:
    """Return for each read, and each write at its place: the node that read, the number of that
    write, and the number of the next write behind the place (of any partition)."""
    key, wanted = _keys(writes, reads)
    first, behind = (np.searchsorted(key, wanted, side) for side in ("left", "right"))
    count = behind - first
    again = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    at = np.repeat(first, count) + again
    return np.repeat(reads.node, count), at, np.repeat(behind, count)


def _keys(writes: Places, others: Places) -> tuple[Ints, Ints]:
    """Return one integer for partition and place of each of both, in their order."""
    place = np.concatenate((writes.place, others.place))
    partitions = int(max(writes.partition.max(initial=0), others.partition.max(initial=0)))
    place = place - place.min(initial=0)
    bits = int(place.max(initial=0)).bit_length()
    if partitions.bit_length() + bits > 62:
        place = np.unique(place, return_inverse=True)[1]
        bits = len(place).bit_length()
    key = np.concatenate((writes.partition, others.partition)) << bits | place
    return key[: len(writes)], key[len(writes) :]


def _neighbours(writes: Places) -> Flags:
    """Whether each write but the last is followed by a write to its partition."""
    found: Flags = writes.partition[1:] == writes.partition[:-1]
    return found


def _edges(
    writes: Places, kind: int, one: Ints, other: Ints, *, src: Ints | None = None,
    dst: Ints | None = None,
) -> Links:  # fmt: skip
    """Return the edges from writes to writes; src, dst: nodes in the place of those that wrote."""
    return Links(
        src=writes.node[one] if src is None else src,
        dst=writes.node[other] if dst is None else dst,
        kind=np.full(len(one), kind, np.int8),
        partition=writes.partition[one],
        value=writes.value[one],
        other_value=writes.value[other],
    )


def _joined(*parts: Links) -> Links:
    """All edges between different nodes."""
    apart = [part.at(part.src != part.dst) for part in parts]
    return Links(
        **{
            name: np.concatenate([getattr(part, name) for part in apart])
            for name in Links.__dataclass_fields__
        }
    )
