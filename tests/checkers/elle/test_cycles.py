"""The search for cycles: the same kinds and lengths as a search of every way."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.elle import cycles
from checkers.elle.cycles import Cycle, Phenomenon, find_cycles, in_cycles
from checkers.elle.links import RW, WR, WW, Links
from tests.support.checkers import elle_slow

NAMES = {"ww": WW, "wr": WR, "rw": RW}


def graph(rows: Sequence[elle_slow.Link]) -> Links:
    """Edges; the records do not matter."""
    zeros = np.zeros(len(rows), np.int64)
    return Links(
        src=np.array([src for src, _, _ in rows], np.int64),
        dst=np.array([dst for _, dst, _ in rows], np.int64),
        kind=np.array([NAMES[kind] for _, _, kind in rows], np.int64),
        one=zeros,
        other=zeros,
    )


def search(rows: Sequence[elle_slow.Link]) -> tuple[Links, list[Cycle]]:
    """The edges in cycles, and the cycles that were found."""
    circular = in_cycles(graph(rows))
    return circular, [*find_cycles(circular)]


def assert_circle(found: Cycle, edges: Links) -> None:
    """Each edge begins where the one before it ends, and no node is passed twice."""
    circle = edges.at(np.array(found.edges))
    assert circle.src.tolist() == [circle.dst[-1], *circle.dst[:-1].tolist()]
    assert len(set(circle.src.tolist())) == len(circle)


EDGES = st.tuples(st.integers(0, 5), st.integers(0, 5), st.sampled_from([*NAMES]))


@given(st.sets(EDGES.filter(lambda edge: edge[0] != edge[1]), max_size=14))
def test_cycles_have_the_kinds_and_lengths_of_the_plain_reference(
    rows: set[elle_slow.Link],
) -> None:
    """One for each component, and none is longer than it must be."""
    circular, found = search(sorted(rows))
    for cycle in found:
        assert_circle(cycle, circular)
    counts = Counter((str(cycle.phenomenon), len(cycle.edges)) for cycle in found)
    assert counts == elle_slow.cycles(rows)


def test_long_chain_with_a_cycle_at_its_end() -> None:
    """A long way is no deep recursion, and a circle at its end is all that is left."""
    chain = [(number, number + 1, "ww") for number in range(50_000)]
    assert len(in_cycles(graph(chain))) == 0
    circular, (circle,) = search([*chain, (50_000, 49_998, "ww")])
    assert {*circular.src.tolist()} == {49_998, 49_999, 50_000}
    assert circle.phenomenon is Phenomenon.G0


def test_equal_edges_count_once_and_their_order_does_not_matter() -> None:
    """The engine returns rows in any order."""
    rows = [(0, 1, "ww"), (1, 0, "wr"), (1, 2, "wr"), (2, 0, "rw"), (0, 1, "ww")]
    circular, found = search(rows)
    again, same = search(rows[::-1])
    assert len(circular) == 4
    assert found == same
    assert circular.src.tolist() == again.src.tolist()


def test_a_large_component_is_tried_a_bounded_number_of_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The smallest cycle behind the bound is not looked for; one that is found is told."""
    ring = [(number, (number + 1) % 6, "ww") for number in range(6)]
    rows = [*ring, (5, 4, "ww")]
    assert [len(cycle.edges) for cycle in search(rows)[1]] == [2]
    monkeypatch.setattr(cycles, "MAX_TRIES", 1)
    assert [len(cycle.edges) for cycle in search(rows)[1]] == [6]


def test_shortest_way_that_passes_a_node_twice_is_no_cycle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By 1 and 5, a way of three reads meets a cycle of writes; the cycle of both kinds is
    longer, whichever of its edges is tried."""
    monkeypatch.setattr(cycles, "MAX_TRIES", 1)
    rows = [(0, 1, "wr"), (1, 5, "wr"), (5, 0, "wr"), (5, 6, "ww"), (6, 5, "ww")]
    rows += [(1, 2, "ww"), (2, 3, "wr"), (3, 4, "wr"), (4, 7, "wr"), (7, 0, "wr")]
    circular, found = search(rows)
    lengths = {cycle.phenomenon: len(cycle.edges) for cycle in found}
    assert lengths == {Phenomenon.G0: 2, Phenomenon.G1C_READS: 3, Phenomenon.G1C: 6}
    for cycle in found:
        assert_circle(cycle, circular)


def test_nothing_is_no_cycle() -> None:
    """A history without an edge."""
    circular, found = search([])
    assert (len(circular), found) == (0, [])
