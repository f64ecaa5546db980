"""Kafka's own programs on `highwater cluster up`, while brokers die by SIGKILL and return.

Among the dead are the coordinators that the program has just then. Its output is exactly right.
"""

import asyncio
import random
import signal
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import confluent_kafka
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from harness.admin.client import AdminClient as OwnAdmin
from harness.admin.client import parse_bootstrap
from harness.admin.coordinators import KeyType
from harness.admin.transactions import requests
from tests.support.clusters.cluster_command import PATIENCE_S, until
from tests.support.clusters.killable import Killable, await_more, killable_cluster
from tests.support.foreign import java
from tests.support.require import require

pytestmark = pytest.mark.slow

COPIER: Final = "org.apache.kafka.tools.TransactionalMessageCopier"
COPIED: Final = 1_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killable]:
    """Three nodes."""
    require("kafka-tools", "root", "netns")
    with killable_cluster(tmp_path_factory.mktemp("programs") / "store") as up:
        yield up


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled program."""
    require("kafka-programs", "javac")
    folder = tmp_path_factory.mktemp("classes")
    java.compiled("WordCount", folder)
    return folder


@pytest.mark.parametrize("victim", ["transaction coordinator", "group coordinator", "leader"])
def test_copier_copies_each_record_once_in_order(
    cluster: Killable, tmp_path: Path, victim: str
) -> None:
    """It commits its offsets in the transactions, and aborts a third of these at random."""
    name = f"copy-{victim.replace(' ', '-')}"
    source, goal = cluster.create(f"{name}-in"), cluster.create(f"{name}-out")
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap})
    values = [str(number) for number in range(COPIED)]
    for value in values:
        producer.produce(source, value.encode(), partition=0)
    assert producer.flush(PATIENCE_S) == 0
    arguments = (
        *("--broker-list", cluster.bootstrap, "--input-topic", source, "--input-partition", "0"),
        *("--output-topic", goal, "--consumer-group", name, "--transactional-id", name),
        *("--transaction-size", "10", "--group-mode", "--use-group-metadata"),
        "--enable-random-aborts",
    )
    output = tmp_path / "output"
    with java.started(COPIER, arguments, output=output) as copier:
        await_more(lambda: cluster.stable_end(goal))
        dying = {
            "transaction coordinator": lambda: cluster.coordinator(KeyType.transaction, name),
            "group coordinator": lambda: cluster.coordinator(KeyType.group, name),
            "leader": lambda: cluster.leader(goal),
        }[victim]()
        with cluster.killed(dying):
            assert copier.wait(PATIENCE_S) == 0, output.read_text()
    assert [record.value for record in cluster.committed(goal)] == values
    assert committed_offset(cluster, name, source) == COPIED
    assert '"remaining":0' in output.read_text().splitlines()[-1]


def committed_offset(cluster: Killable, group: str, topic: str) -> int:
    """The group's offset in partition 0."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
    found = admin.list_consumer_group_offsets([wanted])[group].result(PATIENCE_S)
    return int(found.topic_partitions[0].offset)


WORDS: Final = tuple(f"word-{number}" for number in range(20))
PAUSE_S: Final = 0.005
"""Between two words."""


@contextmanager
def steadily(bootstrap: str, topic: str) -> Iterator[Callable[[], Counter[str]]]:
    """Send words to a topic until the block ends, or until the function that it gets is called: it
    returns how often which word was sent. Each was acknowledged and is in the topic once.
    """
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
    )
    sent, acknowledged = Counter[str](), Counter[str]()
    ended = threading.Event()

    def report(error: object, message: confluent_kafka.Message) -> None:
        value = message.value()
        if error is None and value is not None:
            acknowledged[value.decode()] += 1

    def work() -> None:
        chance = random.Random(0)
        while not ended.wait(PAUSE_S):
            word = chance.choice(WORDS)
            sent[word] += 1
            producer.produce(topic, word.encode(), on_delivery=report)
            producer.poll(0)

    def end() -> Counter[str]:
        ended.set()
        sender.join()
        assert producer.flush(PATIENCE_S) == 0
        assert acknowledged == sent
        return sent

    sender = threading.Thread(target=work)
    sender.start()
    try:
        yield end
    finally:
        ended.set()
        sender.join()


def transactional_id(cluster: Killable, application: str) -> str:
    """One of the application's transactional ids; there is one for each of its threads."""

    async def work() -> list[str]:
        async with OwnAdmin(parse_bootstrap(cluster.bootstrap)) as admin:
            return [each.transactional_id for each in await requests.listed(admin)]

    return next(each for each in asyncio.run(work()) if each.startswith(application))


def test_streams_counts_each_word_exactly_once(
    cluster: Killable, classes: Path, tmp_path: Path
) -> None:
    """With exactly_once_v2: the counts of a word are 1, 2, ..., without a gap or a repetition.

    The program itself is killed once, too. The next one restores the counts from their changelog.
    """
    name = "word-count"
    source, goal = cluster.create("words", partitions=2), cluster.create("counts", partitions=2)
    arguments = (cluster.bootstrap, name, source, goal, str(tmp_path / "state"))
    first, second = tmp_path / "first", tmp_path / "second"
    victims = [
        lambda: cluster.coordinator(KeyType.transaction, transactional_id(cluster, name)),
        lambda: cluster.coordinator(KeyType.group, name),
    ]

    def progress() -> int:
        return cluster.stable_end(goal)

    with steadily(cluster.bootstrap, source) as end:
        with java.started("WordCount", arguments, classes=classes, output=first) as program:
            cluster.kill_in_turn([lambda: cluster.leader(source)], progress)
            program.kill()
        with java.started("WordCount", arguments, classes=classes, output=second) as program:
            cluster.kill_in_turn(victims, progress)
            sent = end()
            until(lambda: len(cluster.committed(goal)), lambda found: found >= sent.total())
            program.terminate()
            assert program.wait(PATIENCE_S) == 128 + signal.SIGTERM, second.read_text()
    counts = defaultdict(list)
    for record in cluster.committed(goal):
        counts[record.key].append(int(record.value))
    assert counts == {word: list(range(1, n + 1)) for word, n in sent.items()}
