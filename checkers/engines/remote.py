"""Runs that only Spark can read: in object stores and distributed file systems.

An address has a scheme (`s3a://bucket/run`, `hdfs://…`, `abfss://…`, `file:///…`) and is passed to
Spark unchanged; Spark's configuration decides which schemes work. A run must be sealed before it is
copied there, because unsealed streams are not read. Everything except the history's rows is checked
as in a directory. Spark Connect cannot read the marks of streams that were cut, so a run over it is
never VALID if it may have any.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from checkers.engines.spark_sessions import Session
from checkers.history.history import (
    CUT,
    FOLLOWED,
    SCHEMAS,
    HistoryError,
    RunSources,
    Source,
    parse_plan,
    validate,
)
from checkers.history.run_file import NOTHING_SAID, parse_run_file
from checkers.history.segments import SEALED, STREAM, lacking, segment_missing, segment_torn

UNTOLD = "not known, since Spark Connect does not read how files were sealed"
"""Takes the place of the cut streams of a run where they cannot be known."""


def load_remote_run(session: Session, address: str) -> tuple[RunSources, dict[str, Any]]:
    """Return the sources and the plan of a run at an address. Raises HistoryError when it is not a
    run."""
    folder = address.rstrip("/")
    plan = _text(session, f"{folder}/plan.json")
    if plan is None:
        raise HistoryError(f"{address}: is no run, or cannot be read: it has no plan.json")
    told = _text(session, f"{folder}/run.json")
    tables: dict[str, tuple[Source, ...]] = {}
    for name, schema in SCHEMAS.items():
        there: list[Source] = []
        for where in (f"{folder}/{name}/*{SEALED}", f"{folder}/{name}{SEALED}"):
            found = _schema(session, where)
            if found is not None:
                validate(found, schema, where)
                there.append(where)
        tables[name] = tuple(there)
    marks = {
        name: _marks(session, where)
        for name, found in tables.items()
        if (where := f"{folder}/{name}/*{SEALED}") in found
    }
    for name, files in marks.items():
        _refuse_gaps(f"{folder}/{name}", name, files)
    sources = RunSources(
        history=tables["history"],
        cluster=tables["cluster"],
        faults=tables["faults"],
        replicas=tables["replicas"],
        replica_ends=tables["replica_ends"],
        missing=tuple(name for name, found in tables.items() if not found),
        cut=_cut(marks),
        run_file=NOTHING_SAID if told is None else parse_run_file(told),
    )
    return sources, parse_plan(plan, f"{folder}/plan.json")


def _text(session: Session, address: str) -> str | None:
    from pyspark.errors import AnalysisException

    try:
        rows = session.read.text(address, wholetext=True).collect()
    except AnalysisException as error:
        if _is_missing(error):
            return None
        raise HistoryError(f"{address}: cannot be read: {error}") from error
    return str(rows[0]["value"]) if rows else None


def _schema(session: Session, address: str) -> Any:
    """Return the Arrow schema of Parquet files; None without any."""
    from pyspark.errors import AnalysisException
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        return to_arrow_schema(session.read.parquet(address).schema, timezone="UTC")
    except AnalysisException as error:
        if _is_missing(error):
            return None
        raise HistoryError(f"{address}: cannot be read as Parquet: {error}") from error


class _Marks(NamedTuple):
    """The marks of a sealed file."""

    cut: bool
    followed: bool


def _marks(session: Session, address: str) -> dict[str, _Marks] | None:
    """Return marks of sealed files by their names without suffix; None if they cannot be read."""
    jvm = getattr(session, "_jvm", None)
    if jvm is None:
        return None
    parquet = jvm.org.apache.parquet.hadoop
    settings = session._jsparkSession.sessionState().newHadoopConf()
    files = jvm.org.apache.hadoop.fs.Path(address)
    found = {}
    for status in files.getFileSystem(settings).globStatus(files):
        source = parquet.util.HadoopInputFile.fromStatus(status, settings)
        reader = parquet.ParquetFileReader.open(source)
        try:
            told = reader.getFileMetaData().getKeyValueMetaData()
            stem = status.getPath().getName().removesuffix(SEALED)
            found[stem] = _Marks(*(_has(told, mark) for mark in (CUT, FOLLOWED)))
        finally:
            reader.close()
    return found


def _has(told: Any, mark: Mapping[bytes, bytes]) -> bool:
    return all(told.get(key.decode()) == value.decode() for key, value in mark.items())


def _refuse_gaps(folder: str, name: str, files: Mapping[str, _Marks] | None) -> None:
    """Refuse missing segments, as `checkers.history.history` does. Raises HistoryError."""
    known = files or {}
    gone = lacking(known, {stem for stem, marks in known.items() if marks.followed})
    if gone:
        raise HistoryError(segment_missing(f"{folder}/{gone[0]}{SEALED}"))
    torn = [stem for stem, marks in known.items() if name != "history" and marks == (True, True)]
    if torn:
        raise HistoryError(segment_torn(f"{folder}/{torn[0]}{SEALED}"))


def _cut(marks: Mapping[str, Mapping[str, _Marks] | None]) -> tuple[str, ...]:
    """Return the streams of the history that did not end in order, if the marks can be read."""
    if any(files is None for files in marks.values()):
        return (UNTOLD,)
    histories = marks.get("history") or {}
    return tuple(stem + STREAM for stem, each in histories.items() if each.cut)


def _is_missing(error: Any) -> bool:
    return bool(error.getCondition() == "PATH_NOT_FOUND")
