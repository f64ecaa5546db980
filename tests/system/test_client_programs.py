"""Client programs in whole runs: groups, copies and transactions under faults, judged."""

import json
import shlex
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.support.clients.workloads import SAMPLE
from tests.support.require import require
from tests.support.tiers import at_turn, in_turn

pytestmark = pytest.mark.slow

RUN_TIMEOUT_S = 400
PROGRAM = ("--client-command", shlex.join(SAMPLE))
JAVA = ("--client", "java")
ROWS = {
    "send", "poll", "assigned", "revoked", "lost", "offset-commit", "init-producer",
    "commit-transaction", "abort-transaction", "end",
}  # fmt: skip


def aiokafka_plan(path: Path) -> Path:
    """The plan `exactly-once` with what aiokafka can do."""
    text = (resources.files("harness.plans") / "packaged" / "exactly-once.toml").read_text()
    text = text.replace('protocol = "consumer"\n', "").replace('client = "own"\n', "")
    text = text.replace("[[workload]]", '[[workload]]\nclient = "aiokafka"')
    path.write_text(text.replace('output = "copies"', 'output = "copies"\ngroup_metadata = false'))
    return path


CASES: dict[str, tuple[tuple[str, ...], str, tuple[str, ...]]] = {
    "sample": (PROGRAM, "nodes", ()),
    "aiokafka": ((), "nodes", ()),
    "java": (JAVA, "nodes", ("java-client",)),
    "java-on-kafka": (JAVA, "kafka", ("java-client", "kafka")),
}
"""Options of the client, the system, and what both need."""


@pytest.mark.parametrize(
    "case",
    in_turn(
        "system/test_client_programs.py::test_all_workloads_run_in_a_program_and_are_valid",
        CASES,
        of=4,
    ),
)
def test_all_workloads_run_in_a_program_and_are_valid(case: str, tmp_path: Path) -> None:
    """The plan `exactly-once`, shortened: rows of all kinds, and nothing forbidden."""
    client, system, needs = CASES[case]
    require("root", "netns", *needs)
    plan = "exactly-once" if client else str(aiokafka_plan(tmp_path / "plan.toml"))
    short = ("--duration", "15s", "--system", system, "--store", str(tmp_path))
    verdict = run(plan, *client, *short)
    assert verdict["verdict"] != "INVALID", verdict["reasons"]
    if verdict["reasons"] and all(" end" in reason for reason in verdict["reasons"]):
        # A client did not end within its time on a busy machine, so its rows were cut: once more.
        verdict = run(plan, *client, *short)
    assert verdict["verdict"] == "VALID", verdict["reasons"]
    histories = (Path(verdict["run"]) / "history").glob("*.parquet")
    tables = [pq.read_table(path, columns=["f"]) for path in histories]
    assert {f for table in tables for f in table["f"].to_pylist()} >= ROWS


def compacted_plan(path: Path) -> Path:
    """The plan `compacted`, of which Java and the sample write a topic each."""
    text = (resources.files("harness.plans") / "packaged" / "compacted.toml").read_text()
    text = text.replace('client = "own"', 'client = "java"')
    program = f'client = "program"\nclient_command = {json.dumps(SAMPLE)}'
    path.write_text(text.replace('topics = ["profiles"]', f'topics = ["profiles"]\n{program}'))
    return path


@at_turn(1, 2, "system/test_client_programs.py::test_all_workloads_run_in_a_program_and_are_valid")
def test_keys_of_compacted_topics_are_written_by_programs_and_are_valid(tmp_path: Path) -> None:
    """Both programs write and delete keys while brokers break and clean their logs."""
    require("root", "netns", "java-client")
    plan = compacted_plan(tmp_path / "plan.toml")
    verdict = run(str(plan), "--duration", "15s", "--store", str(tmp_path))
    assert verdict["verdict"] == "VALID", verdict["reasons"]
    histories = (Path(verdict["run"]) / "history").glob("*.parquet")
    tables = [pq.read_table(path, columns=["f", "topic", "type"]) for path in histories]
    rows = [row for table in tables for row in table.to_pylist() if row["type"] == "ok"]
    for topic in ("accounts", "profiles"):
        found = {row["f"] for row in rows if row["topic"] == topic}
        assert found >= {"keyed-write", "keyed-delete", "keyed-read"}


def run(*arguments: str) -> dict[str, Any]:
    """The verdict of a run."""
    done = subprocess.run(
        [sys.executable, "-m", "harness.cli.main", "run", *arguments, "--json"],
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found
