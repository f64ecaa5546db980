"""Every change of a wall clock is recorded, and nothing else."""

from typing import Any

from checkers.history.history import CLUSTER
from harness.recording.clock_rows import RecordedClocks
from tests.support.nemesis.fakes import FakeMachines, Trace


def test_every_change_of_a_clock_is_recorded_with_the_sum_of_its_layers() -> None:
    """Setting the same offset, or removing a layer that does not exist, is no change."""
    told: list[dict[str, Any]] = []
    times = iter(range(100))
    clocks = RecordedClocks(
        FakeMachines(Trace(), (1, 2)).clocks,
        lambda **row: told.append(row),
        lambda: next(times),
    )
    clocks.skew(1, "a", 60_000)
    clocks.skew(1, "a", 60_000)
    clocks.skew(1, "b", -10_000)
    clocks.unskew(2, "a")
    clocks.unskew(1, "a")
    clocks.unskew(1, "b")
    assert [(row["node"], row["ahead_ms"]) for row in told] == [
        (1, 60_000), (1, 50_000), (1, -10_000), (1, 0),
    ]  # fmt: skip
    assert [row["at_ns"] for row in told] == [0, 1, 2, 3]
    assert all(row["kind"] == "clock" and set(row) <= set(CLUSTER.names) for row in told)
    assert clocks.requested_offset_ms(1) == 0
