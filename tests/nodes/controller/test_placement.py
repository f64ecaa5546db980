"""Placement: even leaders, distinct replicas, load of the dead on all survivors."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.controller.placement import SHIFTED, STRIPED, Candidate, place, round_robin, striped
from nodes.ids import NodeId
from tests.support.nodes.controller_cluster import nodes

_SHAPES = st.tuples(st.integers(1, 8), st.integers(1, 40), st.integers(1, 8))


def _candidates(live: int, fenced: int = 0) -> list[Candidate]:
    return [
        Candidate(node_id=NodeId(number), fenced=number >= live) for number in range(live + fenced)
    ]


@given(_SHAPES, st.integers(0, 4), st.integers())
def test_striped_spreads_leaders_and_never_repeats_a_broker(
    shape: tuple[int, int, int], fenced: int, seed: int
) -> None:
    """Leaders of the live brokers differ by at most one; replicas are distinct; live ones first."""
    live, partitions, replicas = shape
    replicas = min(replicas, live + fenced)
    placed = striped(
        _candidates(live, fenced),
        partitions=partitions,
        replication_factor=replicas,
        rng=random.Random(seed),
    )
    assert len(placed) == partitions
    leaders = Counter(row[0] for row in placed)
    assert max(leaders.values()) - min(leaders.get(NodeId(n), 0) for n in range(live)) <= 1
    for row in placed:
        assert len(set(row)) == replicas
        assert all(node < live for node in row[: min(replicas, live)])


def test_striped_shifts_the_start_of_each_next_partition() -> None:
    """The characteristic stripes, from a random start."""
    placed = striped(_candidates(4), partitions=4, replication_factor=3, rng=random.Random(1))
    start = placed[0][0]
    assert placed == [
        tuple(NodeId((start + shift + replica) % 4) for replica in range(3)) for shift in range(4)
    ]


def test_striped_varies_the_followers_from_round_to_round() -> None:
    """Over many rounds, one leader's first followers are all the other brokers."""
    placed = striped(_candidates(5), partitions=200, replication_factor=2, rng=random.Random(1))
    followers = {row[1] for row in placed if row[0] == 0}
    assert followers == set(nodes(1, 2, 3, 4))


def test_striped_leads_with_fenced_brokers_only_if_all_are() -> None:
    """Placement works on a cluster of fenced brokers; whether to ask is the caller's business."""
    placed = striped(_candidates(0, 3), partitions=3, replication_factor=3, rng=random.Random(1))
    assert sorted(row[0] for row in placed) == list(nodes(0, 1, 2))


def test_the_original_formula_places_as_published() -> None:
    """15 partitions with 3 replicas on 5 brokers: the original replication design's example."""
    placed = round_robin(nodes(0, 1, 2, 3, 4), partitions=15, replication_factor=3)
    assert placed[0] == nodes(0, 1, 2)
    assert placed[4] == nodes(4, 0, 1)
    assert placed[5] == nodes(0, 2, 3)
    assert placed[10] == nodes(0, 3, 4)
    survivors = {row[1] for row in placed if row[0] == 0} | {
        row[2] for row in placed if row[0] == 0
    }
    assert survivors == set(nodes(1, 2, 3, 4))


@given(_SHAPES)
def test_the_original_formula_never_repeats_a_broker(shape: tuple[int, int, int]) -> None:
    """However far the shift goes, a partition's replicas are distinct and leaders even."""
    count, partitions, replicas = shape
    replicas = min(replicas, count)
    placed = round_robin(nodes(*range(count)), partitions=partitions, replication_factor=replicas)
    assert all(len(set(row)) == replicas for row in placed)
    assert [row[0] for row in placed] == [p % count for p in range(partitions)]


@pytest.mark.parametrize(("partitions", "replicas"), [(0, 1), (1, 0), (1, 4)])
def test_impossible_counts_are_value_errors(partitions: int, replicas: int) -> None:
    """Three brokers cannot hold four replicas, nor anything zero partitions."""
    with pytest.raises(ValueError):
        round_robin(nodes(0, 1, 2), partitions=partitions, replication_factor=replicas)
    with pytest.raises(ValueError):
        striped(
            _candidates(3),
            partitions=partitions,
            replication_factor=replicas,
            rng=random.Random(1),
        )


@given(
    racks=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    partitions=st.integers(1, 40),
    replicas=st.integers(1, 5),
    seed=st.integers(),
)
def test_striped_spreads_replicas_over_racks(
    racks: list[int], partitions: int, replicas: int, seed: int
) -> None:
    """A partition comes to a rack again only after it has been to all that have a broker left, and
    leaders stay even over the brokers, whatever the racks (KIP-36).
    """
    rack_of = {
        NodeId(10 * rack + n): f"rack{rack}" for rack, size in enumerate(racks) for n in range(size)
    }
    candidates = [Candidate(node_id=n, rack=rack) for n, rack in rack_of.items()]
    replicas = min(replicas, len(candidates))
    placed = striped(
        candidates, partitions=partitions, replication_factor=replicas, rng=random.Random(seed)
    )
    leaders = Counter(row[0] for row in placed)
    counts = [leaders.get(candidate.node_id, 0) for candidate in candidates]
    assert max(counts) - min(counts) <= 1
    for row in placed:
        assert len(set(row)) == replicas
        held = Counter(rack_of[node] for node in row)
        for rack, size in enumerate(racks):
            here = held.get(f"rack{rack}", 0)
            assert here >= min(size, max(held.values()) - 1)


def test_a_fenced_broker_of_another_rack_goes_before_a_second_in_the_same() -> None:
    """Racks come first: the fenced one will be back. It never leads."""
    candidates = [
        Candidate(node_id=NodeId(1), rack="a"),
        Candidate(node_id=NodeId(2), rack="a"),
        Candidate(node_id=NodeId(3), rack="b", fenced=True),
    ]
    placed = striped(candidates, partitions=4, replication_factor=2, rng=random.Random(1))
    assert all(row[0] != 3 and row[1] == 3 for row in placed)


@given(count=st.integers(3, 8), rounds=st.integers(1, 3), replicas=st.integers(2, 4))
def test_the_original_formula_spreads_a_dead_brokers_load(
    count: int, rounds: int, replicas: int
) -> None:
    """Each broker leads n - 1 partitions in a full turn of the shift; when one dies, each survivor
    takes over equally many of them.
    """
    replicas = min(replicas, count)
    placed = round_robin(
        nodes(*range(count)),
        partitions=rounds * count * (count - 1),
        replication_factor=replicas,
    )
    for dead in range(count):
        heirs = Counter(row[1] for row in placed if row[0] == dead)
        assert heirs == {NodeId(n): rounds for n in range(count) if n != dead}
    held = Counter(node for row in placed for node in row)
    assert len(set(held.values())) == 1


def test_placements_are_chosen_by_name_and_continue_an_existing_topic() -> None:
    """The formula counts a topic's partitions through; without enough live brokers it is KRaft's
    placement that finds room.
    """
    rng = random.Random(1)
    four = _candidates(4)
    whole = place(SHIFTED, four, partitions=9, replication_factor=3, rng=rng)
    rest = place(SHIFTED, four, partitions=4, replication_factor=3, rng=rng, first=5)
    assert rest == whole[5:]
    (row,) = place(SHIFTED, _candidates(2, 1), partitions=1, replication_factor=3, rng=rng)
    assert set(row) == {0, 1, 2}
    assert row[2] == 2
    for placement in (STRIPED, SHIFTED):
        with pytest.raises(ValueError, match="only 4 broker"):
            place(placement, four, partitions=1, replication_factor=5, rng=rng)
        with pytest.raises(ValueError, match="currently fenced"):
            place(placement, _candidates(0, 3), partitions=1, replication_factor=2, rng=rng)
