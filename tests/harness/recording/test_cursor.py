"""Reading a table on while it is written: every row once, whatever is sealed meanwhile."""

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
    """A run without anything."""
    return store.create(tmp_path, "long", versions={}, commit=None)


def rotated(stream: RowStream) -> None:
    """Begin the next segment."""
    stream._opened_ns = -(10**15)
    stream.flush()


def taken(cursor: Cursor) -> list[int]:
    """The times of the rows of one look."""
    return [at for rows in cursor.look() for at in rows["at_ns"].to_pylist()]


def segments(run: Run, count: int, rows: int = 1) -> RowStream:
    """So many segments have ended, with so many rows each; the stream goes on."""
    stream = run.cluster_stream(rotate_s=60)
    for number in range(count):
        for row in range(rows):
            stream.append_named(at_ns=number * rows + row, kind="clock")
        rotated(stream)
    return stream


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("rotate_s", [None, 60.0])
def test_every_row_once_and_in_order(run: Run, seed: int, rotate_s: float | None) -> None:
    """Rows, flushes, new segments, sealings and looks in any order; a late cursor too."""
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
                read += taken(cursor)
    stream.close()
    if rng.random() < 0.5:
        store.seal(run.path)
    read += taken(cursor)
    assert read == taken(Cursor(run.path, "cluster")) == list(range(written))
    assert taken(cursor) == []


def test_only_new_segments_are_read(run: Run) -> None:
    """What was read may be gone: nobody looks at it again."""
    stream, cursor = segments(run, 3), Cursor(run.path, "cluster")
    store.seal_ended(run)
    assert taken(cursor) == [0, 1, 2]
    for path in (run.path / "cluster").glob("*.parquet"):
        path.write_bytes(b"")
    stream.append_named(at_ns=7, kind="clock")
    stream.flush()
    assert taken(cursor) == [7]
    stream.close()


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_a_missing_segment_is_told(run: Run, number: int) -> None:
    """By its name, before anything is judged without it."""
    segments(run, 3).close()
    store.seal(run.path)
    (run.path / "cluster" / f"cluster-00000{number}.parquet").unlink()
    with pytest.raises(HistoryError, match=f"cluster-00000{number}.parquet: is missing"):
        taken(Cursor(run.path, "cluster"))


def test_a_damaged_segment_is_told(run: Run) -> None:
    """Sealed or not: rows that are lost in the middle are no end."""
    segments(run, 2, rows=50).close()
    first = run.path / "cluster" / "cluster-000000.arrows"
    first.write_bytes(first.read_bytes()[:-20])
    with pytest.raises(HistoryError, match=r"cluster-000000\.arrows: its end is lost"):
        taken(Cursor(run.path, "cluster"))
    store.seal(run.path)
    sealed = first.with_suffix(".parquet")
    sealed.write_bytes(sealed.read_bytes()[:-20])
    with pytest.raises(HistoryError, match=r"cluster-000000\.parquet: is no readable Parquet"):
        taken(Cursor(run.path, "cluster"))
