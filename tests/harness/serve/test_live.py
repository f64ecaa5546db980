"""Runs that are looked at while they are written, and archives that are made while sent."""

import fcntl
import io
import time
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.recording.history import HistoryWriter
from harness.recording.store import Run, seal, seal_ended
from harness.recording.tail import StreamTail
from harness.serve.archive import LEFT_OUT, zip_chunks
from harness.serve.catalogue import Catalogue
from harness.serve.live import SECONDS, SNAPSHOT_BYTES, LiveView, end_of
from harness.serve.store_files import FileAbsent, StoreFiles
from tests.support.reports.stores import add_run, journal, place_of

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


def stream(batches: int) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        for n in range(batches):
            writer.write_batch(pa.record_batch([[n, -n], ["x" * n, None]], schema=SCHEMA))
    return sink.getvalue()


WHOLE = stream(6)


def rows(batches: list[pa.RecordBatch]) -> list[int]:
    return [n for batch in batches for n in batch.column("n").to_pylist()]


@given(st.lists(st.integers(0, len(WHOLE)), max_size=12))
def test_growing_stream_is_read_once(cuts: list[int]) -> None:
    """However it is cut at each look, every row comes exactly once and in order."""
    tail, seen = StreamTail(), []
    for end in [*sorted(cuts), len(WHOLE)]:
        seen += rows(tail.read_new(io.BytesIO(WHOLE[:end]), end, SNAPSHOT_BYTES))
    assert seen == [m for n in range(6) for m in (n, -n)]


def test_snapshot_is_bounded_and_the_next_one_continues() -> None:
    """At least one message each, so that every look gets on."""
    tail, seen, looks = StreamTail(), [], 0
    while tail.position < len(WHOLE) - 8:
        seen += rows(tail.read_new(io.BytesIO(WHOLE), len(WHOLE), 1))
        looks += 1
    assert len(seen) == 12
    assert looks == 7


def test_replaced_stream_is_read_from_its_start() -> None:
    """It became shorter."""
    tail = StreamTail()
    tail.read_new(io.BytesIO(WHOLE), len(WHOLE), SNAPSHOT_BYTES)
    short = stream(1)
    assert rows(tail.read_new(io.BytesIO(short), len(short), SNAPSHOT_BYTES)) == [0, 0]


@pytest.mark.parametrize("content", [b"", b"no stream", b"\xff" * 100, b"\0" * 100])
def test_file_that_is_no_stream_gives_no_rows(content: bytes) -> None:
    """A short one may still become one."""
    assert StreamTail().read_new(io.BytesIO(content), len(content), SNAPSHOT_BYTES) == []


class Growing:
    """A run whose clients are at work."""

    def __init__(self, root: Path) -> None:
        self.run: Run = add_run(root, answer=None)
        self._journal = journal(self.run, {"kind": "run"}).open()
        fcntl.flock(self._journal, fcntl.LOCK_EX)
        self.writer = HistoryWriter(
            self.run.history_dir / "t.1.arrows",
            writer_id=1,
            base_ns=time.monotonic_ns(),
            rotate_s=1e-9,
        )
        self.place = place_of(root, self.run)

    def close(self) -> None:
        self.writer.close()
        self._journal.close()

    def sends(self, count: int, kind: str = "ok", error: str | None = None) -> None:
        for _ in range(count):
            self.writer.record(
                self.writer.next_op(), 1, "send", kind, 1, 2_500_000_000, topic="t", partition=0,
                acks=-1, error=error,
            )  # fmt: skip
        self.writer.flush()


def look(live: LiveView, store_files: StoreFiles, place: tuple[str, ...]) -> dict[str, Any]:
    catalogue = Catalogue(store_files)
    run = catalogue.run(place)
    assert run.started_ns is not None
    return live.snapshot(run, catalogue.files(place), run.started_ns / 1e9 + 4.0)


def test_snapshot_shows_what_a_run_has_written(store: Path, store_files: StoreFiles) -> None:
    """Counts by topic, errors, faults, leaders, the phase; each row once, sealed or not."""
    growing, live = Growing(store), LiveView(store_files)
    growing.sends(5)
    growing.sends(2, "info", "timed out")
    (growing.run.path / "harness.log").write_text(
        "1 INFO harness.run.runner: phase warm up\n"
        "2 INFO harness.run.runner: phase warm up took 1.0 s\n"
        "3 INFO harness.run.runner: phase chaos\n4 INFO harness.other: said something\n"
    )
    cluster = growing.run.cluster_stream()
    for leader in (1, 2):
        cluster.append_named(
            at_ns=leader, kind="leader", topic="t", partition=0, leader=leader, leader_epoch=leader,
            isr=[1, 2], source="polled",
        )  # fmt: skip
    cluster.flush()
    told = look(live, store_files, growing.place)
    (topic,) = told["topics"]
    assert (topic["name"], topic["acks"]) == ("t", "all")
    assert (topic["ok"], topic["fail"], topic["info"]) == (5, 0, 2)
    assert told["errors"] == [("timed out", 2)]
    assert told["phase"] == "chaos"
    assert told["elapsed_s"] == pytest.approx(4.0)
    assert [(p["name"], p["leader"], p["isr"]) for p in told["partitions"]] == [("t-0", 2, [1, 2])]
    assert not told["behind"]

    growing.sends(3)
    growing.close()
    cluster.close()
    seal(growing.run.path)
    (topic,) = look(live, store_files, growing.place)["topics"]
    assert (topic["ok"], topic["info"]) == (8, 2)
    (topic,) = look(LiveView(store_files), store_files, growing.place)["topics"]
    assert (topic["ok"], topic["info"]) == (8, 2)


def test_snapshot_has_the_latest_leaders_of_all_segments(
    store: Path, store_files: StoreFiles
) -> None:
    """The latest of all, sealed or not, whether somebody looked meanwhile or not."""
    growing, live = Growing(store), LiveView(store_files)
    cluster = growing.run.cluster_stream(rotate_s=1e-9)
    for leader in range(4):
        cluster.append_named(
            at_ns=leader, kind="leader", topic="t", partition=0, leader=leader, isr=[leader]
        )
        cluster.flush()
        if leader == 2:
            seal_ended(growing.run)
        for told in (
            look(live, store_files, growing.place),
            look(LiveView(store_files), store_files, growing.place),
        ):
            assert [(p["name"], p["leader"]) for p in told["partitions"]] == [("t-0", leader)]
    growing.close()
    cluster.close()
    seal(growing.run.path)
    for told in (
        look(live, store_files, growing.place),
        look(LiveView(store_files), store_files, growing.place),
    ):
        assert [(p["name"], p["leader"]) for p in told["partitions"]] == [("t-0", 3)]


def test_faults_come_from_segments_when_these_are_complete(
    store: Path, store_files: StoreFiles
) -> None:
    """Until then from the journal, which has those in force too."""
    run = add_run(store)
    (run.path / "faults.parquet").unlink()
    faults = run.faults_stream(rotate_s=1e-9)
    for number in range(3):
        faults.append_named(fault_id=number, fault="kill", label=f"{number}", took_effect=True)
        faults.flush()
    sentence = {"kind": "fault", "fault_id": 9, "fault": "pause", "label": "journal", "at_ns": 1}
    journal(run, {"kind": "run"}, sentence)
    seal_ended(run)

    def labels() -> list[str]:
        return [fault.label for fault in Catalogue(store_files).run(place_of(store, run)).faults]

    assert labels() == ["journal"]
    faults.close()
    seal(run.path)
    assert labels() == ["0", "1", "2"]


def test_early_seconds_of_a_long_run_are_dropped(store: Path, store_files: StoreFiles) -> None:
    """Only what is shown: counts stay whole."""
    growing, live = Growing(store), LiveView(store_files)
    for second in range(12_000):
        growing.writer.record(
            second, 1, "send", "ok", 0, second * 1_000_000_000, topic="t", partition=0, acks=1
        )
    growing.writer.flush()
    (topic,) = look(live, store_files, growing.place)["topics"]
    growing.close()
    assert topic["ok"] == 12_000
    assert topic["per_s"] == [1] * SECONDS
    (watched,) = live._watched.values()
    assert all(len(each.seconds) < 1_000 for each in watched.counted.values())


def test_the_end_of_a_log_begins_with_a_line(store: Path, store_files: StoreFiles) -> None:
    """And says whether that is all."""
    run = add_run(store)
    place = (*place_of(store, run), "harness.log")
    assert end_of(store_files, place, 100) == ("one\ntwo\nthree\n", True)
    assert end_of(store_files, place, 12) == ("two\nthree\n", False)


def test_archive_has_the_run_and_lists_what_it_leaves_out(
    store: Path, store_files: StoreFiles
) -> None:
    """Links and disks stay out; the bytes are those of the files."""
    run = add_run(store)
    (run.node_dir(1) / "data.img").write_bytes(b"a disk")
    (run.path / "way out").symlink_to("/etc/passwd")
    (run.path / "way up").symlink_to("../..")
    place = place_of(store, run)
    content = b"".join(zip_chunks(store_files, place))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        names = set(archive.namelist())
        prefix = "/".join(place)
        assert archive.read(f"{prefix}/harness.log") == b"one\ntwo\nthree\n"
        left_out = archive.read(f"{prefix}/{LEFT_OUT}").decode()
    assert f"{prefix}/verdict.json" in names
    assert all(name.startswith(prefix) and ".." not in name for name in names)
    assert f"{prefix}/way out: link" in left_out
    assert f"{prefix}/nodes/1/data.img: a disk" in left_out
    assert b"root:" not in content


def test_archive_of_a_growing_file_is_valid(store: Path, store_files: StoreFiles) -> None:
    """It has what there was when its turn came."""
    run = add_run(store)
    path = run.path / "growing.log"
    path.write_bytes(b"x" * 1_000_000)
    parts = zip_chunks(store_files, place_of(store, run))
    received = b""
    with path.open("ab") as file:
        for part in parts:
            received += part
            file.write(b"more")
            file.flush()
    with zipfile.ZipFile(io.BytesIO(received)) as archive:
        assert archive.testzip() is None


def test_archive_needs_little_memory(store: Path, store_files: StoreFiles) -> None:
    """A large file comes in parts, none of them large; one that is huge is written as such."""
    run = add_run(store)
    with (run.path / "large.parquet").open("wb") as file:
        file.truncate(50 << 20)
    assert max(map(len, zip_chunks(store_files, place_of(store, run)))) < 1 << 20


def test_missing_run_has_no_archive(store_files: StoreFiles) -> None:
    """Told before anything is sent."""
    with pytest.raises(FileAbsent):
        zip_chunks(store_files, ("no", "such"))
