"""Reading a table while it is written: every row once, whatever is sealed meanwhile."""

import random
from pathlib import Path

import pytest

from checkers.history.history import HistoryError
from harness.recording import store
from harness.recording.cursor import Cursor
from harness.recording.history import RowStream
from harness.recording.store import Run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run without rows."""
    return store.create(tmp_path, "long", versions={}, commit=None)


def rotated(stream: RowStream) -> None:
    """Begin the next segment."""
    stream._opened_ns = -(10**15)
    stream.flush()


def new_times(cursor: Cursor) -> list[int]:
    """The times of the rows of one read."""
    return [at for rows in cursor.read_new() for at in rows["at_ns"].to_pylist()]


def segments(run: Run, count: int, rows: int = 1) -> RowStream:
    """Write `count` complete segments with `rows` rows each; the stream goes on."""
    stream = run.cluster_stream(rotate_s=60)
    for number in range(count):
        for row in range(rows):
            stream.append_named(at_ns=number * rows + row, kind="clock")
        rotated(stream)
    return stream


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("rotate_s", [None, 60.0])
def test_every_row_is_read_once_and_in_order(run: Run, seed: int, rotate_s: float | None) -> None:
    """Rows, flushes, new segments, seals and reads come in any order; a late cursor, too."""
    rng = random.Random(seed)
    stream, cursor = run.cluster_stream(rotate_s), Cursor(run.path, "cluster")
    written, read = 0, []
    for _ in range(60):
        match rng.choice(("row", "row", "flush", "rotate", "seal", "look")):
            case "row":
                stream.append_named(at_ns=written, kind="clock")
                written += 1
            case "flush":
                stream.flush()
            case "rotate" if rotate_s is not None:
                rotated(stream)
            case "seal":
                store.seal_ended(run)
            case "look":
                read += new_times(cursor)
    stream.close()
    if rng.random() < 0.5:
        store.seal(run.path)
    read += new_times(cursor)
    assert read == new_times(Cursor(run.path, "cluster")) == list(range(written))
    assert new_times(cursor) == []


def test_only_new_segments_are_read(run: Run) -> None:
    """Segments that were read may be removed."""
    stream, cursor = segments(run, 3), Cursor(run.path, "cluster")
    store.seal_ended(run)
    assert new_times(cursor) == [0, 1, 2]
    for path in (run.path / "cluster").glob("*.parquet"):
        path.write_bytes(b"")
    stream.append_named(at_ns=7, kind="clock")
    stream.flush()
    assert new_times(cursor) == [7]
    stream.close()


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_missing_segment_is_an_error_that_names_it(run: Run, number: int) -> None:
    """Nothing is judged without it."""
    segments(run, 3).close()
    store.seal(run.path)
    (run.path / "cluster" / f"cluster-00000{number}.parquet").unlink()
    with pytest.raises(HistoryError, match=f"cluster-00000{number}.parquet: is missing"):
        new_times(Cursor(run.path, "cluster"))


def test_damaged_segment_is_an_error(run: Run) -> None:
    """This holds for sealed and unsealed segments: rows lost in the middle are not the end of a
    table."""
    segments(run, 2, rows=50).close()
    first = run.path / "cluster" / "cluster-000000.arrows"
    first.write_bytes(first.read_bytes()[:-20])
    with pytest.raises(HistoryError, match=r"cluster-000000\.arrows: its end is lost"):
        new_times(Cursor(run.path, "cluster"))
    store.seal(run.path)
    sealed = first.with_suffix(".parquet")
    sealed.write_bytes(sealed.read_bytes()[:-20])
    with pytest.raises(HistoryError, match=r"cluster-000000\.parquet: is no readable Parquet"):
        new_times(Cursor(run.path, "cluster"))
