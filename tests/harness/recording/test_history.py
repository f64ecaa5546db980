"""A history stream: flushed rows can be read, whatever happens to the writer."""

import threading
import time
from pathlib import Path

import pytest

from checkers.history.history import HISTORY, read_arrow_stream
from harness.recording.history import HistoryWriter, RowStream


def writer(path: Path, writer_id: int = 3) -> HistoryWriter:
    return HistoryWriter(path, writer_id=writer_id, base_ns=time.monotonic_ns())


def send(out: HistoryWriter, sequence: int) -> None:
    out.record(out.next_op(), 7, "send", "ok", 1, 2, "t", 0, 7 << 32 | sequence, sequence, acks=-1)


def test_rows_come_back_in_order_with_their_types(tmp_path: Path) -> None:
    """Start, operations and end come back as recorded; unknown offsets are null."""
    out = writer(tmp_path / "w.arrows")
    out.start(7)
    send(out, 1)
    out.record(out.next_op(), 7, "send", "info", 5, None, "t", 1, 9, -1, -1, 0, error="_X")
    out.end(7)
    out.close()
    rows, complete = read_arrow_stream(tmp_path / "w.arrows")
    assert complete
    assert rows.schema == HISTORY
    assert rows["f"].to_pylist() == ["start", "send", "send", "end"]
    assert rows["op"].to_pylist() == [(3 << 40) + each for each in range(4)]
    assert rows["offset"].to_pylist() == [None, 1, None, None]
    assert rows["leader_epoch"].to_pylist() == [None] * 4
    assert rows["complete_ns"].to_pylist()[2] is None
    assert rows["error"].to_pylist() == [None, None, "_X", None]


def test_start_row_is_flushed_at_once(tmp_path: Path) -> None:
    """A client is known even when its process dies at its first operation."""
    out = writer(tmp_path / "w.arrows")
    out.start(7)
    rows, complete = read_arrow_stream(tmp_path / "w.arrows")
    assert rows["client"].to_pylist() == [7]
    assert not complete
    out.close()


def test_unclosed_stream_loses_only_rows_that_were_not_flushed(tmp_path: Path) -> None:
    """All rows up to the last flush can be read."""
    out = writer(tmp_path / "w.arrows")
    send(out, 1)
    assert out.flush() == 1
    send(out, 2)
    rows, complete = read_arrow_stream(tmp_path / "w.arrows")
    assert rows["offset"].to_pylist() == [1]
    assert not complete
    out.close()


def test_threads_append_while_another_flushes(tmp_path: Path) -> None:
    """No row is lost, doubled or mixed with another when threads record at once."""
    out = writer(tmp_path / "w.arrows")
    each, threads = 2_000, 3

    def work(client: int) -> None:
        for sequence in range(each):
            out.record(out.next_op(), client, "send", "ok", sequence, sequence, offset=client)

    running = [threading.Thread(target=work, args=(client,)) for client in range(threads)]
    for thread in running:
        thread.start()
    while any(thread.is_alive() for thread in running):
        out.flush()
    out.close()
    rows, _ = read_arrow_stream(tmp_path / "w.arrows")
    assert rows["client"].to_pylist() == rows["offset"].to_pylist()
    assert len(set(rows["op"].to_pylist())) == rows.num_rows == each * threads


def test_closing_twice_is_harmless(tmp_path: Path) -> None:
    """The second close does nothing."""
    out = writer(tmp_path / "w.arrows")
    out.close()
    out.close()


def test_named_columns_are_checked(tmp_path: Path) -> None:
    """A misspelt column is an error, not a null."""
    out = RowStream(tmp_path / "w.arrows", HISTORY)
    with pytest.raises(ValueError, match="no such column: ofset"):
        out.append_named(ofset=1)
    out.close()
