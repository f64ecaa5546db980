"""Made-up benchmark results for tests."""

from collections.abc import Sequence

from harness.bench.points import Client, Measure, Point, PointSelection, points
from harness.bench.results import CLIENT_ALONE, Result, Sample

ALL = PointSelection(measures=tuple(Measure), clients=())


def values_of(point: Point, round_number: int, factor: float) -> dict[str, float]:
    """Return values that grow with the point, a little with the round, and by `factor`."""
    grown = factor * (1 + 0.1 * round_number)
    match point.measure:
        case Measure.LATENCY:
            p50 = grown * (0.1 if point.acks == 0 else 0.5)
            return {"p50_ms": p50, "p95_ms": p50 * 2, "p99_ms": p50 * 5}
        case Measure.PRODUCER | Measure.CONSUMER | Measure.COPIES | Measure.COMPACTION:
            return {"mb_per_s": grown * (10 + point.x**0.5), "messages_per_s": grown * 10_000}
        case Measure.COMMITS | Measure.TRANSACTIONS:
            return {f"{point.measure}_per_s": grown * 900, "p50_ms": grown * 2}
        case Measure.GROUPS:
            return {"joined_ms": grown * 3 * point.x}
        case _:
            return {
                "gap_ms": grown * 30,
                "takeover_ms": grown * 5,
                "stopped_ms": 400.0,
                "created_ms": 9.0,
            }


def result(
    systems: Sequence[str] = ("ours",),
    *,
    rounds: int = 3,
    selection: PointSelection = ALL,
    factor: float = 1,
) -> Result:
    """Return all points on all systems; the n-th system's values are n times the first's."""
    samples = [
        Sample(
            point=point,
            system=name,
            round=number,
            values=values_of(point, number, factor * (1 + systems.index(name))),
        )
        for point in points(selection)
        for number in range(rounds)
        for name in systems
    ]
    samples += [
        Sample(point=point, system=CLIENT_ALONE, round=0, values={"mb_per_s": 5_000.0})
        for point in points(selection)
        if point.measure is Measure.PRODUCER and point.client is Client.RAW
    ]
    return Result(
        started="2026-01-02T03:04:05+00:00",
        seconds=61.0,
        options={"rounds": rounds, "duration_s": 2.0, "size": 1024},
        systems=[{"name": name, "bootstrap": None} for name in systems],
        machine={
            "cpu": "a processor",
            "cores": 2,
            "memory": "8 GB",
            "load_before": [0.5, 0.5, 0.5],
            "load_after": [1.5, 1.0, 0.5],
            "commit": "0123456789abcdef",
            "versions": {"python": "3.11", "kernel": "6.1"},
        },
        samples=samples,
    )
