"""Compacted topics and other people's code: clients write them and read them when they are folded,
Kafka's dump tool reads their segments, and Apache Kafka goes on with their directory.
"""

import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from nodes.ids import TopicPartition
from nodes.server.node import Node
from nodes.server.replicas.replica import Replica
from tests.support.foreign import PARTITION, PATIENCE_S, AioKafka, Confluent, KafkaPython, Message
from tests.support.nodes.cleaning import pairs_of
from tests.support.require import require
from tests.support.tiers import at_turn
from tests.system.test_kafka_directories import (
    JAVA,
    bootstrap,
    built_in,
    in_service,
    kafka,
    properties,
)

__all__ = ["properties"]

pytestmark = pytest.mark.slow

Pair: TypeAlias = tuple[int, bytes | None, bytes | None]
"""Offset, key and value."""

KEYS = 7
ROUNDS = 4
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CLIENTS = (Confluent(), KafkaPython(), AioKafka())
OURS = {"log.cleaner.backoff.ms": "100", "log.segment.bytes": "3000"}
"""Kafka allows segments of a megabyte and more."""
CONFIG = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}


def eventually(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.1)


def create(address: str, topic: str, config: dict[str, str]) -> None:
    new = NewTopic(topic, PARTITION + 1, 1, config=config)
    admin = AdminClient({"bootstrap.servers": address})  # its requests end with it
    admin.create_topics([new])[topic].result(PATIENCE_S)


def replica_of(node: Node) -> Replica | None:
    """None of a node that has just started."""
    return node.broker and node.broker.replicas.find(TopicPartition("t", PARTITION))


def pairs(ask: Callable[[Callable[[Node], Any]], Any]) -> list[Pair]:
    """What is left in the node's log; waits for a node that has just started."""
    eventually(lambda: ask(replica_of) is not None)
    found: list[Pair] = ask(lambda node: pairs_of(replica_of(node).log))
    return found


def dumped(path: Path) -> str:
    """What Kafka's tool says about a segment or an index."""
    tool = ["kafka.tools.DumpLogSegments", "--deep-iteration", "--print-data-log", "--files"]
    ended = subprocess.run(
        [*JAVA, *tool, str(path)], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    return ended.stdout + ended.stderr


@at_turn(
    0,
    2,
    "system/test_compacted_topics.py::test_topic_that_apache_kafka_compacted_is_read_and_compacted_further",
)
def test_foreign_clients_write_and_read_a_compacted_topic(
    properties: dict[str, str], tmp_path: Path
) -> None:
    """Every client and codec writes each key; what is left are the last value of each, at their
    offsets. Then Apache Kafka runs on the directory.
    """
    require("kafka")
    address, sent = bootstrap(properties), list[Message]()
    (tmp_path / "data").mkdir()
    with built_in(properties | OURS) as ask:
        eventually(lambda: in_service(address))
        create(address, "t", CONFIG)
        for round_ in range(ROUNDS):
            for client in CLIENTS:
                for codec in CODECS:
                    value = f"{round_} {type(client).__name__} {codec} ".encode() * 9
                    batch = [Message(value, b"%d" % n, ()) for n in range(KEYS)]
                    client.produce(address, "t", batch, codec=codec, idempotent=True)
                    sent += batch
        last = [Message(b"x" * 90, b"last", ())] * 40  # more than a segment: the others are sealed
        Confluent().produce(address, "t", last, codec="none")
        sent += last

        def is_folded() -> bool:
            """Sealed segments have each key once. A few of the last records may be in them, too."""
            base = ask(lambda node: replica_of(node).log.segments.active.base_offset)
            sealed = [key for offset, key, _ in pairs(ask) if offset < base]
            return len(sealed) == len(set(sealed)) >= KEYS

        eventually(is_folded)
        left = pairs(ask)
        for offset, key, value in left:
            assert (sent[offset].key, sent[offset].value) == (key, value)
        assert [offset for offset, _, _ in left[:KEYS]] == [
            *range(len(sent) - 40 - KEYS, len(sent) - 40)
        ]
        for client in CLIENTS:
            read = client.consume(address, "t", len(left))
            assert [(m.key, m.value) for m in read] == [(k, v) for _, k, v in left]
    directory = tmp_path / "data" / f"t-{PARTITION}"
    found = "".join(dumped(path) for path in sorted(directory.glob("*.log")))
    assert not re.search("(?i)corrupt|invalid|exception", found)
    assert re.search("isvalid: true", found)
    assert {*re.findall(r"\| offset: (\d+) ", found)} == {str(offset) for offset, _, _ in left}
    # Of time indexes the tool expects a record, and an empty batch has only its largest time.
    for path in sorted(directory.glob("*.index")):
        assert not re.search("(?i)mismatch|corrupt|exception|not sane", dumped(path)), path
    with kafka(properties, tmp_path):
        read = Confluent().consume(address, "t", len(left))
        assert [(m.key, m.value) for m in read] == [(k, v) for _, k, v in left]


@at_turn(
    1, 2, "system/test_compacted_topics.py::test_foreign_clients_write_and_read_a_compacted_topic"
)
def test_topic_that_apache_kafka_compacted_is_read_and_compacted_further(
    properties: dict[str, str], tmp_path: Path
) -> None:
    """Kafka leaves gaps between batches, and a checkpoint; both are gone on with."""
    require("kafka")
    properties |= {"log.cleaner.backoff.ms": "100"}
    address = bootstrap(properties)
    config = {**CONFIG, "segment.ms": "100"}

    def write(rounds: int) -> None:
        for number in range(rounds):
            batch = [Message(b"%d" % number * 300, b"%d" % n, ()) for n in range(KEYS)]
            Confluent().produce(address, "t", batch, codec="none", idempotent=False)

    with kafka(properties, tmp_path):
        create(address, "t", config)
        for _ in range(4):
            write(3)
            time.sleep(0.3)
        checkpoint = tmp_path / "data" / "cleaner-offset-checkpoint"
        named = f"t {PARTITION} "
        eventually(lambda: checkpoint.exists() and named in checkpoint.read_text())
    with built_in(properties | OURS) as ask:
        kept = pairs(ask)
        assert len(kept) < 12 * KEYS
        read = Confluent().consume(address, "t", len(kept))
        assert [(m.key, m.value) for m in read] == [(k, v) for _, k, v in kept]
        write(20)
        eventually(lambda: len(pairs(ask)) < 4 * KEYS)
        last = {key: value for _, key, value in pairs(ask)}
        assert last == {b"%d" % n: b"19" * 300 for n in range(KEYS)}
