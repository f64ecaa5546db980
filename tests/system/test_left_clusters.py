"""Clusters that a run leaves for a look: they live on, can be entered, and end when told."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from harness.recording import journal
from harness.targets.linux.network import firewall, network
from tests.support.clusters.cluster_command import PATIENCE_S, command, highwater
from tests.support.require import require
from tests.support.targets.machine import leftovers
from tests.support.tiers import at_turn

PLAN = """
name = "left"
seed = 5
warmup_s = 1
duration_s = 4
topics = [{ name = "t", acks = "all", partitions = 1 }]
workload = { producers = 1, rate_per_s = 50 }

[[nemesis.events]]
name = "cut"
at_ms = 300
fault = "partition.isolate-leader"
targets = "leader:t/0"
duration_ms = 3700
"""


def run_id_of(run: Path) -> str:
    """By the run's own journal."""
    return str(journal.read(run / "journal.jsonl")[0]["run_id"])


def cuts_in(run: Path) -> int:
    """How many packet rules the nodes' namespaces hold."""
    made = network.plan(run_id_of(run), [1, 2, 3])
    return sum(len(firewall.counted(made.namespace(node), made.name)) for node in made.nodes)


def only_run(store: Path) -> Path:
    """The run that was made in the store."""
    [made] = [path for path in (store / "left").iterdir() if not path.is_symlink()]
    return made


@pytest.mark.slow
@at_turn(
    0,
    2,
    "system/test_left_clusters.py::test_a_harness_killed_before_it_could_leave_its_cluster_leaves_leftovers",
)
def test_a_broken_cluster_stays_broken_until_it_is_ended(tmp_path: Path) -> None:
    """The cut is in the kernel after the run, the nodes live, `clean` leaves them, `down` ends."""
    require("root")
    (tmp_path / "left.toml").write_text(PLAN)
    store = tmp_path / "store"
    options = ("--no-teardown", "--no-heal", "--no-report", "--store", store)
    done = highwater("run", tmp_path / "left.toml", *options)
    assert done.returncode == 2, done.stderr
    run = only_run(store)
    try:
        assert "still broken by partition.isolate-leader node" in done.stderr
        assert f"remove   highwater cluster down {run}" in done.stderr
        enter = [line.split()[-1] for line in done.stderr.splitlines() if "nsenter" in line]
        assert len(enter) == 4
        inside = subprocess.run(
            ["nsenter", enter[0], "ip", "-br", "addr"], capture_output=True, text=True, check=True
        )
        assert "eth0" in inside.stdout
        assert cuts_in(run) == 4
        assert "still running and was left alone" in highwater("clean", "--store", store).stdout
        again = highwater("check", run, "--no-report", "--json")
        assert json.loads(again.stdout)["verdict"] == "UNKNOWN"
        assert leftovers(run_id_of(run), run)
    finally:
        ended = highwater("cluster", "down", run)
    assert ended.returncode == 0, ended.stderr
    assert leftovers(run_id_of(run), run) == []


@pytest.mark.slow
@at_turn(1, 2, "system/test_left_clusters.py::test_a_broken_cluster_stays_broken_until_it_is_ended")
def test_a_harness_killed_before_it_could_leave_its_cluster_leaves_leftovers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it is left, the cluster is the harness's: `clean` removes what the journal names."""
    require("root")
    monkeypatch.setenv(journal.REGISTRY, str(tmp_path / "registry"))
    (tmp_path / "left.toml").write_text(PLAN)
    store = tmp_path / "store"
    argv = command("run", tmp_path / "left.toml", "--no-teardown", "--no-heal", "--store", store)
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as harness:
        try:
            deadline_s = time.monotonic() + PATIENCE_S
            while not struck(store):
                assert time.monotonic() < deadline_s
                assert harness.poll() is None
                time.sleep(0.05)
        finally:
            harness.send_signal(signal.SIGKILL)
    run = only_run(store)
    assert leftovers(run_id_of(run), run)
    cleaned = highwater("clean", "--store", store)
    assert cleaned.returncode == 0, cleaned.stderr
    assert leftovers(run_id_of(run), run) == []


def struck(store: Path) -> bool:
    """Whether the fault has its proof in the journal."""
    paths = store.glob("left/2*/journal.jsonl")
    return any(r["kind"] == "fault-effective" for path in paths for r in journal.read(path))
