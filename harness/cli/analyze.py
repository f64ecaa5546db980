"""`highwater analyze`: judges many runs together, on this machine or on a Spark cluster."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.admin.errors import BadRequest
from harness.cli.base import Exit, spark_progress, warn
from harness.cli.options import AsJson, Debug, EngineName, Report

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from checkers.analysis import Analyzed
    from checkers.engines.engine import Engine


def analyze(
    runs: Annotated[
        list[str],
        typer.Argument(help="Run directories, or addresses that Spark can read (s3a://...)."),
    ],
    out: Annotated[
        str | None, typer.Option(help="Write the verdicts and Parquet tables into this folder.")
    ] = None,
    engine: Annotated[
        EngineName | None,
        typer.Option(
            help="The engine that judges the runs. Default: duckdb; spark with --master or "
            "--remote."
        ),
    ] = None,
    master: Annotated[
        str | None, typer.Option(help="Judge on this Spark master: spark://host:7077.")
    ] = None,
    remote: Annotated[
        str | None, typer.Option(help="Judge on this Spark Connect server: sc://host.")
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Watch one run while it goes on, until a forbidden anomaly or its end. The run "
            "needs --rotate.",
        ),
    ] = False,
    webhook: Annotated[
        str | None, typer.Option(help="With --follow: post the alarm to this URL as JSON.")
    ] = None,
    report: Report = True,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Judge many runs together, here or on a Spark cluster.

    With --out it writes verdicts, and Parquet tables of all anomalies and of every minute.
    """
    from checkers import analysis
    from harness.judging import judge

    if master is not None and remote is not None:
        raise BadRequest("--master and --remote are two ways to one cluster; give one of them")
    if (master or remote) and engine is EngineName.DUCKDB:
        raise BadRequest(
            "--engine duckdb runs on this machine only; leave out --master and --remote"
        )
    if webhook is not None and not follow:
        raise BadRequest("--webhook needs --follow: only --follow raises alarms")
    if follow:
        _follow(runs, out, webhook, as_json)
    spark = bool(master or remote) or engine is EngineName.SPARK
    analyzed = _analyze(runs, out, report, spark, master, remote)
    answer = analysis.combined(analyzed)
    print(json.dumps(answer) if as_json else text(answer))
    codes = {judge.exit_code(each.verdict.as_json()) for each in analyzed}
    raise Exit(next((code for code in (1, 2) if code in codes), 0))


def _follow(runs: "Sequence[str]", out: str | None, webhook: str | None, as_json: bool) -> None:
    """Return at the end of a run without a forbidden anomaly; raise an alarm and Exit before."""
    from checkers.engines.spark_sessions import is_address
    from harness.judging import follow, judge

    if len(runs) != 1 or is_address(runs[0]) or (out is not None and is_address(out)):
        raise BadRequest("--follow takes one run directory of this machine, and so does its --out")
    run_dir = Path(runs[0]).resolve()
    found = follow.follow(run_dir)
    if not found:
        return
    alarm = follow.raise_alarm(run_dir, found, Path(out or run_dir), webhook)
    counted = (f"  {each.count} {each.what}" for each in found)
    print(json.dumps(alarm) if as_json else "\n".join(["ALARM", *counted]))
    raise Exit(judge.EXIT_CODES["INVALID"])


def _analyze(
    runs: "Sequence[str]",
    out: str | None,
    report: bool,
    spark: bool,
    master: str | None,
    remote: str | None,
) -> "list[Analyzed]":
    from checkers import analysis, job
    from checkers.engines.spark_sessions import is_address
    from checkers.history.history import HistoryError
    from harness.judging import judge
    from harness.recording.store import StoreError

    if not spark and out is not None and is_address(out):
        raise BadRequest(f"--out {out}: only Spark writes to such an address; add --engine spark")
    local = {run: judge.complete_run(Path(run)) for run in runs if not is_address(run)}
    with _engines(runs, spark, master, remote) as (session, engine):
        try:
            analyzed = list(
                analysis.analyze_all(
                    runs,
                    lambda run: job.load(session, run),
                    engine,
                    lambda run: spark_progress(run, spark=spark),
                )
            )
        except HistoryError as error:
            raise StoreError(str(error)) from error
        if out is not None and is_address(out):
            analysis.write_remote(session, out, analyzed)
    if out is not None and not is_address(out):
        analysis.write(Path(out), analyzed)
    for each in analyzed:
        if each.run in local:
            local[each.run].write_json("verdict.json", each.verdict.as_json())
            if report:
                judge.write_report_or_warn(local[each.run].path, warn)
    return analyzed


@contextmanager
def _engines(
    runs: "Sequence[str]", spark: bool, master: str | None, remote: str | None
) -> "Iterator[tuple[Any, Callable[[], Engine]]]":
    """Yield Spark's session (None on DuckDB) and a factory of engines, one for each run."""
    from checkers.engines.engine import DuckDbEngine, SparkEngine
    from checkers.engines.spark_sessions import local_spark_session, spark_session

    if not spark:
        yield None, DuckDbEngine
        return
    with ExitStack() as ends:
        if master or remote:
            session = spark_session(master=master, remote=remote)
        else:
            session = local_spark_session(runs)
        ends.callback(session.stop)
        yield session, lambda: SparkEngine(session)


def text(answer: dict[str, Any]) -> str:
    """Return the answer for people: the verdict of all runs, then each run with its reasons."""
    lines = [answer["verdict"]]
    for run in answer["runs"]:
        lines.append(f"  {run['verdict']:<8} {run['run']}")
        lines.append(f"    {run['headline']['line']}")
        shown = run["reasons"] if run["verdict"] != "VALID" else ()
        lines += [f"    {reason}" for reason in shown]
        if run["permitted"]:
            counts = ", ".join(f"{count:,} {kind}" for kind, count in run["permitted"].items())
            lines.append(f"    permitted: {counts}")
    return "\n".join(lines)
