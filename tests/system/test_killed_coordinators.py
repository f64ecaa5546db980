"""Transaction coordinators that are killed in the middle of a commit: it completes all the same.

Three nodes are processes of their own, with files on disk. The killed one comes back each time.
"""

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kio.index import load_request_schema

from nodes.server.apis import FIND_COORDINATOR
from nodes.wire.client import Channel
from nodes.wire.errors import ChannelError
from nodes.wire.versions import fill
from tests.support.nodes.cluster import free_ports
from tests.support.tiers import at_turn

pytestmark = pytest.mark.slow

PATIENCE_S = 90.0
PARTITIONS = 3
NODES: Final = (1, 2, 3)
NAME = "killed"
DELAYS_S = (0.0, 0.003, 0.006, 0.012, 0.05)
"""From the beginning of the commit to the kill: before, during and after its decision."""
RECORDS = 6


class Processes:
    """Three nodes, by their number."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        ports = free_ports(2 * len(NODES))
        self.ports = dict(zip(NODES, ports, strict=False))
        self._controllers = dict(zip(NODES, ports[len(NODES) :], strict=True))
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def start(self, node: int) -> None:
        """Start a node on the files that it left."""
        voters = ",".join(f"{n}@127.0.0.1:{port}" for n, port in self._controllers.items())
        properties = {
            "node.id": node,
            "process.roles": "broker,controller",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.ports[node]},"
            f"CONTROLLER://127.0.0.1:{self._controllers[node]}",
            "controller.quorum.voters": voters,
            "log.dirs": self._folder / str(node),
            "broker.session.timeout.ms": 2000,
            "broker.heartbeat.interval.ms": 400,
            "replica.lag.time.max.ms": 2000,
            "transaction.state.log.num.partitions": 3,
        }
        file = self._folder / f"{node}.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        (self._folder / str(node)).mkdir(exist_ok=True)
        with (self._folder / f"{node}.log").open("ab") as output:
            self._running[node] = subprocess.Popen(
                [sys.executable, "-m", "nodes", str(file)], stdout=output, stderr=output
            )

    def kill(self, node: int) -> None:
        """SIGKILL."""
        process = self._running.pop(node)
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)

    def close(self) -> None:
        """End every node."""
        for node in list(self._running):
            self.kill(node)

    def coordinator(self) -> int:
        """The node that coordinates NAME now."""

        async def ask(port: int) -> Any:
            channel = Channel("127.0.0.1", port, client_id="test", request_timeout_s=2.0)
            schema = load_request_schema(FIND_COORDINATOR, 4)
            try:
                request = fill(schema, key_type=1, coordinator_keys=[NAME])
                return (await channel.request(request)).coordinators[0]
            finally:
                channel.close()

        deadline_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s:
            for port in self.ports.values():
                try:
                    row = asyncio.run(ask(port))
                except ChannelError:
                    continue
                if not row.error_code and row.node_id in self._running:
                    return int(row.node_id)
            time.sleep(0.1)
        raise AssertionError("nobody coordinates")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Processes]:
    """Three nodes with the topic `data`."""
    processes = Processes(tmp_path)
    try:
        for node in NODES:
            processes.start(node)
        admin = AdminClient({"bootstrap.servers": processes.bootstrap, "log_level": 0})
        deadline_s = time.monotonic() + PATIENCE_S
        while len(admin.list_topics(timeout=PATIENCE_S).brokers) < len(NODES):
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
        topic = NewTopic(
            "data",
            num_partitions=PARTITIONS,
            replication_factor=3,
            config={"min.insync.replicas": "2"},
        )
        admin.create_topics([topic])["data"].result(PATIENCE_S)
        yield processes
    finally:
        processes.close()


def read_committed(bootstrap: str) -> list[str]:
    """All that a reader sees up to the last stable offsets."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition("data", partition, 0) for partition in range(PARTITIONS)])
    found, ended = [], set[int]()
    deadline_s = time.monotonic() + PATIENCE_S
    while len(ended) < PARTITIONS:
        assert time.monotonic() < deadline_s, "the reader does not reach the end"
        message = consumer.poll(1.0)
        if message is None:
            continue
        error, partition, value = message.error(), message.partition(), message.value()
        if error is None and value is not None:
            found.append(value.decode())
        elif error is not None and error.code() == KafkaError._PARTITION_EOF:
            assert partition is not None
            ended.add(partition)
    consumer.close()
    return sorted(found)


def commit(producer: confluent_kafka.Producer) -> None:
    """Commit; librdkafka looks for the coordinator as long as it has to."""
    while True:
        try:
            producer.commit_transaction(PATIENCE_S)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
        else:
            return


@at_turn(0, 2, "system/test_scripted_runs.py::test_faults_hit_the_coordinators_of_a_real_cluster")
def test_every_commit_that_was_answered_is_there(cluster: Processes) -> None:
    """Exactly once, in all partitions; and nobody waits for a marker that does not come."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": NAME, "log_level": 0}
    )
    producer.init_transactions(PATIENCE_S)
    expected = []
    for number, delay_s in enumerate(DELAYS_S):
        producer.begin_transaction()
        values = [f"{number}/{each}" for each in range(RECORDS)]
        for each, value in enumerate(values):
            producer.produce("data", value.encode(), partition=each % PARTITIONS)
        assert producer.flush(PATIENCE_S) == 0
        victim = cluster.coordinator()
        committing = threading.Thread(target=commit, args=(producer,))
        committing.start()
        time.sleep(delay_s)
        cluster.kill(victim)
        committing.join(PATIENCE_S)
        assert not committing.is_alive(), f"the commit {number} does not end"
        expected += values
        cluster.start(victim)
    deadline_s = time.monotonic() + PATIENCE_S
    while (found := read_committed(cluster.bootstrap)) != expected:
        assert len(found) < len(expected), found
        assert time.monotonic() < deadline_s, f"only {found} is readable"
        time.sleep(0.5)
