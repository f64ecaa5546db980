"""A directory that Apache Kafka has written to is opened by the built-in broker: its metadata log,
which holds a transaction and records of older versions, and its topics with their records.
"""

import asyncio
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import confluent_kafka
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from harness.brokers.kafka.program import LOGGING
from nodes.config import load_config
from nodes.server.node import Node
from nodes.storage.local import LocalDisk
from tests.support.nodes.cluster import free_ports
from tests.support.require import KAFKA_JARS, require
from tests.support.tiers import at_turn

pytestmark = pytest.mark.slow

CLUSTER_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
PATIENCE_S: Final = 90.0
RECORDS: Final = 50
JAVA: Final = (
    "java", "-Xmx256m", "-XX:TieredStopAtLevel=1", f"-Dlog4j2.configurationFile={LOGGING}",
    "-cp", f"{KAFKA_JARS}/*",
)  # fmt: skip


@pytest.fixture
def properties(tmp_path: Path) -> dict[str, str]:
    """Of a node that is all of a cluster."""
    broker, controller = free_ports(2)
    return {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "log.dirs": str(tmp_path / "data"),
        "cluster.id": CLUSTER_ID,
        # A consumer that names a group asks for its offsets first, and there is one broker only.
        "offsets.topic.replication.factor": "1",
    }


def bootstrap(properties: dict[str, str]) -> str:
    """The address of the broker."""
    return properties["listeners"].split(",")[0].removeprefix("PLAINTEXT://")


def in_service(address: str) -> bool:
    """Whether the metadata names the broker and a leader of every partition. A broker says that it
    has started before it knows this, and librdkafka does not ask again for a while."""
    metadata = AdminClient({"bootstrap.servers": address}).list_topics(timeout=PATIENCE_S)
    partitions = [p for topic in metadata.topics.values() for p in topic.partitions.values()]
    return bool(metadata.brokers) and all(partition.leader >= 0 for partition in partitions)


@contextmanager
def kafka(properties: dict[str, str], folder: Path) -> Iterator[None]:
    """Apache Kafka on the directory, formatted if need be, in service; stopped cleanly."""
    file, output = folder / "server.properties", folder / "kafka.log"
    lines = [f"{key}={value}\n" for key, value in properties.items() if key != "cluster.id"]
    file.write_text("".join(lines))
    formatted = (*JAVA, "kafka.tools.StorageTool", "format", "--ignore-formatted")
    subprocess.run(
        [*formatted, "-t", CLUSTER_ID, "-c", file],
        check=True,
        capture_output=True,
        timeout=PATIENCE_S,
    )
    with output.open("w") as log:
        process = subprocess.Popen([*JAVA, "kafka.Kafka", file], stdout=log, stderr=log)
    try:
        until = time.monotonic() + PATIENCE_S
        while not (
            "Kafka Server started" in output.read_text() and in_service(bootstrap(properties))
        ):
            assert process.poll() is None, output.read_text()
            assert time.monotonic() < until, output.read_text()
            time.sleep(0.1)
        yield
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)
    finally:
        process.kill()
        process.wait()


@contextmanager
def built_in(properties: dict[str, str]) -> Iterator[Callable[[Callable[[Node], Any]], Any]]:
    """The built-in broker on the directory, in a thread of its own; stopped cleanly. Give a
    function that asks something of the node in that thread, as its files are closed there."""
    config, _ = load_config(properties)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def started() -> Node:
        disk = LocalDisk(Path(properties["log.dirs"]))
        node = Node(config, disk, rng=random.Random(7), wall_clock_ms=lambda: 1_800_000_000_000)
        await node.start()
        return node

    def ask(question: Callable[[Node], Any]) -> Any:
        async def asked() -> Any:
            return question(node)

        return asyncio.run_coroutine_threadsafe(asked(), loop).result(PATIENCE_S)

    try:
        node = asyncio.run_coroutine_threadsafe(started(), loop).result(PATIENCE_S)
        try:
            yield ask
        finally:
            asyncio.run_coroutine_threadsafe(node.stop(), loop).result(PATIENCE_S)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)
        loop.close()


def populate(address: str, topic: str) -> None:
    """A topic with records, and one that is deleted again."""
    admin = AdminClient({"bootstrap.servers": address})
    kept = NewTopic(topic, 2, 1, config={"retention.ms": "-1"})
    for created in admin.create_topics([kept, NewTopic(f"{topic}-gone", 1, 1)]).values():
        created.result(PATIENCE_S)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": address, "enable.idempotence": True, "log_level": 0}
    )
    for number in range(RECORDS):
        producer.produce(topic, str(number).encode())
    assert producer.flush(PATIENCE_S) == 0
    for deleted in admin.delete_topics([f"{topic}-gone"]).values():
        deleted.result(PATIENCE_S)


def secure(address: str, topic: str) -> None:
    """Make Kafka write what only Kafka uses, and a min.insync.replicas, which ends eligibility."""
    admin = AdminClient({"bootstrap.servers": address})
    minimum = ConfigEntry("min.insync.replicas", "1", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[minimum])
    entry = AclBinding(
        ResourceType.TOPIC, topic, ResourcePatternType.LITERAL,
        "User:someone", "*", AclOperation.READ, AclPermissionType.ALLOW,
    )  # fmt: skip
    scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    user = UserScramCredentialUpsertion("someone", scram, b"secret")
    for futures in (
        admin.incremental_alter_configs([resource]),
        admin.create_acls([entry]),
        admin.alter_user_scram_credentials([user]),
    ):
        for future in futures.values():
            future.result(PATIENCE_S)
    quota = ("--add-config", "producer_byte_rate=9000000", "--entity-type", "clients")
    command = (*JAVA, "kafka.admin.ConfigCommand", "--bootstrap-server", address, "--alter")
    subprocess.run(
        [*command, *quota, "--entity-name", "someone"],
        check=True,
        capture_output=True,
        timeout=PATIENCE_S,
    )


def values(address: str, topics: list[str]) -> list[int]:
    """What is in the topics, in order of value."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": address, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.assign([confluent_kafka.TopicPartition(t, p) for t in topics for p in (0, 1)])
    found: list[int] = []
    until = time.monotonic() + PATIENCE_S
    while len(found) < RECORDS * len(topics) and time.monotonic() < until:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(int(message.value() or b"-1"))
    consumer.close()
    return sorted(found)


@at_turn(2, 3, "system/test_kafka_copier.py::test_copier_copies_each_record_once_in_order")
def test_a_directory_of_kafkas_is_gone_on_with(properties: dict[str, str], tmp_path: Path) -> None:
    """Written to by two lives of Kafka's; what is written to it then is there as well."""
    require("kafka")
    address = bootstrap(properties)
    authorizer = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    for topic in ("first", "second"):
        with kafka({**properties, **authorizer}, tmp_path):
            populate(address, topic)
            secure(address, topic)
    with built_in(properties) as ask:
        admin = AdminClient({"bootstrap.servers": address})
        assert set(admin.list_topics(timeout=PATIENCE_S).topics) == {"first", "second"}
        assert values(address, ["first", "second"]) == sorted([*range(RECORDS)] * 2)
        kinds = ask(lambda node: {kind.__name__ for kind, _ in node.broker.replicas.image.unused})
        assert kinds == {
            "AccessControlEntryRecord",
            "ClientQuotaRecord",
            "UserScramCredentialRecord",
        }
        populate(address, "third")
        assert values(address, ["third"]) == [*range(RECORDS)]
