"""Stands in for `highwater`: does at once what the cell's fault is called after, and says so.

    python -m tests.harness.nightly.stub run PLAN --seed N --store DIR --json --faults kill ...

A file `answers.json` two directories above the store says what each cell comes to, by a part of its
plan's name; `once` there is used up by the first trial that meets it.
"""

import json
import os
import sys
import time
from pathlib import Path

KINDS = {"VALID": 0, "INVALID": 1, "UNKNOWN": 2}


def main() -> int:
    """See the module."""
    arguments = sys.argv[1:]
    store = Path(arguments[arguments.index("--store") + 1])
    answers = json.loads(Path(os.environ["STUB_ANSWERS"]).read_text())
    cell = store.name.rpartition("-")[0]
    answer = answers.get(cell, "VALID")
    run = store / "plan" / "20260101T000000.000Z"
    run.mkdir(parents=True, exist_ok=True)
    (store / "latest").unlink(missing_ok=True)
    (store / "latest").symlink_to("plan/20260101T000000.000Z")
    if answer == "hangs":
        time.sleep(600)
    if answer not in KINDS:
        print("highwater: the disk of node 1 cannot be made\nnothing was started", file=sys.stderr)
        return 255
    (run / "report.html").write_text("<!doctype html>")
    anomaly = {"kind": "lost-write", "judgement": "forbidden", "count": 12, "examples": []}
    gap = {"kind": "unavailable", "judgement": "informational", "count": 1}
    gap["examples"] = [{"invoke_ns": 1_000_000_000, "complete_ns": 3_500_000_000}]
    verdict = {
        "verdict": answer,
        "reasons": [f"it is {answer}: a | b"],
        "anomalies": [gap, *([anomaly] if answer == "INVALID" else [])],
        "topics": [{"acked": 1000, "p99_ms": 12.5}, {"acked": 500, "p99_ms": None}],
    }
    print(json.dumps({"run": str(run), **verdict}))
    return KINDS[answer]


if __name__ == "__main__":
    sys.exit(main())
