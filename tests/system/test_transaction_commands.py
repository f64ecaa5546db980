"""`highwater cluster transactions` on real clusters: its figures are those of Kafka's own tool."""

import asyncio
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient as ConfluentAdmin
from confluent_kafka.admin import NewTopic

from harness.admin import inspection
from harness.admin.client import AdminClient, parse_bootstrap
from harness.admin.codes import check
from harness.admin.coordinators import Coordinator, KeyType, ask_each
from nodes.ids import TopicPartition
from nodes.log.batch import Record, encode_batch
from tests.support.clusters.cluster_command import (
    PATIENCE_S,
    Printed,
    called,
    cluster_up,
    known_everywhere,
    until,
)
from tests.support.foreign import java
from tests.support.require import require
from tests.support.tiers import at_turn, nightly

pytestmark = pytest.mark.slow

KAFKAS_TOOL: Final = "org.apache.kafka.tools.TransactionsCommand"
KAFKA: Final = ("kafka",)
AT_NIGHT: Final = nightly(
    "system/test_transaction_commands.py::test_hanging_transaction_is_found_and_aborted"
)
BOTH: Final = (pytest.param("kafka", marks=AT_NIGHT), "nodes")
"""The systems on which a test runs."""
SETTINGS: Final = {
    # Without it the leader asks the coordinator before a transaction can hang (KIP-890).
    "kafka": ("--config", "transaction.partition.verification.enable=false"),
    "nodes": (),
}
BEFORE_THE_LEADER_ADDS_PARTITIONS: Final = 11
"""The last version of Produce in which the client tells the coordinator of each partition."""


class Cluster:
    """A cluster that is up, asked by `highwater cluster` and by Kafka's tool."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def asked(self, *arguments: str) -> Printed:
        """Run `highwater cluster transactions`."""
        return called("cluster", "transactions", *arguments, "--bootstrap-servers", self.bootstrap)

    def rows(self, *arguments: str) -> list[list[str]]:
        """Run `highwater cluster transactions`, which must succeed; return the words it prints."""
        printed = self.asked(*arguments)
        assert printed.code == 0, printed.err
        return printed.rows

    def refused(self, *arguments: str) -> str:
        """Return the message of a refused command."""
        printed = self.asked(*arguments)
        assert printed.code == 254, printed.err
        return printed.err

    def kafkas(self, arguments: str) -> list[list[str]]:
        """Return the words of the lines that Kafka's own tool prints."""
        done = java.run(KAFKAS_TOOL, ("--bootstrap-server", self.bootstrap, *arguments.split()))
        assert done.returncode == 0, done.stderr
        return Printed(0, done.stdout, "").rows

    def topic(self, name: str) -> str:
        """Create a topic of one partition."""
        admin = ConfluentAdmin({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(name, 1, 3)])[name].result(PATIENCE_S)
        known_everywhere(self.bootstrap, name)
        return name

    @contextmanager
    def open(self, transactional_id: str, topic: str) -> Iterator[Any]:
        """A producer with a transaction that has a record in partition 0."""
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": 600_000,
                "log_level": 0,
            }
        )
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        producer.produce(topic, b"open", partition=0)
        assert producer.flush(PATIENCE_S) == 0
        yield producer

    def committed(self, topic: str) -> int:
        """Return up to which offset of partition 0 a reader of committed records may read."""
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "nobody",
                "isolation.level": "read_committed",
            }
        )
        try:
            partition = confluent_kafka.TopicPartition(topic, 0)
            return int(consumer.get_watermark_offsets(partition, PATIENCE_S)[1])
        finally:
            consumer.close()

    def hang(self, transactional_id: str, topic: str) -> None:
        """Write a record of a transaction that the coordinator does not know."""

        async def work() -> None:
            async with AdminClient(parse_bootstrap(self.bootstrap)) as admin:
                await _hang(admin, transactional_id, TopicPartition(topic, 0))

        asyncio.run(work())


async def _hang(admin: AdminClient, transactional_id: str, partition: TopicPartition) -> None:
    async def init(coordinator: Coordinator, _: Any) -> dict[str, Any]:
        answer = await admin.request(
            "init_producer_id",
            to=coordinator.address,
            transactional_id=transactional_id,
            transaction_timeout=timedelta(minutes=1),
            producer_id=-1,
            producer_epoch=-1,
        )
        check(answer.error_code, transactional_id)
        return {transactional_id: answer}

    ids = [transactional_id]
    producer = (await ask_each(admin, KeyType.transaction, ids, init))[transactional_id]
    batch = encode_batch(
        [Record(timestamp=-1, value=b"hangs")],
        timestamp_ms=time.time_ns() // 1_000_000,
        transactional=True,
        producer_id=int(producer.producer_id),
        producer_epoch=int(producer.producer_epoch),
        base_sequence=0,
    )
    (leader,) = await inspection.by_leader(admin, [partition])
    data = {"name": partition.topic, "partition_data": [{"index": 0, "records": batch}]}
    answer = await admin.request(
        "produce",
        to=leader,
        at_most=BEFORE_THE_LEADER_ADDS_PARTITIONS,
        transactional_id=transactional_id,
        acks=-1,
        timeout=admin.request_timeout,
        topic_data=[data],
    )
    check(answer.responses[0].partition_responses[0].error_code, str(partition))


def on(systems: Iterable[Any]) -> pytest.MarkDecorator:
    """Run a test on a cluster of each of these systems."""
    return pytest.mark.parametrize("cluster", systems, indirect=True, scope="module")


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Three nodes."""
    require("kafka-tools", "netns")
    store: Path = tmp_path_factory.mktemp("transactions") / "store"
    with cluster_up(store, "--system", request.param, *SETTINGS[request.param]) as up:
        yield Cluster(up.bootstrap)


@on(BOTH)
def test_open_transaction_is_shown_as_by_kafkas_tool(cluster: Cluster) -> None:
    """By its coordinator and by the leader; the duration differs, as the tools run in turn."""
    topic = cluster.topic("shown")
    with cluster.open("shown", topic) as producer:
        listed = cluster.rows("list")
        assert sorted(listed) == sorted(cluster.kafkas("list"))
        (row,) = (row for row in listed if row[0] == "shown")
        assert row[3] == "Ongoing"
        assert cluster.rows("list", "--state", "empty", "--producer-id", row[2])[1:] == []
        by_pattern = ("list", "--transactional-id-pattern", "sh.*n", "--duration-filter", "0")
        assert cluster.rows(*by_pattern)[1:] == [row]

        header, ours = cluster.rows("describe", "shown")
        theirs = cluster.kafkas("describe --transactional-id shown")[1]
        duration = header.index("TransactionDurationMs")
        assert int(ours.pop(duration)) <= int(theirs.pop(duration))
        assert ours == theirs
        assert ours[-1] == f"{topic}-0"

        of_partition = ("--topic", topic, "--partition", "0")
        producers = cluster.rows("describe-producers", *of_partition)
        assert producers == cluster.kafkas("describe-producers " + " ".join(of_partition))
        assert producers[1][-1] == "0", "the transaction starts at offset 0"
        producer.commit_transaction(PATIENCE_S)
    until(lambda: cluster.rows("describe", "shown")[1][4], lambda state: state == "CompleteCommit")
    assert "did you mean shown?" in cluster.refused("describe", "showm")


@on(BOTH)
def test_transaction_that_its_coordinator_knows_is_not_hanging(cluster: Cluster) -> None:
    """`abort` names its transactional id; `force-terminate` ends it in all partitions."""
    topic = cluster.topic("known")
    with cluster.open("known", topic) as producer:
        search = ("find-hanging", "--topic", topic, "--max-transaction-timeout", "0")
        assert cluster.rows(*search)[1:] == []
        abort = ("abort", "--topic", topic, "--partition", "0", "--start-offset")
        refusal = cluster.refused(*abort, "0")
        assert "is not hanging" in refusal
        assert "transactional id known, Ongoing" in refusal
        assert "open ones start at: 0" in cluster.refused(*abort, "5")
        assert cluster.committed(topic) == 0
        printed = cluster.asked("force-terminate", "known")
        assert printed.out == "Fenced the producer of known; its state was Ongoing.\n", printed.err
        assert cluster.committed(topic) == 2
        header, row = cluster.rows("describe", "known")
        assert row[header.index("TransactionState")] == "Empty"
        assert row[header.index("CurrentTransactionStartTimeMs")] == "None"
        with pytest.raises(confluent_kafka.KafkaException):
            producer.commit_transaction(PATIENCE_S)


@on(BOTH)
def test_forced_abort_ends_an_open_transaction_in_one_partition(cluster: Cluster) -> None:
    """By the producer's epoch in that partition; an older one is refused."""
    topic = cluster.topic("forced")
    with cluster.open("forced", topic), cluster.open("forced", topic):
        assert cluster.committed(topic) == 2, "the second producer aborted the first's"
        abort = ("abort", "--topic", topic, "--partition", "0", "--force")
        _, row = cluster.rows("describe-producers", "--topic", topic, "--partition", "0")
        producer = ("--producer-id", row[0], "--coordinator-epoch", row[2], "--producer-epoch")
        refusal = cluster.refused(*abort, *producer, "0")
        assert "the producer has another epoch" in refusal
        printed = cluster.asked(*abort, *producer, row[1])
        assert printed.out == f"Aborted the transaction of producer {row[0]} in {topic}-0.\n", (
            printed.err
        )
        assert cluster.committed(topic) == 4
        assert cluster.rows("describe", "forced")[1][4] == "Ongoing"
    assert cluster.asked("force-terminate", "forced").code == 0


@on(KAFKA)
@at_turn(
    0,
    2,
    "system/test_transaction_commands.py::test_transaction_that_its_coordinator_knows_is_not_hanging",
)
def test_hanging_transaction_is_found_and_aborted(cluster: Cluster) -> None:
    """Before, readers of committed records wait for it; Kafka's tool finds the same one.

    The built-in broker always asks the coordinator first, so nothing hangs there.
    """
    topic = cluster.topic("hangs")
    cluster.hang("hangs", topic)
    assert cluster.committed(topic) == 0
    search = ("--topic", topic, "--max-transaction-timeout", "0")
    until(lambda: cluster.rows("find-hanging", *search)[1:], lambda rows: rows)
    header, row = cluster.rows("find-hanging", *search)
    assert [header, row] == cluster.kafkas("find-hanging " + " ".join(search))
    assert row[:2] == [topic, "0"]
    assert row[header.index("StartOffset")] == "0"
    assert cluster.rows("find-hanging", "--topic", topic)[1:] == [], "15 minutes have not passed"
    assert row in cluster.rows("find-hanging", "--max-transaction-timeout", "0")

    abort = ("abort", "--topic", topic, "--partition", "0")
    by_producer = ("--producer-id", row[2], "--coordinator-epoch", "0", "--producer-epoch")
    printed = cluster.asked(*abort, "--start-offset", "0")
    assert printed.out == f"Aborted the transaction of producer {row[2]} in {topic}-0.\n", (
        printed.err
    )
    assert cluster.committed(topic) == 2
    assert cluster.rows("find-hanging", *search)[1:] == []

    cluster.hang("hangs", topic)
    assert cluster.committed(topic) == 2
    (row,) = cluster.rows("find-hanging", *search)[1:]
    assert "producer has another epoch" in cluster.refused(*abort, *by_producer, "0")
    assert cluster.asked(*abort, *by_producer, row[3]).code == 0
    assert cluster.committed(topic) == 4
