"""Transactions in logs, exchanged with Apache Kafka: each reads what the other wrote."""

import contextlib
import shutil
import subprocess
import time
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from nodes.ids import Epoch, Offset
from nodes.log.log import Log, LogConfig
from nodes.storage.local import LocalDisk
from tests.support.nodes.batches import (
    DIRECTORY,
    batch,
    end_transaction,
    open_log,
    write_in_transaction,
)
from tests.support.require import require
from tests.support.tiers import at_turn
from tests.system.test_kafka_directories import (
    JAVA,
    PATIENCE_S,
    bootstrap,
    built_in,
    kafka,
    properties,
)

pytestmark = pytest.mark.slow

__all__ = ["properties"]

SMALL_KAFKA = {
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "log.cleaner.dedupe.buffer.size": str(4 << 20),
}
P, Q = 7, 8
TOPIC = "t"


def dumped(folder: Path, *names: str) -> str:
    """What Kafka's own tool reads in files of a log."""
    done = subprocess.run(
        [*JAVA, "kafka.tools.DumpLogSegments", "--files", ",".join(names), "--print-data-log"],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    return done.stdout


def test_kafka_reads_markers_index_and_snapshot(tmp_path: Path) -> None:
    """P aborts 0..3, Q commits 1..4, Q has an open transaction from 5 on."""
    require("kafka")
    log = open_log(LocalDisk(tmp_path), config=LogConfig())
    write_in_transaction(log, (P, 0, 0))
    write_in_transaction(log, (Q, 0, 0))
    write_in_transaction(log, (P, 0, 1))
    end_transaction(log, P, coordinator_epoch=4)
    end_transaction(log, Q, coordinator_epoch=5, committed=True)
    write_in_transaction(log, (Q, 0, 1), 2)
    log.append_as_leader(batch(), Epoch(0))
    log.close()
    stem = f"{0:020d}"
    output = dumped(tmp_path / DIRECTORY, f"{stem}.log", f"{stem}.txnindex", f"{8:020d}.snapshot")
    batches = [line for line in output.splitlines() if line.startswith("baseOffset")]
    assert len(batches) == 7
    assert all("isvalid: true" in line for line in batches)
    assert "offset: 3" in output
    assert "endTxnMarker: ABORT coordinatorEpoch: 4" in output
    assert "endTxnMarker: COMMIT coordinatorEpoch: 5" in output
    entry = f"version: 0 producerId: {P} firstOffset: 0 lastOffset: 3 lastStableOffset: 1"
    assert output.count("lastStableOffset") == output.count(entry) == 1
    state = f"producerId: {Q} producerEpoch: 0 coordinatorEpoch: 5 currentTxnFirstOffset: "
    assert state + "OptionalLong[5]" in output


def transactions(address: str) -> None:
    """Six transactions of two producers, each with two records; every other one is aborted."""
    producers = []
    for name in ("a", "b"):
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": address, "transactional.id": name, "log_level": 0}
        )
        producer.init_transactions(PATIENCE_S)
        producers.append(producer)
    for number in range(0, 6, 2):
        for place, producer in enumerate(producers):
            producer.begin_transaction()
            producer.produce(TOPIC, b"%d" % (number + place), partition=0)
            producer.flush(PATIENCE_S)
        for place, producer in enumerate(producers):
            producer.produce(TOPIC, b"%d" % (number + place), partition=0)
            producer.flush(PATIENCE_S)  # an abort would discard it
            if (number // 2 + place) % 2:
                producer.abort_transaction(PATIENCE_S)
            else:
                producer.commit_transaction(PATIENCE_S)


def read(address: str, isolation_level: str) -> list[int]:
    """The values that a consumer gets, up to the end of the partition."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "isolation.level": isolation_level,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    found: list[int] = []
    while True:
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        if message.error() is not None:
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
            break
        found.append(int(message.value() or b"-1"))
    consumer.close()
    return sorted(found)


def admin_of(address: str) -> AdminClient:
    """An administrative client of a broker that is in service: librdkafka is slow to ask again."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
        with contextlib.suppress(confluent_kafka.KafkaException):
            if admin.list_topics(timeout=2).brokers:
                return admin
    raise AssertionError(f"{address} is not in service")


@at_turn(
    0,
    2,
    "system/test_kafka_copier.py::test_output_of_the_copier_and_of_verifiable_clients_is_imported_and_judged",
)
def test_transactions_of_kafka_are_read(properties: dict[str, str], tmp_path: Path) -> None:
    """Its index is what a rebuild makes, and a consumer gets the committed records only."""
    require("kafka")
    address = bootstrap(properties)
    with kafka({**properties, **SMALL_KAFKA}, tmp_path):
        transactions(address)
        theirs = [read(address, level) for level in ("read_committed", "read_uncommitted")]
    assert theirs == [[0, 0, 3, 3, 4, 4], sorted([*range(6)] * 2)]
    folder = tmp_path / "data" / f"{TOPIC}-0"
    index = (folder / f"{0:020d}.txnindex").read_bytes()
    assert len(index) == 3 * 34
    disk = LocalDisk(tmp_path / "data")
    states = []
    for clean in (True, False):
        log = Log.open(disk, folder.name, LogConfig(), clean=clean)
        aborted = log.aborted_transactions(Offset(0), log.end_offset)
        states.append((aborted, dict(log.producers.items()).keys()))
        assert log.last_stable_offset(log.end_offset) == log.end_offset
        log.close()
        assert (folder / f"{0:020d}.txnindex").read_bytes() == index
    assert states[0] == states[1]
    assert len(states[0][0]) == 3
    fresh = {**properties, "log.dirs": str(tmp_path / "fresh")}
    (tmp_path / "fresh").mkdir()
    with built_in(fresh):
        admin = admin_of(address)
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(PATIENCE_S)
        producer = confluent_kafka.Producer({"bootstrap.servers": address, "log_level": 0})
        producer.produce(TOPIC, b"replaced")
        assert producer.flush(PATIENCE_S) == 0
    replaced = tmp_path / "fresh" / folder.name
    metadata = (replaced / "partition.metadata").read_bytes()  # it has the topic's id
    shutil.rmtree(replaced)
    shutil.copytree(folder, replaced)
    (replaced / "partition.metadata").write_bytes(metadata)
    with built_in(fresh):
        admin_of(address)
        ours = [read(address, level) for level in ("read_committed", "read_uncommitted")]
    assert ours == theirs
