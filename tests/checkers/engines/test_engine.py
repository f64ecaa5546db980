"""The embedded engine leaves nothing behind and reads what it is given once, or again and again."""

import os
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import checkers.engines.engine
from checkers.engines.engine import DuckDbEngine, EngineError, SparkEngine, as_frame
from checkers.history.history import CLUSTER

ROWS = pa.table({"n": pa.array([1, 2, 3], pa.int64()), "t": ["it's", None, "c"]})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    made = tmp_path / "temporary"
    made.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    return made


def test_nothing_is_on_disk_while_all_is_in_memory(folder: Path) -> None:
    """A process that is killed then leaves nothing."""
    engine = DuckDbEngine()
    assert engine.rows(engine.materialize(engine.load([ROWS], ROWS.schema))) == ROWS.to_pylist()
    assert list(folder.iterdir()) == []
    engine.close()


def test_spill_files_are_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than fits is on disk until the engine is closed."""
    monkeypatch.setattr(checkers.engines.engine, "MEMORY_LIMIT", "12MB")
    engine = DuckDbEngine(threads=1)
    F = engine.functions
    many = pa.table({"n": range(1 << 20)})
    frame = engine.load([many], many.schema)
    for shift in range(3):
        frame = engine.materialize(
            frame.select(((F.col("n") * 48_271 + shift) % (1 << 40)).alias("n"))
        )
    assert [path.name.startswith("highwater-duckdb-") for path in folder.iterdir()] == [True]
    engine.close()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("given", [None, 3])
def test_only_many_rows_get_several_threads(given: int | None) -> None:
    """They would wait for each other in every query of a short history."""
    engine = DuckDbEngine(threads=given)

    def threads() -> int:
        query = "SELECT current_setting('threads')::INT"
        return int(engine._connection.execute(query).fetchall()[0][0])

    def disabled() -> str:
        query = "SELECT current_setting('disabled_optimizers')"
        return str(engine._connection.execute(query).fetchall()[0][0])

    engine.load([ROWS], ROWS.schema)
    assert threads() == 1
    assert "join_order" in disabled()
    many = pa.table({"n": range(checkers.engines.engine.ROWS_FOR_ONE_THREAD + 1)})
    engine.load([many], many.schema)
    assert threads() == (given or os.cpu_count())
    assert disabled() == ""
    engine.close()


def test_frames_of_a_large_file_are_on_disk_and_removed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a database's file, from the first large file on; closing removes it."""
    monkeypatch.setattr(checkers.engines.engine, "LOADED_BYTES", 0)
    monkeypatch.setattr(checkers.engines.engine, "SPILLING_BYTES", 0)
    path = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(ROWS, path)
    engine = DuckDbEngine()
    before = engine.materialize(engine.load([ROWS], ROWS.schema))
    for _ in range(2):
        kept = engine.materialize(engine.load([path], ROWS.schema))
        assert engine.rows(before.unionByName(kept)) == 2 * ROWS.to_pylist()
    (made,) = folder.iterdir()
    assert (made / "kept.duckdb").is_file()
    engine.close()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("loaded_bytes", [0, 1 << 20], ids=["read again", "read once"])
def test_files_and_tables_are_one_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loaded_bytes: int
) -> None:
    """Whether the files are small or large, and whatever they are called."""
    monkeypatch.setattr(checkers.engines.engine, "LOADED_BYTES", loaded_bytes)
    path = tmp_path / "it's.parquet"
    pyarrow.parquet.write_table(ROWS, path)
    engine = DuckDbEngine()
    frame = engine.load([path, ROWS], ROWS.schema)
    expected = [{"n": 1, "rows": 2}, {"n": 2, "rows": 2}, {"n": 3, "rows": 2}]
    rows = engine.functions.count(engine.functions.lit(1)).alias("rows")
    assert engine.rows(frame.groupBy("n").agg(rows).orderBy("n")) == expected
    assert not engine.is_empty(frame)
    engine.close()


@pytest.mark.parametrize(
    "topics", [0, 1, checkers.engines.engine.CASES, checkers.engines.engine.CASES + 1]
)
def test_texts_kept_as_numbers_are_texts_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topics: int
) -> None:
    """However many there are, and where there is none."""
    monkeypatch.setattr(checkers.engines.engine, "LOADED_BYTES", 0)
    names = [None, *(f"it's {number}" for number in range(topics))]
    rows = pa.table({"topic": pa.array([*names, *names], pa.string())})
    path = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(rows, path)
    engine = DuckDbEngine()
    F = engine.functions
    frame = engine.materialize(engine.load([path], rows.schema))
    counted = frame.groupBy("topic").agg(F.count(F.lit(1)).alias("rows")).orderBy("topic")
    assert engine.rows(counted) == [{"topic": name, "rows": 2} for name in names]
    first = engine.rows(frame.where(F.col("topic") == F.lit("it's 0")))
    assert first == [{"topic": "it's 0"}] * (2 if topics else 0)
    engine.close()


def test_long_query_prints_no_progress_bar() -> None:
    """DuckDB would draw a bar on standard output, where a verdict may be that programs read."""
    engine = DuckDbEngine()
    told = engine._connection.execute("SELECT current_setting('enable_progress_bar')").fetchone()
    assert told == (False,)
    engine.close()


def test_no_sources_are_no_rows() -> None:
    """With the columns of the schema all the same."""
    engine = DuckDbEngine()
    frame: Any = engine.load([], ROWS.schema)
    assert frame.columns == ["n", "t"]
    assert engine.is_empty(frame)
    assert engine.rows(frame) == []
    engine.close()


def test_an_address_is_for_spark() -> None:
    """The embedded engine reads files only."""
    engine = DuckDbEngine()
    with pytest.raises(EngineError, match="only Spark reads such an address"):
        engine.load(["s3a://bucket/history"], ROWS.schema)
    engine.close()


def test_rows_of_our_own() -> None:
    """Every kind of column, whatever a row leaves out, to the last digit."""
    rows = [
        {"at_ns": (1 << 63) - 1, "kind": "it's \"\n\u2028", "isr": [1, 2], "ahead_ms": 0.1},
        {"at_ns": -1, "kind": "", "isr": [], "node": None},
    ]
    engine = DuckDbEngine()
    nothing = dict.fromkeys(CLUSTER.names)
    assert engine.rows(as_frame(engine, rows, CLUSTER)) == [nothing | row for row in rows]
    assert engine.rows(as_frame(engine, [], CLUSTER)) == []
    with pytest.raises(pa.ArrowInvalid, match="unexpected field"):
        as_frame(engine, [{"kinds": "leader"}], CLUSTER)
    engine.close()


@pytest.mark.parametrize("loaded", [0, 1 << 20])
def test_a_column_that_files_lack_is_null(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loaded: int
) -> None:
    """Runs of earlier versions lack later columns; files with and without them are read as one."""
    monkeypatch.setattr(checkers.engines.engine, "LOADED_BYTES", loaded)
    paths = [tmp_path / "new.parquet", tmp_path / "old.parquet"]
    pyarrow.parquet.write_table(ROWS, paths[0])
    pyarrow.parquet.write_table(ROWS.drop_columns(["t"]), paths[1])
    lacking = [{"n": n, "t": None} for n in (1, 2, 3)]
    engine = DuckDbEngine()

    def read(*sources: Path | pa.Table) -> list[dict[str, Any]]:
        rows = engine.rows(engine.load(sources, ROWS.schema))
        return sorted(rows, key=lambda row: (row["n"], row["t"] or ""))

    assert read(paths[1]) == lacking
    both = sorted(ROWS.to_pylist() + lacking, key=lambda row: (row["n"], row["t"] or ""))
    assert read(*paths) == read(ROWS, paths[1]) == both
    engine.close()


@pytest.mark.slow
def test_spark_reads_null_for_a_column_that_a_file_lacks(tmp_path: Path, spark: Any) -> None:
    """As the embedded engine does."""
    path = tmp_path / "old.parquet"
    pyarrow.parquet.write_table(ROWS.drop_columns(["t"]), path)
    engine = SparkEngine(spark)
    found = engine.rows(engine.load([path], ROWS.schema))
    assert sorted(row["n"] for row in found) == [1, 2, 3]
    assert {row["t"] for row in found} == {None}
