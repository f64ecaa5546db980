"""Run directories: created, opened or refused, and sealed wherever their streams end."""

import json
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.history.history import CLUSTER, HISTORY, load_run
from harness.recording import store
from harness.recording.history import HistoryWriter, RowStream


def new_run(root: Path) -> store.Run:
    return store.create(root, "smoke", versions={"highwater": "0"}, commit=None)


def test_created_run_can_be_opened_and_is_the_latest(tmp_path: Path) -> None:
    """store/latest is a link to it."""
    run = new_run(tmp_path)
    assert store.open_run(run.path) == run
    assert store.open_run(tmp_path / "latest").path == run.path
    assert run.path.parent.name == "smoke"
    assert json.loads((run.path / "run.json").read_text())["finished"] == []


def test_finished_phases_are_noted_in_order(tmp_path: Path) -> None:
    """run.json shows how far a run came."""
    run = new_run(tmp_path)
    run.finish_phase("deploy")
    run.finish_phase("chaos")
    assert json.loads((run.path / "run.json").read_text())["finished"] == ["deploy", "chaos"]


@pytest.mark.parametrize("content", [None, "{", "[]", "{}", '{"run_id": "x"}'])
def test_directory_that_is_no_run_is_refused(tmp_path: Path, content: str | None) -> None:
    """A missing, broken or wrong run file gives a StoreError that names the place."""
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    with pytest.raises(store.StoreError, match=str(tmp_path)):
        store.open_run(tmp_path)
    with pytest.raises(store.StoreError, match="no such run"):
        store.open_run(tmp_path / "nowhere")


def test_runs_of_one_millisecond_get_directories_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes that simulate into one store do not lose a run by a name clash."""
    moments = iter([5_000_000, 5_999_999, 5_999_999, 6_000_000])
    monkeypatch.setattr(time, "time_ns", lambda: next(moments))
    first, second = new_run(tmp_path), new_run(tmp_path)
    assert first.path != second.path
    assert second.started_wall_ns == 6_000_000


def test_clock_that_stands_still_gives_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search for a free name is bounded."""
    monkeypatch.setattr(time, "time_ns", lambda: 5_000_000)
    new_run(tmp_path)
    with pytest.raises(store.StoreError, match="clock stand still"):
        new_run(tmp_path)


def test_store_that_cannot_be_written_gives_an_error(tmp_path: Path) -> None:
    """Here a file stands in its place."""
    (tmp_path / "store").write_text("")
    with pytest.raises(store.StoreError, match="cannot make"):
        new_run(tmp_path / "store")


def test_sealing_keeps_every_complete_batch_of_a_truncated_stream(tmp_path: Path) -> None:
    """It never fails, wherever the stream ends."""
    run = new_run(tmp_path)
    stream = run.history_dir / "w.arrows"
    writer = HistoryWriter(stream, writer_id=1, base_ns=run.base_ns)
    for client in range(3):
        writer.start(client)
    writer.close()
    whole = stream.read_bytes()
    seen = set()
    for cut in [*range(0, len(whole), 37), len(whole)]:
        stream.write_bytes(whole[:cut])
        store.seal(run.path)
        rows = pq.read_table(run.history_dir / "w.parquet")
        assert rows.schema == HISTORY
        assert rows["client"].to_pylist() == list(range(rows.num_rows))
        seen.add(rows.num_rows)
    assert seen == {0, 1, 2, 3}


def test_stream_of_an_earlier_version_is_sealed_with_null_for_later_columns(tmp_path: Path) -> None:
    """Its harness did not know these columns."""
    run = new_run(tmp_path)
    known = pa.schema([field for field in CLUSTER if not field.metadata])
    row = dict.fromkeys(known.names) | {"at_ns": 1, "kind": "leader", "source": "polled"}
    with pa.ipc.new_stream(run.path / "cluster.arrows", known) as stream:
        stream.write_table(pa.Table.from_pylist([row], schema=known))
    store.seal(run.path)
    (read,) = pq.read_table(run.path / "cluster.parquet").to_pylist()
    assert read == dict.fromkeys(CLUSTER.names) | row


def test_sealing_is_idempotent_and_readable_by_the_checkers(tmp_path: Path) -> None:
    """Sealing twice changes nothing, and the checkers find every table."""
    run = new_run(tmp_path)
    run.write_json("plan.json", {})
    writer = HistoryWriter(run.history_dir / "w.arrows", writer_id=1, base_ns=run.base_ns)
    writer.start(1)
    writer.close()
    cluster = run.cluster_stream()
    cluster.append_named(at_ns=1, kind="leader", topic="t", partition=0, isr=[1, 2])
    cluster.close()
    run.faults_stream().close()
    run.write_table("replicas", [])
    run.write_table("replica_ends", [])
    assert {path.name for path in store.seal(run.path)} == {
        "w.parquet",
        "cluster.parquet",
        "faults.parquet",
    }
    assert store.seal(run.path) == []
    sources = load_run(run.path)
    assert sources.missing == ()
    assert pq.read_table(run.path / "cluster.parquet")["isr"].to_pylist() == [[1, 2]]


def test_a_crash_between_sealing_and_removing_a_stream_is_harmless(tmp_path: Path) -> None:
    """A stream beside its Parquet file is sealed again to the same rows."""
    run = new_run(tmp_path)
    stream = run.history_dir / "w.arrows"
    writer = HistoryWriter(stream, writer_id=1, base_ns=run.base_ns)
    writer.start(1)
    writer.close()
    shutil.copy(stream, tmp_path / "kept")
    store.seal(run.path)
    shutil.copy(tmp_path / "kept", stream)
    store.seal(run.path)
    assert pq.read_table(run.history_dir / "w.parquet").num_rows == 1


def test_stream_with_other_columns_is_refused(tmp_path: Path) -> None:
    """The error names the stream, which is kept."""
    run = new_run(tmp_path)
    stream = run.history_dir / "w.arrows"
    RowStream(stream, pa.schema([("op", pa.string())])).close()
    with pytest.raises(store.StoreError, match=r"w\.arrows"):
        store.seal(run.path)
    assert stream.exists()
