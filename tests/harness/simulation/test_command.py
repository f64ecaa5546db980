"""`highwater simulate` as a user calls it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.clusters.cluster_command import called
from tests.support.tiers import at_turn

PLAN = """
name = "tiny"
seed = 0
target = "sim"
warmup_s = 0.5
duration_s = 3
topics = [{ name = "t", acks = "all", partitions = 1, idempotence = true }]
workload = { client = "own", producers = 1, rate_per_s = 5 }
nemesis = { faults = ["kill"], interval_ms = [200, 500], duration_ms = [500, 1000] }
"""
ROOT = Path(__file__).parents[3]


def simulate(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a directory that has the plan."""
    (cwd / "tiny.toml").write_text(PLAN)
    return subprocess.run(
        [sys.executable, "-m", "harness.cli.main", "simulate", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seeds", "3..1"], "write A..B with A no more than B"),
        (["absent.toml"], "plan absent.toml: cannot be read"),
        (["tiny.toml", "--broker-module", "json"], "broker_module json cannot be simulated"),
        (["tiny.toml", "--nodes", "2"], "replication_factor 3 is more than the 2 nodes"),
        (["--replay", "nowhere"], "nowhere: no such run directory"),
    ],
)
def test_impossible_arguments_end_with_254_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    """The message explains the problem."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(PLAN)
    done = called("simulate", *arguments)
    assert done.code == 254, done.err
    assert said in done.err


def test_run_refuses_a_plan_for_the_simulator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`highwater run` names the command to use."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(PLAN)
    done = called("run", "tiny.toml")
    assert done.code == 254
    assert "run it with `highwater simulate`" in done.err


@pytest.mark.slow
@at_turn(
    0, 2, "harness/simulation/test_campaign.py::test_results_are_equal_in_one_process_and_in_many"
)
def test_equal_seeds_have_equal_digests_and_a_kept_run_repeats(tmp_path: Path) -> None:
    """Two calls have equal digests; a kept run can be repeated from its directory."""
    one = simulate(tmp_path, "tiny.toml", "--seeds", "1..2", "--jobs", "1")
    other = simulate(tmp_path, "tiny.toml", "--seeds", "1..2", "--jobs", "2")
    assert (one.returncode, other.returncode) == (0, 0), one.stderr
    digests = [
        line
        for done in (one, other)
        for line in done.stdout.splitlines()
        if line.startswith("digest of all seeds")
    ]
    assert digests[0] == digests[1]
    assert "2 VALID" in one.stdout
    assert "fault kill" in one.stdout
    kept = simulate(tmp_path, "tiny.toml", "--seeds", "2..2", "--trace", "--json")
    result = json.loads(kept.stdout)
    again = simulate(tmp_path, "--replay", result["run"], "--json")
    assert json.loads(again.stdout)["digest"] == result["digest"]


@pytest.mark.slow
def test_broken_broker_ends_with_1_and_prints_a_replay_command(tmp_path: Path) -> None:
    """The output says what was wrong."""
    arguments = ["--faults", "partition.isolate-leader", "--rate", "30", "--store", str(tmp_path)]
    module = ["--broker-module", "harness.zoo.mutants.ack_before_replication"]
    (tmp_path / "tiny.toml").write_text(PLAN)
    done = subprocess.run(
        [
            sys.executable, "-m", "harness.cli.main", "simulate", str(tmp_path / "tiny.toml"),
            "--seeds", "1..20", "--jobs", "1", *arguments, *module,
        ],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert "INVALID: " in done.stdout
    assert "acknowledged-is-committed" in done.stdout
    [replay] = [line for line in done.stdout.splitlines() if line.startswith("  replay")][:1]
    assert " ".join(module) in replay
    assert "--trace" in replay
    assert "--jobs" not in replay
