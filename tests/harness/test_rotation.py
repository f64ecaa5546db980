"""Long runs: histories in segments, sealed while the run goes on; lengths of time in units."""

import time
from pathlib import Path

import pytest

from checkers.history import load_run
from checkers.segments import followed_by_another
from harness.planning.plan import PlanError, seconds
from harness.record import store
from harness.record.history import HistoryWriter


def rotated(run: store.Run, name: str, segments: int) -> HistoryWriter:
    """A writer at its `segments`-th segment, with one client's start in each of those before."""
    base_ns = time.monotonic_ns()
    writer = HistoryWriter(
        run.history_dir / f"{name}.arrows", writer_id=7, base_ns=base_ns, rotate_s=60.0
    )
    for client in range(segments - 1):
        writer._opened_ns = -60_000_000_000  # as if it had been open for a minute
        writer.start(client)
    return writer


def test_ended_segments_are_sealed_and_the_last_goes_on(tmp_path: Path) -> None:
    """What is over is Parquet, what is written to stays a stream, and nothing is lost."""
    run = store.create(tmp_path, "long", versions={}, commit=None)
    run.write_json("plan.json", {})
    writer = rotated(run, "acks-all.1000", 4)
    other = rotated(run, "monitor", 1)
    sealed = store.seal_ended(run)
    assert [path.name for path in sealed] == [
        f"acks-all.1000-00000{number}.parquet" for number in range(3)
    ]
    assert store.seal_ended(run) == []
    writer.start(99)
    names = sorted(path.name for path in run.history_dir.iterdir())
    assert names[3:] == ["acks-all.1000-000003.arrows", "monitor-000000.arrows"]
    assert len(load_run(run.path).history) == 5
    writer.close()
    other.close()
    store.seal(run.path)
    assert load_run(run.path).cut == ()
    assert sorted(path.suffix for path in run.history_dir.iterdir()) == [".parquet"] * 5


def test_without_rotation_one_stream(tmp_path: Path) -> None:
    """A short run keeps one stream per writer, which nobody takes for a segment."""
    writer = HistoryWriter(tmp_path / "w.arrows", writer_id=1, base_ns=time.monotonic_ns())
    writer.start(1)
    assert writer.path.name == "w.arrows"
    assert followed_by_another(tmp_path.iterdir()) == []
    writer.close()


def test_operations_stay_unique_across_segments(tmp_path: Path) -> None:
    """The numbers go on where the last segment ended."""
    run = store.create(tmp_path, "long", versions={}, commit=None)
    writer = rotated(run, "w", 3)
    assert writer.next_op() == (7 << 40) + 2
    writer.close()


@pytest.mark.parametrize(
    ("text", "length_s"),
    [("90", 90), ("2.5", 2.5), ("250ms", 0.25), ("90s", 90), ("10m", 600), ("12h", 43_200),
     ("7d", 604_800)],
)  # fmt: skip
def test_lengths_of_time(text: str, length_s: float) -> None:
    """As people write them; without a unit they are seconds."""
    assert seconds(text) == pytest.approx(length_s)


@pytest.mark.parametrize("text", ["", "d", "-1", "1w", "1 2", "1e3"])
def test_no_lengths_of_time(text: str) -> None:
    """The message says how to write one."""
    with pytest.raises(PlanError, match="no length of time"):
        seconds(text)
