"""Apache Kafka as the system under test: refused where it is not, judged where it is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.harness.brokers.kafka.test_home import with_jar
from tests.support.require import require
from tests.support.targets.machine import leftovers
from tests.support.tiers import at_turn

RUN_TIMEOUT_S = 280


def highwater(
    *arguments: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end."""
    return subprocess.run(
        [sys.executable, "-m", "harness.cli.main", *arguments],
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
        env=env,
    )


def test_a_home_without_kafka_is_a_bad_argument(tmp_path: Path) -> None:
    """Nothing is started, nothing is stored."""
    store = tmp_path / "store"
    told = ("--system", "kafka", "--kafka-home", str(tmp_path), "--store", str(store))
    done = highwater("run", "quick", *told)
    assert done.returncode == 254
    assert f"there is no Kafka 4 at {tmp_path}" in done.stderr
    assert not store.exists()


def test_a_machine_without_java_cannot_run_it(tmp_path: Path) -> None:
    """That is the machine's fault and not the plan's."""
    home, store = tmp_path / "kafka", tmp_path / "store"
    with_jar(home, "4.2.0")
    told = ("--system", "kafka", "--kafka-home", str(home), "--store", str(store))
    done = highwater("run", "quick", *told, env={**os.environ, "JAVA_HOME": str(tmp_path)})
    assert done.returncode == 255
    assert "Kafka needs Java" in done.stderr
    assert not store.exists()


@pytest.mark.slow
@at_turn(0, 2, "harness/targets/docker/test_containers.py::test_kafka_in_containers_is_valid")
def test_kafka_is_run_broken_and_judged(tmp_path: Path) -> None:
    """A deposed leader loses what it acknowledged alone, for a cause that Kafka's own metadata log
    tells; replicas are compared by their files; nothing stays behind."""
    require("kafka", "netns")
    done = highwater(
        "run", "acks-1-leader-cut-off", "--system", "kafka", "--store", str(tmp_path), "--no-report"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [path] = (tmp_path / "acks-1-leader-cut-off").glob("2*")
    told = json.loads((path / "run.json").read_text())
    assert told["versions"]["kafka"].startswith("4.")
    verdict = json.loads((path / "verdict.json").read_text())
    lost = [each for each in verdict["anomalies"] if each["kind"] == "lost-write"]
    assert {each["judgement"] for each in lost} == {"permitted"}
    assert any("as leader at" in each["cause"] for each in lost)
    decided = pq.read_table(path / "cluster.parquet").to_pylist()
    assert {"leader", "fenced", "unfenced"} <= {
        row["kind"] for row in decided if row["source"] == "metadata-log"
    }
    replicas = pq.read_table(path / "replicas.parquet").to_pylist()
    assert {row["node"] for row in replicas if row["topic"] == "t"} == {1, 2, 3}
    assert leftovers(told["run_id"], path) == []
