"""Schemas are enforced with errors that name the column; cut streams give what is whole."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest

from checkers.history.history import (
    CLUSTER,
    FAULTS,
    HISTORY,
    HistoryError,
    load_plan,
    load_run,
    read_arrow_stream,
    read_sources,
    table,
    validate,
)
from tests.support.histories.story import healthy

ROW = {"op": 1, "client": 1, "f": "send", "type": "ok", "invoke_ns": 1}


def write_stream(path: Path, batches: int) -> bytes:
    """A stream of batches of ten rows, closed in order."""
    rows = table(HISTORY, [ROW | {"op": number} for number in range(batches * 10)])
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, HISTORY) as stream:
        for batch in rows.to_batches(max_chunksize=10):
            stream.write_batch(batch)
    return path.read_bytes()


def test_missing_column_is_named() -> None:
    """A frame without a column is refused, and the error says which."""
    with pytest.raises(HistoryError, match="x: column 'value' is missing"):
        validate(HISTORY.remove(HISTORY.get_field_index("value")), HISTORY, "x")


def test_wrong_type_is_named() -> None:
    """A column of another type is refused, and the error says what it is and should be."""
    index = HISTORY.get_field_index("offset")
    with pytest.raises(HistoryError, match="column 'offset' is string, expected int64"):
        validate(HISTORY.set(index, pa.field("offset", pa.string())), HISTORY, "x")


def test_further_columns_and_list_field_names_are_fine() -> None:
    """A later version may write more, and Parquet renames the inside of lists."""
    index = CLUSTER.get_field_index("isr")
    renamed = CLUSTER.set(index, pa.field("isr", pa.list_(pa.field("element", pa.int32()))))
    validate(renamed.append(pa.field("new", pa.int8())), CLUSTER, "x")


@pytest.mark.parametrize(
    ("row", "error"),
    [
        (ROW | {"ofset": 1}, "no such column: ofset"),
        ({"client": 1}, "column 'op' is required"),
        (ROW | {"offset": "seven"}, "do not fit"),
    ],
)
def test_rows_that_do_not_fit_are_refused(row: dict[str, object], error: str) -> None:
    """Typing errors in rows do not become nulls."""
    with pytest.raises(HistoryError, match=error):
        table(HISTORY, [row])


def test_stream_cut_at_many_bytes(tmp_path: Path) -> None:
    """Every prefix of a stream gives its whole batches; only the whole stream is complete."""
    path = tmp_path / "1.arrows"
    whole = write_stream(path, batches=3)
    seen = 0
    for size in range(0, len(whole), 3):
        path.write_bytes(whole[:size])
        rows, complete = read_arrow_stream(path)
        assert rows.schema.equals(HISTORY)
        assert rows.num_rows in (seen, seen + 10)
        assert rows["op"].to_pylist() == list(range(rows.num_rows))
        assert not complete
        seen = rows.num_rows
    path.write_bytes(whole)
    rows, complete = read_arrow_stream(path)
    assert (rows.num_rows, complete) == (30, True)


def test_stream_with_another_schema_is_refused(tmp_path: Path) -> None:
    """A readable stream of something else is a mistake and not a cut."""
    path = tmp_path / "1.arrows"
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_stream(sink, pa.schema([("op", pa.int64())])),
    ):
        pass
    with pytest.raises(HistoryError, match="column 'client' is missing"):
        read_arrow_stream(path)


def test_no_run_is_said_to_be_none(tmp_path: Path) -> None:
    """Neither a missing directory nor one without a plan is a run."""
    with pytest.raises(HistoryError, match="no such run directory"):
        load_run(tmp_path / "nothing")
    with pytest.raises(HistoryError, match="has no plan"):
        load_run(tmp_path)
    (tmp_path / "plan.json").write_text("[]")
    with pytest.raises(HistoryError, match="is no plan"):
        load_plan(tmp_path)


def test_unreadable_parquet_is_named(tmp_path: Path) -> None:
    """A file that is no Parquet is an error with its name."""
    (tmp_path / "plan.json").write_text("{}")
    (tmp_path / "faults.parquet").write_text("no parquet")
    with pytest.raises(HistoryError, match=r"faults\.parquet: is no readable Parquet"):
        load_run(tmp_path)


def test_a_run_of_earlier_days_lacks_later_columns(tmp_path: Path) -> None:
    """A column that came after the table reads as null; one that was always there is missed."""
    (tmp_path / "plan.json").write_text("{}")
    faults = healthy().tables()["faults"]
    old = faults.drop_columns(["healing", "inject_ms", "heal_ms"])
    pyarrow.parquet.write_table(old, tmp_path / "faults.parquet")
    read = read_sources(load_run(tmp_path).faults, FAULTS)
    assert read.schema == faults.schema
    assert read["healing"].null_count == read.num_rows == faults.num_rows
    pyarrow.parquet.write_table(old.drop_columns(["effect"]), tmp_path / "faults.parquet")
    with pytest.raises(HistoryError, match="column 'effect' is missing"):
        load_run(tmp_path)


def test_run_directory_of_all_kinds_of_files(tmp_path: Path) -> None:
    """Sealed and unsealed histories are both found; what is not there is listed."""
    (tmp_path / "history").mkdir()
    (tmp_path / "plan.json").write_text(json.dumps({"name": "x"}))
    whole = write_stream(tmp_path / "history" / "1.arrows", batches=2)
    (tmp_path / "history" / "2.arrows").write_bytes(whole[:-100])
    (tmp_path / "history" / "3.arrows").write_bytes(whole)
    for name in ("3", "4"):
        pyarrow.parquet.write_table(table(HISTORY, [ROW]), tmp_path / "history" / f"{name}.parquet")
    pyarrow.parquet.write_table(healthy().tables()["faults"], tmp_path / "faults.parquet")
    found = load_run(tmp_path)
    assert [s.num_rows if isinstance(s, pa.Table) else Path(s).name for s in found.history] == [
        20,
        10,
        "3.parquet",
        "4.parquet",
    ]
    assert found.cut == ("2.arrows",)
    assert found.missing == ("cluster", "replicas", "replica_ends")
    assert load_plan(tmp_path) == {"name": "x"}
