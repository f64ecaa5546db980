"""A stalled disk costs the stalled broker its leaderships; it does not hang the partition.

Real nodes on real file systems of their own, frozen by the kernel: whoever writes or syncs there
blocks, and the process stays alive (KAFKA-8733).
"""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer
from kio.schema.metadata.v12.request import MetadataRequest

from harness import store
from harness.clients.librdkafka import producer_config
from harness.cluster_view import PartitionView, views_of
from harness.plan import build
from harness.systems.base import call_in_client_network
from harness.systems.nodes import NodesSystem
from harness.systems.replica_files import replica_rows
from harness.targets.local import LocalTarget, Volume
from nodes.ids import TopicPartition
from nodes.wire.client import Channel
from nodes.wire.errors import WireError
from nodes.wire.versions import fill
from tests.harness.targets.machine import local_target
from tests.require import require

NODES = (1, 2, 3)
PATIENCE_S = 40.0
"""A failover takes the session timeout of 2 s and a little; the machine may be busy."""
PLAN = build(
    {
        "name": "disk-stall",
        "seed": 0,
        "topics": [{"name": "t", "acks": "all", "partitions": 3, "idempotence": True}],
        # So that every node leads a partition again before its disk stalls.
        "broker": {"leader.imbalance.check.interval.seconds": 1},
    },
    where="disk stall",
)
PARTITIONS = [TopicPartition("t", number) for number in range(3)]


def views(
    target: LocalTarget, system: NodesSystem, node: int
) -> dict[TopicPartition, PartitionView]:
    """The partitions as one node sees them; nothing when it does not answer."""

    async def ask() -> dict[TopicPartition, PartitionView]:
        channel = Channel(*system.brokers[node], client_id="test", request_timeout_s=1.0)
        try:
            answer = await channel.request(fill(MetadataRequest, topics=[{"name": "t"}]))
        except WireError:
            return {}
        finally:
            channel.close()
        return views_of(answer)

    return call_in_client_network(target, ask)


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Poll until it holds; fail at the bound."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.05)


def send_to_all(producer: Producer, value: bytes) -> float:
    """One acks=all send to every partition; seconds until the last is acknowledged."""
    failures: list[str] = []

    def delivered(error: object, message: Message) -> None:
        if error is not None:
            failures.append(f"t-{message.partition()}: {error}")

    began_s = time.monotonic()
    for partition in PARTITIONS:
        producer.produce("t", value, partition=partition.partition, on_delivery=delivered)
    assert producer.flush(PATIENCE_S) == 0, f"{value!r} was not acknowledged everywhere"
    assert failures == []
    return time.monotonic() - began_s


@pytest.mark.slow
def test_a_stalled_disk_costs_leadership_and_nothing_else(tmp_path: Path) -> None:
    """Each node in turn, the active controller among them: writes go on elsewhere, all rejoin."""
    for capability in ("root", "netns", "loop"):
        require(capability)
    run = store.create(tmp_path / "store", "disk-stall", versions={}, commit=None)
    with local_target(tmp_path, nodes=len(NODES), volume=Volume.IMAGE_EXT4) as target:
        system = NodesSystem(PLAN, target, run)
        system.configure()
        system.start()
        system.create_topics()
        with target.in_client_netns():  # where librdkafka's threads then stay
            producer = Producer(
                producer_config(
                    bootstrap=system.bootstrap,
                    acks=-1,
                    idempotence=True,
                    linger_ms=0,
                    message_timeout_ms=round(PATIENCE_S * 1000),
                )
            )
        send_to_all(producer, b"before")
        for node in NODES:
            stall(target, system, producer, node)
        assert sorted(system.stop()) == []
        for partition in PARTITIONS:
            logs = [
                [row[1:] for row in replica_rows(node, target.data_dir(node) / "log", partition)]
                for node in NODES
            ]
            assert logs[0] == logs[1] == logs[2]
            # Offsets: one record before the first stall, and two for each stall.
            assert logs[0][-1][3] == 2 * len(NODES)


def stall(target: LocalTarget, system: NodesSystem, producer: Producer, node: int) -> None:
    """Freeze the disk of a leader, write through its successors, thaw, and wait for its return."""
    other = next(each for each in NODES if each != node)

    def seen() -> dict[TopicPartition, PartitionView]:
        return views(target, system, other)

    wait_for(
        lambda: node in [view.leader for view in seen().values()], f"node {node} leads nothing"
    )
    target.disks.freeze(node)
    try:
        taken_s = send_to_all(producer, b"during")
        print(f"disk of node {node} stalled: acknowledged everywhere after {taken_s:.2f} s")
        assert target.is_running(node)
        assert all(view.leader not in (node, None) for view in seen().values())
        assert all(node not in view.isr for view in seen().values())
    finally:
        target.disks.thaw(node)
    wait_for(
        lambda: [len(view.isr) for view in seen().values()] == [len(NODES)] * len(PARTITIONS),
        f"node {node} does not come back into every ISR",
    )
    send_to_all(producer, b"after")
