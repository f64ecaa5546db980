"""Points, their order in rounds, and the published figures."""

from collections import Counter

from harness.bench.points import (
    MESSAGES_PER_SEND,
    PRODUCERS,
    Client,
    Measure,
    Point,
    PointSelection,
    Sweep,
    points,
    reference,
    rounds,
)
from tests.support.bench_results import ALL


def test_producer_points_are_those_of_the_talk() -> None:
    """Both sweeps for each acks mode."""
    made = points(PointSelection(measures=(Measure.PRODUCER,), clients=()))
    assert len(made) == 3 * (len(MESSAGES_PER_SEND) + len(PRODUCERS))
    assert {point.x for point in made if point.sweep is Sweep.PRODUCERS} == {1, 5, 10, 20}
    assert {point.client for point in made} == {Client.RAW}


def test_latency_is_measured_by_both_clients() -> None:
    made = points(PointSelection(measures=(Measure.LATENCY,), clients=()))
    assert {point.client for point in made} == {Client.RAW, Client.LIBRDKAFKA}


def test_every_point_occurs_once() -> None:
    """Also when a measure is named twice."""
    made = points(ALL._replace(measures=(*Measure, Measure.LATENCY), acks=(1, 1)))
    assert max(Counter(made).values()) == 1


def test_point_is_read_back_from_json() -> None:
    for point in points(ALL):
        assert Point.from_json(point.to_json()) == point


def test_rounds_measure_each_point_on_all_systems_in_turn() -> None:
    """The first system changes from round to round."""
    some = points(PointSelection(measures=(Measure.CONSUMER,), clients=()))
    turns = rounds(some, ["a", "b"], 2, seed=1)
    pairs = [turns[i : i + 2] for i in range(0, len(turns), 2)]
    assert all(first.point == second.point for first, second in pairs)
    assert {(f.round, f.system, s.system) for f, s in pairs} == {(0, "a", "b"), (1, "b", "a")}


def test_order_of_rounds_depends_on_the_seed_alone() -> None:
    """Every round has every point."""
    some = points(ALL)
    assert rounds(some, ["a"], 3, seed=7) == rounds(some, ["a"], 3, seed=7)
    assert rounds(some, ["a"], 3, seed=7) != rounds(some, ["a"], 3, seed=8)
    everything = {(turn.round, turn.point) for turn in rounds(some, ["a"], 3, seed=7)}
    assert everything == {(number, point) for number in range(3) for point in some}


def test_reference_figures_are_those_of_the_talk() -> None:
    """0.29, 1.05 and 2.05 ms; the ends of the curves; none where the talk has no number."""
    made = points(ALL)
    latencies = {p.acks: reference(p) for p in made if p.measure is Measure.LATENCY}
    assert {acks: found and found.value for acks, found in latencies.items()} == {
        0: 0.29, 1: 1.05, -1: 2.05,
    }  # fmt: skip
    ends = [p for p in made if p.measure is Measure.PRODUCER and reference(p)]
    assert {point.x for point in ends} == {20, 1000}
    assert not any(reference(p) for p in made if p.measure is Measure.SHUTDOWN)
