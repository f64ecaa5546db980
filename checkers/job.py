"""Entry point for spark-submit: analyze stored runs on a cluster.

    spark-submit checkers/job.py RUN... [--out DIR]

A run is a directory that every executor can read under the same path, or an address that Spark
reads (`s3a://…`); so is DIR. DIR gets the files of `highwater analyze` (see checkers.analysis).
Without DIR, one verdict (JSON) per run is printed on a line. Exit codes are those of `highwater
check`: 0 valid, 1 a forbidden anomaly, 2 unknown, 254 when an argument is not a run.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from checkers.analysis import analyze_all, outcome, write, write_remote
from checkers.engines.engine import SparkEngine
from checkers.engines.remote import load_remote_run
from checkers.engines.spark_sessions import Session, is_address, spark_session
from checkers.history.history import HistoryError, RunSources, load_plan, load_run
from checkers.verdict import Outcome

EXIT_CODES = {Outcome.VALID: 0, Outcome.INVALID: 1, Outcome.UNKNOWN: 2}
EXIT_BAD_ARGUMENTS = 254


def main(argv: Sequence[str] | None = None) -> int:
    """Analyze every run, and return the exit code of the worst outcome."""
    parser = argparse.ArgumentParser(description="Analyze stored highwater runs on Spark.")
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("--out", metavar="DIR", help="where verdicts and tables are written")
    arguments = parser.parse_args(argv)
    session = spark_session()
    try:
        analyzed = list(
            analyze_all(
                arguments.runs, lambda run: load(session, run), lambda: SparkEngine(session)
            )
        )
        if arguments.out is None:
            for each in analyzed:
                print(json.dumps({"run": each.run, **each.verdict.as_json()}, sort_keys=True))
        elif is_address(arguments.out):
            write_remote(session, arguments.out, analyzed)
        else:
            write(Path(arguments.out), analyzed)
    except HistoryError as error:
        print(error, file=sys.stderr)
        return EXIT_BAD_ARGUMENTS
    finally:
        session.stop()
    return EXIT_CODES[outcome(analyzed)]


def load(session: Session | None, run: str) -> tuple[RunSources, dict[str, Any]]:
    """Return the sources and the plan of a run. An address needs a Spark session. Raises
    HistoryError."""
    if not is_address(run):
        return load_run(Path(run)), load_plan(Path(run))
    if session is None:
        raise HistoryError(f"{run}: only Spark reads such an address: --engine spark")
    return load_remote_run(session, run)


if __name__ == "__main__":
    sys.exit(main())
