"""The process of our own clients, against librdkafka's mock brokers: a cluster of another make."""

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from checkers.history import read_arrow_stream
from harness import store
from harness.plan import Plan, Topic, Workload
from harness.workloads.config import ClientConfig
from harness.workloads.launch import launch
from tests.harness.fake_target import FakeTarget
from tests.harness.kafka_mock import PARTITIONS, mock_cluster

DEADLINE_S = 30


def config(tmp_path: Path, bootstrap: str, **changes: Any) -> ClientConfig:
    values: dict[str, Any] = {
        "run_id": "run",
        "base_ns": time.monotonic_ns(),
        "history_dir": str(tmp_path),
        "first_client": 1000,
        "bootstrap": bootstrap,
        "topic": "own",
        "partitions": PARTITIONS,
        "acks": -1,
        "idempotence": False,
        "producers": 1,
        "consumers": 1,
        "rate_per_s": 200,
        "value_bytes": 128,
        "max_in_flight": 100,
        "linger_ms": 2,
        "message_timeout_ms": 10_000,
    }
    return ClientConfig(**values | changes)


def rows(folder: Path) -> list[dict[str, Any]]:
    (stream,) = folder.glob("*.arrows")
    table, complete = read_arrow_stream(stream)
    assert complete
    return list(table.to_pylist())


@pytest.mark.parametrize(("acks", "idempotence"), [(0, False), (1, False), (-1, True)])
def test_the_process_runs_and_ends_when_its_standard_input_closes(
    tmp_path: Path, acks: int, idempotence: bool
) -> None:
    """What was acknowledged is read back at its offset, and every client ends in order."""
    with mock_cluster("own") as bootstrap:
        config(tmp_path, bootstrap, acks=acks, idempotence=idempotence).save(tmp_path / "c.json")
        with subprocess.Popen(
            [sys.executable, "-m", "harness.workloads.own", str(tmp_path / "c.json")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if json.loads(line)["read"] >= 10:
                    break
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(DEADLINE_S) == 0
    found = rows(tmp_path)
    assert Counter(row["f"] for row in found)["end"] == 2
    sends = {row["value"]: row for row in found if row["f"] == "send"}
    assert {(row["type"], row["acks"]) for row in sends.values()} == {("ok", acks)}
    polls = [row for row in found if row["f"] == "poll"]
    assert len(polls) >= 10
    for row in polls:
        expected = None if acks == 0 else row["offset"]
        assert sends[row["value"]]["offset"] == expected
        assert sends[row["value"]]["partition"] == row["partition"]


def test_a_plan_may_ask_for_our_own_client(tmp_path: Path) -> None:
    """`workload.client` decides what the processes run; they report and end like the others."""
    plan = Plan(
        seed=1,
        topics=(Topic(name="own", acks=1, partitions=PARTITIONS),),
        workload=Workload(client="own", producers=1, consumers=1, rate_per_s=100),
    )
    run = store.create(tmp_path, "p", versions={}, commit=None)
    with mock_cluster("own") as bootstrap:
        clients = launch(plan, FakeTarget(tmp_path), bootstrap, run)
        deadline_s = time.monotonic() + DEADLINE_S
        while clients.stats()["own"].get("read", 0) < 10 and time.monotonic() < deadline_s:
            time.sleep(0.05)
        assert clients.stop() == []
    sends = [row for row in rows(run.history_dir) if row["f"] == "send"]
    assert {row["node"] for row in sends} <= {1, 2, 3}, "the broker that answered is named"
    assert len(sends) >= 10
