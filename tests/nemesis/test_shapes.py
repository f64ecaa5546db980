"""Partition shapes: who drops whom."""

import random
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemesis import shapes
from nemesis.shapes import Grudge

clusters = st.integers(2, 11).map(lambda count: list(range(1, count + 1)))
seeds = st.integers(0, 2**32).map(random.Random)


def heard(grudge: Grudge, nodes: list[int], node: int) -> frozenset[int]:
    """Whom a node hears, itself included."""
    return frozenset(nodes) - {src for src, dst in grudge if dst == node}


def all_shapes(nodes: list[int], rng: random.Random) -> list[Grudge]:
    """One grudge of every shape."""
    return [
        shapes.halves(nodes),
        shapes.random_halves(nodes, rng),
        shapes.isolate(nodes, [rng.choice(nodes)]),
        shapes.majorities_ring(nodes, rng),
        shapes.bridge(nodes, rng.choice(nodes)),
        shapes.one_way(nodes, [rng.choice(nodes)], deaf=True),
        shapes.one_way(nodes, [rng.choice(nodes)], deaf=False),
    ]


@pytest.mark.parametrize(
    ("grudge", "expected"),
    [
        (shapes.halves([1, 2, 3]), ((1, 2), (1, 3), (2, 1), (3, 1))),
        (shapes.isolate([1, 2, 3], [2]), ((1, 2), (2, 1), (2, 3), (3, 2))),
        (shapes.bridge([1, 2, 3], 2), ((1, 3), (3, 1))),
        (shapes.one_way([1, 2, 3], [2], deaf=True), ((1, 2), (3, 2))),
        (shapes.one_way([1, 2, 3], [2], deaf=False), ((2, 1), (2, 3))),
        (shapes.isolate([1, 2, 3], [1, 2, 3]), ()),
        (shapes.majorities_ring([1, 2], random.Random(1)), ()),
    ],
)
def test_shapes_of_three_nodes_have_the_expected_pairs(grudge: Grudge, expected: Grudge) -> None:
    """Each shape of three nodes cuts exactly the pairs one would draw on paper."""
    assert grudge == expected


@given(clusters, seeds)
def test_every_grudge_has_sorted_pairs_of_different_known_nodes(
    nodes: list[int], rng: random.Random
) -> None:
    """Every shape speaks of pairs of different nodes of the cluster, each once, sorted."""
    for grudge in all_shapes(nodes, rng):
        assert set(grudge) <= set(permutations(nodes, 2))
        assert list(grudge) == sorted(set(grudge))


@given(clusters, seeds)
def test_halves_partition_the_nodes(nodes: list[int], rng: random.Random) -> None:
    """Two sides, as equal as can be, each hearing all of itself and nothing of the other."""
    for grudge in (shapes.halves(nodes), shapes.random_halves(nodes, rng)):
        sides = {heard(grudge, nodes, node) for node in nodes}
        sizes = sorted(map(len, sides))
        assert sizes == [len(nodes) // 2, (len(nodes) + 1) // 2] or len(nodes) % 2 == 0
        assert frozenset.union(*sides) == frozenset(nodes)
        assert len(sides) == 2


@given(clusters.filter(lambda nodes: len(nodes) >= 3), seeds)
def test_majorities_ring_gives_every_node_a_different_majority(
    nodes: list[int], rng: random.Random
) -> None:
    """Each node hears a majority, not everybody, and no two hear the same; both ways from four."""
    grudge = shapes.majorities_ring(nodes, rng)
    majorities = [heard(grudge, nodes, node) for node in nodes]
    assert all(len(nodes) // 2 < len(majority) < len(nodes) for majority in majorities)
    assert len(set(majorities)) == len(nodes)
    if len(nodes) > 3:
        assert {(dst, src) for src, dst in grudge} == set(grudge)


@given(clusters.filter(lambda nodes: len(nodes) >= 3), seeds)
def test_a_bridge_connects_two_halves(nodes: list[int], rng: random.Random) -> None:
    """The bridge is cut from nobody; the rest falls into two sides that both hear the bridge."""
    middle = rng.choice(nodes)
    grudge = shapes.bridge(nodes, middle)
    assert heard(grudge, nodes, middle) == frozenset(nodes)
    sides = {heard(grudge, nodes, node) for node in nodes if node != middle}
    assert len(sides) == 2
    assert frozenset.intersection(*sides) == {middle}


@given(clusters, seeds, st.booleans())
def test_one_way_never_cuts_both_directions(
    nodes: list[int], rng: random.Random, deaf: bool
) -> None:
    """No pair is cut in both directions, and every cut pair touches the target on the said side."""
    target = rng.choice(nodes)
    grudge = shapes.one_way(nodes, [target], deaf=deaf)
    assert len(grudge) == len(nodes) - 1
    assert all((dst if deaf else src) == target for src, dst in grudge)
