"""Entry point for spark-submit: judge stored runs on a cluster.

    spark-submit checkers/job.py RUN_DIR... [--output DIR]

Prints one verdict (JSON) per run and line, or writes DIR/<n>.json. Exits like `highwater check`:
0 valid, 1 a forbidden anomaly, 2 unknown, 254 when an argument is no run. The run directories must
be readable under the same path on every executor.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from checkers.check import check
from checkers.engine import SparkEngine
from checkers.history import HistoryError
from checkers.verdict import Outcome, merge

EXIT_CODES = {Outcome.VALID: 0, Outcome.INVALID: 1, Outcome.UNKNOWN: 2}
EXIT_BAD_ARGUMENTS = 254


def main(argv: Sequence[str] | None = None) -> int:
    """Judge every run directory; the worst outcome is the exit code."""
    parser = argparse.ArgumentParser(description="Judge stored highwater runs on Spark.")
    parser.add_argument("run_dirs", nargs="+", type=Path, metavar="RUN_DIR")
    parser.add_argument("--output", type=Path, metavar="DIR", help="write DIR/<n>.json instead")
    arguments = parser.parse_args(argv)
    from pyspark.sql import SparkSession

    session = SparkSession.builder.appName("highwater check").getOrCreate()
    outcomes = []
    try:
        for number, run_dir in enumerate(arguments.run_dirs):
            engine = SparkEngine(session)
            try:
                verdict = check(run_dir, engine=engine)
            except HistoryError as error:
                print(error, file=sys.stderr)
                return EXIT_BAD_ARGUMENTS
            finally:
                engine.close()
            outcomes.append(verdict.outcome)
            text = json.dumps({"run": str(run_dir), **verdict.as_json()}, sort_keys=True)
            if arguments.output is None:
                print(text)
            else:
                arguments.output.mkdir(parents=True, exist_ok=True)
                (arguments.output / f"{number}.json").write_text(text + "\n")
    finally:
        session.stop()
    return EXIT_CODES[merge(outcomes)]


if __name__ == "__main__":
    sys.exit(main())
