"""Whole runs on real clusters: sound brokers pass, broken ones do not, killed harnesses leave none.

Each scenario is run once for all tests that look at it. Runs are processes of their own, as a user
starts them, with a store of their own.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.plans.plan import build, load
from harness.recording import journal
from harness.run.prepare import prepare
from tests.scenarios import NAMES, path_of, prepared
from tests.support.require import require
from tests.support.targets.machine import leftovers, marked
from tests.support.tiers import at_turn, nightly
from tests.tools.failovers import failovers

RUN_TIMEOUT_S = 280
"""Five times what a run takes on a quiet machine."""
SESSION_TIMEOUT_MS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A run that ended by itself."""

    exit_code: int
    verdict: dict[str, Any]
    path: Path

    def forbidden(self) -> set[str]:
        """The kinds of anomalies that made the run INVALID."""
        found = self.verdict["anomalies"]
        return {each["kind"] for each in found if each["judgement"] == "forbidden"}

    def topic(self, name: str) -> dict[str, Any]:
        """What became of one topic's sends."""
        [found] = [topic for topic in self.verdict["topics"] if topic["topic"] == name]
        return dict(found)

    def faults(self) -> list[dict[str, Any]]:
        """The rows of the record of faults, those that were left out excepted."""
        rows = pq.read_table(self.path / "faults.parquet").to_pylist()
        return [row for row in rows if row["started_ns"] is not None]


def highwater(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end."""
    return subprocess.run(
        [sys.executable, "-m", "harness.cli.main", *arguments],
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )


def run(scenario: str, broker_module: str, store: Path) -> Ended:
    """Run a scenario on a broker."""
    require("root", "netns")
    more = ("--broker-module", broker_module, "--store", str(store), "--json")
    done = highwater("run", str(path_of(scenario)), *more)
    assert done.stdout, done.stderr
    verdict = json.loads(done.stdout)
    return Ended(exit_code=done.returncode, verdict=verdict, path=Path(verdict["run"]))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where this module's runs are kept."""
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def sound(store: Path) -> Ended:
    """Three faults against the broker as it is."""
    return run("three-faults", "nodes", store)


@pytest.fixture(scope="module")
def hasty(store: Path) -> Ended:
    """The same against a broker that acknowledges before its followers have the record."""
    return run("three-faults", "harness.zoo.mutants.ack_before_replication", store)


@pytest.mark.slow
def test_a_sound_broker_is_valid(sound: Ended) -> None:
    """A cut, a kill and a pause, all proven: nothing that acks=all acknowledged is gone."""
    assert sound.verdict["verdict"] == "VALID", sound.verdict["reasons"]
    assert sound.exit_code == 0
    faults = sound.faults()
    assert [fault["fault"] for fault in faults] == ["partition.isolate-leader", "kill", "pause"]
    assert all(fault["took_effect"] and fault["healed_ns"] for fault in faults), faults
    for name in ("acks-0", "acks-1", "acks-all"):
        assert sound.topic(name)["acked"] > 1000
    assert sound.topic("acks-all")["lost"] == 0
    assert leftovers(json.loads((sound.path / "run.json").read_text())["run_id"], sound.path) == []


@pytest.mark.slow
@at_turn(0, 2, "harness/zoo/test_zoo.py::test_scenario_catches_the_mutant_with_real_processes")
def test_acknowledging_before_replication_is_caught(hasty: Ended) -> None:
    """The same faults cost a broker that acknowledges too early what it had promised."""
    assert hasty.verdict["verdict"] == "INVALID"
    assert hasty.exit_code == 1
    assert "lost-write" in hasty.forbidden()
    lost = hasty.topic("acks-all")["lost_forbidden"]
    assert lost > 0  # how many depends on how busy the machine is
    stored = json.loads((hasty.path / "verdict.json").read_text())
    named = [
        example
        for found in stored["anomalies"]
        for example in found["examples"]
        if (found["kind"], found["judgement"]) == ("lost-write", "forbidden")
    ]
    assert named
    report = (hasty.path / "report.html").read_text()
    assert "INVALID" in report
    assert "lost-write" in report


@pytest.mark.slow
@at_turn(0, 3, "system/test_whole_runs.py::test_a_sound_broker_is_valid")
def test_equal_plans_and_seeds_store_equal_schedules(sound: Ended, hasty: Ended) -> None:
    """Two runs of one plan have the same schedule, byte for byte."""
    first, second = ((ended.path / "schedule.json").read_bytes() for ended in (sound, hasty))
    assert first == second == prepared("three-faults").schedule.to_json()


@pytest.mark.slow
def test_partitions_of_a_killed_leader_accept_writes_again(sound: Ended) -> None:
    """Each has a new leader and an acknowledged send; how soon is bounded only loosely."""
    measured = failovers(sound.path)
    assert measured
    for failover in measured:
        print(failover)
        assert failover.elected_ms is not None
        assert failover.acked_ms is not None, failover
        assert failover.acked_ms < 3 * (SESSION_TIMEOUT_MS + 500), failover


@pytest.mark.slow
@at_turn(
    1,
    4,
    "system/test_old_control_plane.py"
    "::test_truncation_to_the_high_watermark_loses_writes_beside_zookeeper_too",
)
@pytest.mark.parametrize(
    ("broker_module", "verdict", "exit_code"),
    [
        ("harness.zoo.mutants.truncate_to_high_watermark", "INVALID", 1),
        pytest.param(
            *("nodes", "VALID", 0),
            marks=nightly("system/test_whole_runs.py::test_a_sound_broker_is_valid"),
        ),
    ],
)
def test_truncation_to_the_high_watermark_is_caught(
    store: Path, broker_module: str, verdict: str, exit_code: int
) -> None:
    """KIP-101's first scenario: harmless to truncation by epoch, a lost write to the other."""
    ended = run("zoo/truncation-to-high-watermark", broker_module, store)
    assert all(fault["took_effect"] for fault in ended.faults())
    assert ended.verdict["verdict"] == verdict, ended.verdict["reasons"]
    assert ended.exit_code == exit_code
    assert ("lost-write" in ended.forbidden()) == (verdict == "INVALID")


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A running harness with its own registry, so that no other test's harness cleans up after it.

    Undone at the end whatever the test did.
    """
    require("root", "netns")
    monkeypatch.setenv(journal.REGISTRY, str(tmp_path / "registry"))
    arguments = ["run", str(path_of("three-faults")), "--store", str(tmp_path)]
    with (tmp_path / "output").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "harness.cli.main", *arguments], stdout=output, stderr=output
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        highwater("clean", "--store", str(tmp_path))


@pytest.mark.slow
@at_turn(1, 3, "system/test_whole_runs.py::test_a_sound_broker_is_valid")
def test_a_killed_harness_leaves_nothing_but_its_record(
    harness: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """SIGKILL in the chaos: clients end, clean removes the rest, check judges what there is."""
    wait_for(lambda: bool(_effective(tmp_path)) or harness.poll() is not None, 120)
    assert harness.poll() is None, (tmp_path / "output").read_text()
    harness.kill()
    harness.wait()
    run_dir = (tmp_path / "latest").resolve()
    run_id = json.loads((run_dir / "run.json").read_text())["run_id"]
    clients = f"{run_dir}/clients/"
    wait_for(lambda: not marked(clients), 60)
    assert leftovers(run_id, run_dir) != []
    assert len(marked(f"{run_dir}/nodes/")) == 3

    cleaned = highwater("clean", "--store", str(tmp_path))
    assert cleaned.returncode == 0, cleaned.stderr
    assert f"run {run_id}: removed" in cleaned.stdout
    assert leftovers(run_id, run_dir) == []
    assert marked(str(run_dir)) == []

    checked = highwater("check", str(run_dir), "--json")
    assert checked.returncode == 2, checked.stderr
    assert "Traceback" not in checked.stderr
    verdict = json.loads(checked.stdout)
    assert verdict["verdict"] == "UNKNOWN"
    assert any("cut short" in reason for reason in verdict["reasons"]), verdict["reasons"]
    assert all(topic["acked"] for topic in verdict["topics"])
    [fault] = pq.read_table(run_dir / "faults.parquet").to_pylist()
    assert fault["took_effect"]
    assert fault["healed_ns"] is None


def _effective(store: Path) -> list[journal.Record]:
    """The faults of the latest run that are known to have taken effect."""
    path = store / "latest" / "journal.jsonl"
    return (
        [r for r in journal.read(path) if r["kind"] == "fault-effective"] if path.exists() else []
    )


def wait_for(condition: Callable[[], bool], timeout_s: float) -> None:
    """Poll until it holds; fail at the bound."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, "not in time"
        time.sleep(0.1)


def test_random_plans_give_one_schedule_per_seed() -> None:
    """The same seed gives the same bytes, another seed another schedule."""
    made = [
        prepare(build(load("random"), where="random", flags={"seed": seed})).schedule.to_json()
        for seed in (1, 1, 2)
    ]
    assert made[0] == made[1] != made[2]


@pytest.mark.parametrize("name", NAMES)
def test_scenarios_can_be_run(name: str) -> None:
    """Every scenario is a plan that this target can carry out, and bears its file's name."""
    scenario = prepared(name)
    assert scenario.plan.name == name
    assert scenario.notes == ()
