"""Gaps: what clients see when a leader or the active controller goes."""

from collections.abc import Callable, Iterator, Sequence

from harness.bench.options import Options, SystemName
from harness.bench.points import Point, Turn
from harness.bench.results import Sample
from harness.store import Run


def samples(
    system: SystemName,
    points: Sequence[Point],
    options: Options,
    run: Run,
    told: Callable[[Turn], None],
    stop: Callable[[], bool],
) -> Iterator[Sample]:
    """Nothing yet."""
    yield from ()
