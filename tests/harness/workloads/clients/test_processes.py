"""The processes of all clients: what they record, and how they end.

librdkafka and our own client use librdkafka's mock brokers, a cluster of another make. The others
use a broker in the test's own process: the mock answers kafka-python in a form that this cannot
read.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import pytest

from harness.plans.plan import Plan, Topic, Workload
from harness.plans.workloads import OwnClient
from harness.recording import store
from harness.workloads.config import ClientConfig
from harness.workloads.launch import launch
from tests.support.clients.workloads import (
    DEADLINE_S,
    client_config,
    require_client,
    rows_of,
    running,
)
from tests.support.clusters.fake_target import FakeTarget
from tests.support.clusters.kafka_mock import PARTITIONS, mock_cluster
from tests.support.clusters.loopback_cluster import serving
from tests.support.nodes.cluster import Cluster
from tests.support.tiers import in_turn

pytestmark = pytest.mark.slow

CLIENTS: list[str] = list(get_args(OwnClient))
CONNECTING: list[str] = ["kafka-python", "aiokafka"]
"""Whose clients do not begin before a broker has answered."""
LATIN_SQUARE: list[tuple[str, int, bool]] = [
    (client, *((0, False), (1, False), (-1, True))[(row + turn) % 3])
    for row, client in enumerate(CLIENTS)
    for turn in range(3)
]
"""Clients, acks and idempotence; each turn has all clients and all acks."""
NOT_ON_MOCKS: list[str] = [*CONNECTING, "java"]


@contextmanager
def cluster_for(client: str) -> Iterator[str]:
    """The bootstrap addresses of a cluster with the topic `t`."""
    require_client(client)
    brokers = serving(Cluster(1), t=PARTITIONS) if client in NOT_ON_MOCKS else mock_cluster("t")
    with brokers as bootstrap:
        yield bootstrap


def run(client: str, wanted: ClientConfig, until: str) -> list[dict[str, Any]]:
    """Run the process until it counts 20 of `until`; the rows of its history."""
    with running(client, wanted) as lines:
        for line in lines:
            if json.loads(line)[until] >= 20:
                break
    return rows_of(Path(wanted.history_dir))


@pytest.mark.parametrize(
    ("client", "acks", "idempotence"),
    in_turn(
        "harness/workloads/clients/test_processes.py"
        "::test_acknowledged_value_is_read_back_at_its_offset",
        LATIN_SQUARE,
        of=3,
    ),
)
def test_acknowledged_value_is_read_back_at_its_offset(
    tmp_path: Path, client: str, acks: int, idempotence: bool
) -> None:
    """Sends, polls and positions are recorded alike, and every client has an end row."""
    with cluster_for(client) as bootstrap:
        wanted = client_config(tmp_path, bootstrap=bootstrap, acks=acks, idempotence=idempotence)
        rows = run(client, wanted, "read")
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


@pytest.mark.parametrize("client", CLIENTS)
def test_sends_of_a_producer_to_a_partition_keep_their_order(tmp_path: Path, client: str) -> None:
    """This holds at full speed and with full batches."""
    with cluster_for(client) as bootstrap:
        wanted = client_config(
            tmp_path, bootstrap=bootstrap, idempotence=True, rate_per_s=0, value_bytes=4_096,
            consumers=0,
        )  # fmt: skip
        rows = run(client, wanted, "acked")
    for partition in range(PARTITIONS):
        sent = [row for row in rows if row["f"] == "send" and row["partition"] == partition]
        sent.sort(key=lambda row: row["value"])
        offsets = [row["offset"] for row in sent]
        assert offsets == sorted(offsets)
        assert len(set(offsets)) == len(offsets)


@pytest.mark.parametrize("client", CONNECTING)
def test_without_a_cluster_nothing_is_sent_and_the_process_ends(
    tmp_path: Path, client: str
) -> None:
    """No client starts, and the process ends at the stop."""
    with running(client, client_config(tmp_path)) as lines:
        assert json.loads(next(lines))["sent"] == 0
    assert rows_of(tmp_path) == []


def test_plan_chooses_the_client(tmp_path: Path) -> None:
    """`workload.client` decides what the processes run: own names the broker that answered."""
    plan = Plan(
        seed=1,
        topics=(Topic(name="t", acks=1, partitions=PARTITIONS),),
        workload=Workload(client="own", producers=1, consumers=1, rate_per_s=100),
    )
    run = store.create(tmp_path, "p", versions={}, commit=None)
    with mock_cluster("t") as bootstrap:
        clients = launch(plan, FakeTarget(tmp_path), bootstrap, run)
        deadline_s = time.monotonic() + DEADLINE_S
        while clients.stats()["t"].get("read", 0) < 10 and time.monotonic() < deadline_s:
            time.sleep(0.05)
        assert clients.stop() == []
    sends = [row for row in rows_of(run.history_dir) if row["f"] == "send"]
    assert len(sends) >= 10
    assert {row["node"] for row in sends} <= {1, 2, 3}
