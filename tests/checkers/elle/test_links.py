"""Edges as arrays: the same as those of a plain reference, in random graphs."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from checkers.elle.links import (
    COLUMNS,
    RW,
    WR,
    WW,
    Links,
    Places,
    links,
    read_inside,
    version_order,
)
from tests.support.checkers import elle_slow
from tests.support.checkers.elle_slow import Written

KINDS = {WW: "ww", WR: "wr", RW: "rw"}


def places(rows: Sequence[Written], *, stride: int = 1) -> Places:
    """The arrays of rows."""
    node, partition, place = np.array(rows, np.int64).reshape(-1, 3).T
    return Places(node=node, partition=partition, place=place * stride)


def in_order(rows: Sequence[Written], *, stride: int = 1) -> Places:
    """Writes in version order."""
    writes = places(rows, stride=stride)
    return writes.at(version_order(writes))


def as_set(found: Links) -> set[elle_slow.Link]:
    """Edges without their values."""
    rows = zip(found.src.tolist(), found.dst.tolist(), found.kind.tolist(), strict=True)
    return {(src, dst, KINDS[kind]) for src, dst, kind in rows}


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Written], list[Written]]:
    """Writes of six nodes to three partitions, in any order; last reads of written places."""
    nodes = st.integers(0, 5)
    writes = [
        (draw(nodes), partition, place)
        for partition in range(3)
        for place in draw(st.sets(st.integers(0, 6), max_size=5))
    ]
    writes = draw(st.permutations(writes))
    if not writes:
        return [], []
    wanted = st.tuples(st.integers(0, 8), st.sampled_from(writes))
    reads = {(reader, at): place for reader, (_, at, place) in draw(st.lists(wanted, max_size=6))}
    return writes, [(reader, at, place) for (reader, at), place in reads.items()]


@given(graphs())
def test_edges_are_those_of_the_plain_reference(graph: tuple[list[Written], list[Written]]) -> None:
    """None is missing, none is too much."""
    writes, reads = graph
    found = links(in_order(writes), places(reads))
    assert as_set(found) == elle_slow.links(writes, reads)


@given(graphs(), st.sampled_from([1, 1 << 20, 1 << 60]))
def test_edges_do_not_depend_on_the_size_of_offsets(
    graph: tuple[list[Written], list[Written]], stride: int
) -> None:
    """Partition and place fit into one integer, or are ranked first."""
    writes, reads = graph
    far = links(in_order(writes, stride=stride), places(reads, stride=stride))
    assert as_set(far) == elle_slow.links(writes, reads)


def test_edges_name_the_records() -> None:
    """The write that came first, and the one that was written or read later."""
    writes = in_order([(0, 0, 0), (0, 1, 0), (1, 0, 1), (1, 1, 1)])
    found = links(writes, places([(2, 0, 0), (2, 1, 1)])).sorted()
    columns = (getattr(found, name).tolist() for name in COLUMNS)
    assert [*zip(*columns, strict=True)] == [
        (0, 1, WW, 0, 1),
        (0, 2, WR, 0, 0),
        (1, 2, WR, 3, 3),
        (2, 1, RW, 0, 1),
    ]


def test_two_writes_at_one_place_both_count() -> None:
    """A value that two transactions sent: each may have written the record."""
    writes = [(1, 0, 0), (0, 0, 0), (0, 1, 0), (1, 1, 1)]
    reads = [(2, 0, 0), (2, 1, 0)]
    found = links(in_order(writes), places(reads))
    assert as_set(found) == elle_slow.links(writes, reads)
    assert {(0, 2, "wr"), (1, 2, "wr")} <= as_set(found)


@given(graphs())
def test_reads_that_ended_inside_a_transaction(graph: tuple[list[Written], list[Written]]) -> None:
    """G1b: another node wrote the record that was read last, and a later one of the partition."""
    writes, reads = graph
    ordered = in_order(writes)
    readers, at = read_inside(ordered, places(reads))
    last = ordered.at(at)
    rows = readers.tolist(), last.partition.tolist(), last.place.tolist()
    assert sorted(zip(*rows, strict=True)) == sorted(
        (reader, partition, place)
        for reader, partition, place in reads
        for writer, p, here in writes
        if (p, here) == (partition, place) and writer != reader
        if any(w == writer and q == p and later > place for w, q, later in writes)
    )
