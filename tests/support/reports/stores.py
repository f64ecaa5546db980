"""Small stores for tests: runs with and without a verdict."""

import json
from pathlib import Path
from typing import Any

from harness.recording.store import Run, create

TOPIC = {
    "topic": "t", "acks": -1, "sent": 100, "acked": 90, "failed": 4, "indeterminate": 6, "lost": 0,
    "lost_forbidden": 0, "duplicated": 0, "reordered": 0, "p50_ms": 1.5, "p99_ms": 20.0,
}  # fmt: skip


def fault_row(**changed: Any) -> dict[str, Any]:
    """Return a row of the record of faults."""
    row = {
        "fault_id": 0, "fault": "kill", "label": "kill node 1", "targets": "{}", "planned_ms": 500,
        "started_ns": 1_000_000_000, "effective_ns": 1_100_000_000, "healed_ns": 3_000_000_000,
        "effect": "process 7 is gone", "healing": "it is back", "inject_ms": 1.0, "heal_ms": 1.0,
        "took_effect": True, "error": None,
    }  # fmt: skip
    return row | changed


def verdict_of(answer: str, **changed: Any) -> dict[str, Any]:
    """Return a verdict.json. INVALID has a forbidden anomaly, `lossy` a permitted one."""
    judgement = {"INVALID": "forbidden", "lossy": "permitted"}.get(answer)
    anomalies = [] if judgement is None else [
        {"kind": "lost-write", "judgement": judgement, "count": 12, "acks": -1, "examples": []}
    ]  # fmt: skip
    answer = "VALID" if answer == "lossy" else answer
    made = {"verdict": answer, "reasons": ["so it is"], "anomalies": anomalies, "topics": [TOPIC]}
    return made | changed


def add_run(
    root: Path,
    plan: str = "quick",
    answer: str | None = "VALID",
    *,
    seed: int = 7,
    faults: tuple[dict[str, Any], ...] = (),
    **changed: Any,
) -> Run:
    """Create a run below `root`, judged unless `answer` is None. `changed`: keys of its plan."""
    run = create(root, plan, versions={}, commit="c0ffee")
    raw = {"name": plan, "seed": seed, "duration_s": 30.0, "target": "local", "system": "nodes",
           "broker_module": "nodes", "nodes": 3}  # fmt: skip
    run.write_json("plan.json", raw | changed)
    run.write_table("faults", faults)
    if answer is not None:
        run.write_json("verdict.json", verdict_of(answer))
    (run.path / "harness.log").write_text("one\ntwo\nthree\n")
    return run


def journal(run: Run, *records: dict[str, Any]) -> Path:
    """Write the run's journal with these records."""
    path = run.path / "journal.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def place_of(root: Path, run: Run) -> tuple[str, ...]:
    """Return the place of the run in the store."""
    return run.path.relative_to(root.resolve()).parts
