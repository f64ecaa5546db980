"""Kafka's own tool reads the records of our transaction coordinator."""

import json
import re
from pathlib import Path

import pytest

from nodes.coordinators.machine import ProducerStamp
from nodes.coordinators.transactions.state import State
from nodes.ids import Epoch
from nodes.log.batch import Record, encode_batch
from nodes.log.config import LogConfig
from nodes.log.log import Log
from nodes.storage.local import LocalDisk
from tests.support.foreign import java
from tests.support.nodes.machine_driver import Appended
from tests.support.nodes.transaction_driver import IN, OUT, Transactions
from tests.support.require import require

pytestmark = pytest.mark.slow

DUMP = "kafka.tools.DumpLogSegments"


def life(version: int) -> Transactions:
    """One transactional id in every state that is written, and one that expired."""
    all_of = Transactions(version)
    producer = all_of.producer()
    all_of.add(producer, IN, OUT)
    following = all_of.end(producer, commit=True)
    all_of.finish()
    assert isinstance(following, ProducerStamp)
    all_of.add(following, OUT)
    all_of.end(following, commit=False)
    all_of.producer("gone")
    all_of.driver.advance(8 * 24 * 3600 * 1000)
    return all_of


def dumped(text: str) -> list[tuple[str, int | None, int]]:
    """Of each record that the tool prints: the id, the state (None: removed), the partitions."""
    found = []
    for key, value in re.findall(r" key: (\{.*\}) payload: (.*)$", text, re.MULTILINE):
        name = json.loads(key)["data"]["transactionalId"]
        data = {} if value == "<DELETE>" else json.loads(value)["data"]
        topics = data.get("transactionPartitions") or ()
        partitions = sum(len(topic["partitionIds"]) for topic in topics)
        found.append((name, data.get("transactionStatus"), partitions))
    return found


@pytest.mark.parametrize("version", [0, 2])
def test_kafka_dumps_the_records(version: int, tmp_path: Path) -> None:
    """In both versions of the value, tombstones too."""
    require("kafka-tools")
    disk = LocalDisk(tmp_path)
    log = Log.open(disk, "__transaction_state-0", LogConfig(), clean=True)
    for entry in life(version).driver.log:
        assert isinstance(entry, Appended)
        batch = encode_batch(
            [Record(key=entry.record.key, value=entry.record.value)],
            timestamp_ms=entry.position.timestamp,
        )
        log.append_as_leader(batch, Epoch(1))
    log.close()
    segment = tmp_path / "__transaction_state-0" / f"{0:020}.log"
    done = java.run(DUMP, ("--transaction-log-decoder", "--files", str(segment)))
    assert dumped(done.stdout) == [
        ("t", State.EMPTY, 0),
        ("t", State.ONGOING, 2),
        ("t", State.PREPARE_COMMIT, 2),
        ("t", State.COMPLETE_COMMIT, 0),
        ("t", State.ONGOING, 1),
        ("t", State.PREPARE_ABORT, 1),
        ("gone", State.EMPTY, 0),
        ("gone", None, 0),
    ], done.stdout + done.stderr
