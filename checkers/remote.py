"""Runs that lie where only Spark reads: object stores and distributed file systems.

An address has a scheme (`s3a://bucket/run`, `hdfs://…`, `abfss://…`, `file:///…`) and is handed to
Spark as it is; which schemes work is the business of its configuration. A run must be sealed before
it is taken there: streams that were still written are not read. Everything but the history's rows
is checked as in a directory. Spark Connect does not read the marks of streams that were cut: over
it, such a run is never VALID.
"""

from typing import Any

from checkers.history import CUT, SCHEMAS, HistoryError, RunSources, Source, parse_plan, validate
from checkers.run_file import NOTHING_SAID, parse_run_file
from checkers.sessions import Session

UNTOLD = "not known, since Spark Connect does not read how files were sealed"
"""Stands for the cut streams of a run where nobody can say whether there are any."""


def load_remote_run(session: Session, address: str) -> tuple[RunSources, dict[str, Any]]:
    """The sources and the plan of a run at an address. Raises HistoryError when it is no run."""
    folder = address.rstrip("/")
    plan = _text(session, f"{folder}/plan.json")
    if plan is None:
        raise HistoryError(f"{address}: is no run, or cannot be read: it has no plan.json")
    told = _text(session, f"{folder}/run.json")
    tables: dict[str, tuple[Source, ...]] = {}
    for name, schema in SCHEMAS.items():
        where = f"{folder}/history/*.parquet" if name == "history" else f"{folder}/{name}.parquet"
        found = _schema(session, where)
        if found is not None:
            validate(found, schema, where)
        tables[name] = () if found is None else (where,)
    sources = RunSources(
        history=tables["history"],
        cluster=tables["cluster"],
        faults=tables["faults"],
        replicas=tables["replicas"],
        replica_ends=tables["replica_ends"],
        missing=tuple(name for name, found in tables.items() if not found),
        cut=_cut(session, f"{folder}/history/*.parquet") if tables["history"] else (),
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
    """The Arrow schema of Parquet files; None where there are none."""
    from pyspark.errors import AnalysisException
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        return to_arrow_schema(session.read.parquet(address).schema, timezone="UTC")
    except AnalysisException as error:
        if _is_missing(error):
            return None
        raise HistoryError(f"{address}: cannot be read as Parquet: {error}") from error


def _cut(session: Session, address: str) -> tuple[str, ...]:
    """The streams that did not end in order, by the marks in their sealed files."""
    jvm = getattr(session, "_jvm", None)
    if jvm is None:
        return (UNTOLD,)
    parquet = jvm.org.apache.parquet.hadoop
    settings = session._jsparkSession.sessionState().newHadoopConf()
    files = jvm.org.apache.hadoop.fs.Path(address)
    cut = []
    for found in files.getFileSystem(settings).globStatus(files):
        source = parquet.util.HadoopInputFile.fromStatus(found, settings)
        reader = parquet.ParquetFileReader.open(source)
        try:
            told = reader.getFileMetaData().getKeyValueMetaData()
            if all(told.get(key.decode()) == value.decode() for key, value in CUT.items()):
                cut.append(found.getPath().getName().removesuffix(".parquet") + ".arrows")
        finally:
            reader.close()
    return tuple(cut)


def _is_missing(error: Any) -> bool:
    return bool(error.getCondition() == "PATH_NOT_FOUND")
