"""A stub for the `highwater` command: it does at once what the answer of its cell says.

    python -m tests.support.nightly_stub run PLAN --seed N --store DIR --json ...
    python -m tests.support.nightly_stub simulate PLAN --seeds N..N --trace --store DIR --json ...
    python -m tests.support.nightly_stub check RUN --json

The file in the environment variable STUB_ANSWERS has the answer of each cell: a verdict; `slow` and
a verdict, which takes a moment; `broken`, a broken invariant of a simulation; `hangs`; `cut` and a
verdict, a run that hangs and whose record `check` judges so; `lossy`, a VALID run with permitted
losses of acknowledged writes; `unmet`, a VALID run of whose expectations the first failed and the
second was met; anything else is a failure.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

KINDS = {"VALID": 0, "lossy": 0, "unmet": 1, "INVALID": 1, "UNKNOWN": 2}
SENTENCE = "one-leader: t-0 has two leaders"
SLOW_S = 2.0
EXPECTED = [
    {"expectation": "lost <= 5", "outcome": "failed", "said": "lost <= 5, measured 83"},
    {"expectation": "acked > 1", "outcome": "passed", "said": "acked > 1, measured 9"},
]


def main() -> int:
    """See the module."""
    arguments = sys.argv[1:]
    answers = json.loads(Path(os.environ["STUB_ANSWERS"]).read_text())
    if arguments[0] == "check":
        run = Path(arguments[1])  # <store>/<plan>/<number>
        cell = run.parents[1].name.rpartition("-")[0]
        return result_of_trial(run, answers[cell].removeprefix("cut "))
    store = Path(arguments[arguments.index("--store") + 1])
    answer = answers.get(store.name.rpartition("-")[0], "VALID")
    run = store / "plan" / f"{len(list(store.glob('plan/*'))):03d}"
    run.mkdir(parents=True)
    (run / "plan.json").write_text("{}")
    (store / "latest").unlink(missing_ok=True)
    (store / "latest").symlink_to(run.relative_to(store))
    if answer == "hangs" or answer.startswith("cut "):
        time.sleep(600)
    if answer.startswith("slow "):
        time.sleep(SLOW_S)
        answer = answer.removeprefix("slow ")
    if arguments[0] == "simulate":
        return simulated(run, answer)
    if answer not in KINDS:
        print("highwater: the disk of node 1 cannot be made\nnothing was started", file=sys.stderr)
        return 255
    (run / "report.html").write_text("<!doctype html>")
    return result_of_trial(run, answer)


def result_of_trial(run: Path, answer: str) -> int:
    """Print what `run` and `check` print."""
    print(json.dumps({"run": str(run), **verdict_of(answer)}))
    return KINDS[answer]


def simulated(run: Path, answer: str) -> int:
    """Print and write what `simulate` prints and writes."""
    printed: dict[str, Any] = {"seed": 1, "run": str(run), "acked": 7}
    if answer in KINDS:
        (run / "verdict.json").write_text(json.dumps(verdict_of(answer)))
        printed |= {"outcome": answer, "reasons": ["so it is"]}
    elif answer == "broken":
        anomaly = {"kind": "one-leader", "judgement": "forbidden", "count": 1, "examples": []}
        found = {"verdict": "INVALID", "reasons": [SENTENCE], "anomalies": [anomaly], "topics": []}
        (run / "verdict.json").write_text(json.dumps(found))
        printed |= {"outcome": "INVALID", "reasons": [SENTENCE]}
    else:
        printed |= {"outcome": "FAILED", "reasons": ["in phase 'chaos': no such thing"]}
    print(json.dumps(printed))
    return {**KINDS, "broken": 1}.get(answer, 255)


def verdict_of(answer: str) -> dict[str, Any]:
    """Return a verdict.json."""
    anomaly = {"kind": "lost-write", "judgement": "forbidden", "count": 12, "examples": []}
    gap: dict[str, Any] = {"kind": "unavailable", "judgement": "informational", "count": 1}
    gap["examples"] = [{"invoke_ns": 1_000_000_000, "complete_ns": 3_500_000_000}]
    permitted = {"kind": "lost-write", "judgement": "permitted", "count": 934, "acks": -1}
    permitted |= {"permitted_by": "unclean.leader.election.enable=true", "examples": []}
    more = {"INVALID": [anomaly], "lossy": [permitted]}.get(answer, [])
    return {
        "verdict": "VALID" if answer in ("lossy", "unmet") else answer,
        "expectations": EXPECTED if answer == "unmet" else [],
        "reasons": [f"it is {answer}: a | b"],
        "anomalies": [gap, *more],
        "topics": [{"acked": 1000, "p99_ms": 12.5}, {"acked": 500, "p99_ms": None}],
    }


if __name__ == "__main__":
    sys.exit(main())
