"""Clusters beside a real ZooKeeper ensemble: run, broken, judged, and removed."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.support.clusters.cluster_command import facts, highwater
from tests.support.require import require
from tests.support.targets.machine import leftovers
from tests.support.tiers import at_turn

PLAN = """\
name = "beside-zookeeper"
seed = 1
duration_s = 24
settle_timeout_s = 60
control_plane = "zookeeper"
[[topics]]
name = "one"
acks = 1
[[topics]]
name = "all"
acks = "all"
idempotence = true
[workload]
rate_per_s = 50
"""
RUN_TIMEOUT_S = 400
EVENTS = (
    ("kill", "controller", 3000),
    ("pause", "leader:one/0", 4000),  # longer than a session
    ("kill", "zookeeper:leader", 2000),
    ("partition.one-way", "zookeeper:1", 2000),
)


def run_of(tmp_path: Path, *arguments: str) -> tuple[Path, dict[str, Any]]:
    """Run the plan to its end; its directory and verdict."""
    events = "".join(
        f'[[nemesis.events]]\nat_ms = {500 + 5500 * n}\nfault = "{fault}"\n'
        f'targets = "{targets}"\nduration_ms = {duration_ms}\n'
        for n, (fault, targets, duration_ms) in enumerate(EVENTS)
    )
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN + events)
    done = highwater("run", plan, "--store", tmp_path, *arguments, patience_s=RUN_TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "control  zookeeper" in done.stdout
    [path] = (tmp_path / "beside-zookeeper").glob("2*")
    return path, json.loads((path / "verdict.json").read_text())


def check(path: Path, verdict: dict[str, Any]) -> None:
    """The contract was kept, the znodes' history was read, and nothing is left."""
    told = json.loads((path / "run.json").read_text())
    assert verdict["verdict"] == "VALID", verdict["reasons"]
    assert verdict["control_plane"] == "zookeeper"
    assert told["zookeeper_logs"] == [101, 102, 103]
    assert told["versions"]["zookeeper"]
    assert not [each for each in verdict["anomalies"] if each["judgement"] == "forbidden"]
    faults = pq.read_table(path / "faults.parquet").to_pylist()
    assert [row["fault"] for row in faults if not row["took_effect"]] == []
    assert [json.loads(row["targets"])["nodes"] for row in faults][2][0] > 100
    rows = pq.read_table(path / "cluster.parquet").to_pylist()
    decided = [row for row in rows if row["source"] == "metadata-log"]
    assert {"leader", "fenced", "unfenced"} <= {row["kind"] for row in decided}
    assert all(row["replicas"] for row in decided if row["kind"] == "leader")
    controllers = [row["leader"] for row in rows if row["source"] == "zookeeper"]
    assert len(controllers) >= 2, "the killed controller was replaced"
    lost = [each for each in verdict["anomalies"] if each["kind"] == "lost-write"]
    assert all("as leader at" in each["cause"] for each in lost)
    assert "ZooKeeper, 3 nodes" in (path / "report.html").read_text()
    assert leftovers(told["run_id"], path) == []


@pytest.mark.slow
@at_turn(
    0, 4, "system/test_zookeeper.py::test_kafka_beside_zookeeper_is_judged_by_the_same_history"
)
def test_built_in_broker_beside_zookeeper_keeps_its_contract(tmp_path: Path) -> None:
    """Sessions end, controllers and the ensemble's leader are replaced; acks=all loses nothing."""
    require("zookeeper", "netns", "nftables")
    check(*run_of(tmp_path))


@pytest.mark.slow
@at_turn(2, 4, "system/test_zookeeper.py::test_built_in_broker_beside_zookeeper_keeps_its_contract")
def test_kafka_beside_zookeeper_is_judged_by_the_same_history(tmp_path: Path) -> None:
    """Kafka 3.9, the last that can: its znodes have the same paths and values."""
    require("kafka-zookeeper", "netns", "nftables")
    path, verdict = run_of(tmp_path, "--system", "kafka")
    check(path, verdict)
    assert json.loads((path / "run.json").read_text())["versions"]["kafka"].startswith("3.9")


@pytest.mark.slow
@at_turn(
    1,
    2,
    "system/test_old_control_plane.py::test_cluster_survives_a_kill_and_a_lost_session_of_its_controller",
)
def test_detached_cluster_beside_zookeeper_is_administered_and_broken(tmp_path: Path) -> None:
    """Its ZooKeeper nodes can be hit by hand; the end leaves nothing."""
    require("zookeeper", "root", "netns")
    options = ("--control-plane", "zookeeper", "--zookeepers", "1", "--nodes", "2", "--detach")
    up = highwater("cluster", "up", *options, "--store", tmp_path)
    assert up.returncode == 0, up.stderr
    run = Path(facts(up.stdout)["run"])
    try:
        made = highwater("cluster", "topics", "create", "t", "--partitions", "2", "--run", run)
        assert made.returncode == 0, made.stderr
        hit = highwater(
            "fault", "inject", "pause", "--targets", "zookeeper:1", "--run", run, "--json"
        )
        assert hit.returncode == 0, hit.stdout + hit.stderr
        assert json.loads(hit.stdout)[0]["nodes"] == [101]
        refused = highwater(
            "fault", "inject", "disk.bit-flip", "--targets", "zookeeper:1", "--run", run
        )
        assert "cannot hit a ZooKeeper node" in refused.stderr
        healed = highwater("fault", "heal-all", "--run", run)
        assert healed.returncode == 0, healed.stderr
        added = highwater("cluster", "brokers", "add", "--run", run)
        assert added.returncode == 0, added.stderr
        assert "started broker 3" in added.stdout + added.stderr
    finally:
        down = highwater("cluster", "down", run)
    assert down.returncode == 0, down.stderr
    assert leftovers(json.loads((run / "run.json").read_text())["run_id"], run) == []


def test_missing_zookeeper_is_one_message_that_names_both_ways_to_get_it(tmp_path: Path) -> None:
    """Nothing is started, nothing is stored."""
    hidden = (
        "import sys, pathlib; from harness.brokers.zookeeper import home; "
        "home.candidates = lambda: {'nowhere': pathlib.Path('/nowhere')}; "
        "from harness.cli.main import main; main()"
    )
    store = tmp_path / "store"
    done = subprocess.run(
        [sys.executable, "-c", hidden, "run", "old-control-plane", "--store", str(store)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ},
    )
    assert done.returncode == 254
    assert "no ZooKeeper was found in nowhere" in done.stderr
    assert "make zookeeper" in done.stderr
    assert "apt-get install zookeeper" in done.stderr
    assert not store.exists()
