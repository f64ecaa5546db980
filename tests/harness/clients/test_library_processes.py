"""The processes of the further client libraries, against a broker in the test's own process.

(librdkafka's mock answers kafka-python in a form that this cannot read.)
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from checkers.history import read_arrow_stream
from harness.plan import ClientName
from harness.workloads.config import ClientConfig
from harness.workloads.launch import MODULES
from tests.harness.loopback_cluster import serving
from tests.nodes.server.cluster import Cluster

DEADLINE_S = 60
PARTITIONS = 4
NOWHERE = "127.0.0.1:1"
LIBRARIES: list[ClientName] = ["kafka-python", "aiokafka"]


def config(tmp_path: Path, bootstrap: str, **changes: Any) -> ClientConfig:
    values: dict[str, Any] = {
        "run_id": "run",
        "base_ns": time.monotonic_ns(),
        "history_dir": str(tmp_path),
        "first_client": 1000,
        "bootstrap": bootstrap,
        "topic": "t",
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


def run(client: ClientName, wanted: ClientConfig, folder: Path, until: str) -> list[dict[str, Any]]:
    """Run the process until it counts 20 of `until`; the rows of its history."""
    wanted.save(folder / "c.json")
    with subprocess.Popen(
        [sys.executable, "-m", MODULES[client], str(folder / "c.json")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        for line in process.stdout:
            if json.loads(line)[until] >= 20:
                break
        process.stdin.close()
        assert process.wait(DEADLINE_S) == 0
    (stream,) = folder.glob("*.arrows")
    table, complete = read_arrow_stream(stream)
    assert complete
    return list(table.to_pylist())


@pytest.mark.parametrize("client", LIBRARIES)
@pytest.mark.parametrize(("acks", "idempotence"), [(0, False), (1, False), (-1, True)])
def test_what_was_acknowledged_is_read_back_at_its_offset(
    tmp_path: Path, client: ClientName, acks: int, idempotence: bool
) -> None:
    """Sends, polls and positions are recorded as those of librdkafka are."""
    with serving(Cluster(1), t=PARTITIONS) as bootstrap:
        wanted = config(tmp_path, bootstrap, acks=acks, idempotence=idempotence)
        rows = run(client, wanted, tmp_path, "read")
    sends = {row["value"]: row for row in rows if row["f"] == "send"}
    polls = [row for row in rows if row["f"] == "poll"]
    assert {row["type"] for row in sends.values()} == {"ok"}
    assert {row["acks"] for row in sends.values()} == {acks}
    assert len(polls) >= 20
    for row in polls:
        sent = sends[row["value"]]
        assert (row["partition"], row["error"]) == (sent["partition"], None)
        assert sent["offset"] == (None if acks == 0 else row["offset"])
        assert sent["invoke_ns"] <= row["complete_ns"]
    assigned = [row for row in rows if row["f"] == "assign"]
    assert [(row["partition"], row["offset"]) for row in assigned] == [
        (partition, 0) for partition in range(PARTITIONS)
    ]
    for frame in ("start", "end"):
        assert sorted(row["client"] for row in rows if row["f"] == frame) == [1000, 1001]


@pytest.mark.parametrize("client", LIBRARIES)
def test_one_producers_sends_to_a_partition_land_in_their_order(
    tmp_path: Path, client: ClientName
) -> None:
    """Full speed and batches that fill up: still in the order in which they began."""
    with serving(Cluster(1), t=PARTITIONS) as bootstrap:
        wanted = config(
            tmp_path, bootstrap, idempotence=True, rate_per_s=0, value_bytes=4_096, consumers=0
        )
        rows = run(client, wanted, tmp_path, "acked")
    for partition in range(PARTITIONS):
        sent = [row for row in rows if row["f"] == "send" and row["partition"] == partition]
        sent.sort(key=lambda row: row["value"])
        offsets = [row["offset"] for row in sent]
        assert offsets == sorted(offsets)
        assert len(set(offsets)) == len(offsets)


@pytest.mark.parametrize("client", LIBRARIES)
def test_without_a_cluster_nothing_is_sent_and_the_process_ends(
    tmp_path: Path, client: ClientName
) -> None:
    """No broker is there: no client begins, and a stop is heard."""
    config(tmp_path, NOWHERE).save(tmp_path / "c.json")
    with subprocess.Popen(
        [sys.executable, "-m", MODULES[client], str(tmp_path / "c.json")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert json.loads(process.stdout.readline())["sent"] == 0
        process.stdin.close()
        assert process.wait(DEADLINE_S) == 0
    (stream,) = tmp_path.glob("*.arrows")
    assert read_arrow_stream(stream)[0].num_rows == 0
