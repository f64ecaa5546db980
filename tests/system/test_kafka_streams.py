"""Kafka Streams on `highwater cluster up`, while brokers die by SIGKILL and return.

Its output is exactly right.
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

from harness.admin.client import AdminClient, parse_bootstrap
from harness.admin.coordinators import KeyType
from harness.admin.transactions import requests
from tests.support.clusters.cluster_command import PATIENCE_S, until
from tests.support.clusters.killable import Killable, killable_cluster
from tests.support.foreign import java
from tests.support.require import require
from tests.support.tiers import at_turn

pytestmark = pytest.mark.slow

RESETTER: Final = "org.apache.kafka.tools.StreamsResetter"
WORDS: Final = tuple(f"word-{number}" for number in range(20))
PAUSE_S: Final = 0.005
"""Between two words."""


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled program."""
    require("kafka-programs", "javac")
    folder = tmp_path_factory.mktemp("classes")
    java.compiled("WordCount", folder)
    return folder


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killable]:
    """Three nodes."""
    require("kafka-programs", "javac", "root", "netns")
    with killable_cluster(tmp_path_factory.mktemp("cluster") / "store") as up:
        yield up


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
        async with AdminClient(parse_bootstrap(cluster.bootstrap)) as admin:
            return [each.transactional_id for each in await requests.listed(admin)]

    return next(each for each in asyncio.run(work()) if each.startswith(application))


@at_turn(0, 3, "system/test_kafka_copier.py::test_copier_copies_each_record_once_in_order")
def test_streams_counts_each_word_exactly_once(
    cluster: Killable, classes: Path, tmp_path: Path
) -> None:
    """With exactly_once_v2: the counts of a word are 1, 2, ..., without a gap or a repetition.

    The program itself is killed once, too. The next one restores the counts from their changelog.
    In the end Kafka's tool resets the application: its members, offsets and topics.
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
    of_application = ("--application-id", name, "--input-topics", source, "--force")
    done = java.run(RESETTER, ("--bootstrap-server", cluster.bootstrap, *of_application))
    assert done.returncode == 0, done.stdout + done.stderr
    assert cluster.committed_offset(name, source) == 0
    until(cluster.topics, lambda found: not any(each.startswith(name) for each in found))
