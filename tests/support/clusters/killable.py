"""`highwater cluster up --detach`, whose brokers a test kills and starts again.

Needs root, because only root's clusters can be detached.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import confluent_kafka
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient as ConfluentAdmin
from confluent_kafka.admin import NewTopic

from harness.admin.client import AdminClient, parse_bootstrap
from harness.admin.coordinators import Coordinator, KeyType, ask_each
from harness.plans.plan import stored_plan
from harness.recording import store as stores
from harness.recording.journal import Journal
from harness.systems.brokers import BrokerSystem
from harness.targets.base import Target
from harness.targets.kinds import kind_of
from tests.support.clusters.cluster_command import (
    PATIENCE_S,
    facts,
    highwater,
    known_everywhere,
    until,
)

NODES: Final = frozenset({1, 2, 3})


class Read(NamedTuple):
    """A record that a reader of committed records has seen."""

    partition: int
    key: str | None
    value: str


@dataclass(frozen=True, slots=True)
class Killable:
    """A cluster that is up, and the target on which its brokers are processes."""

    bootstrap: str
    target: Target

    def create(self, topic: str, partitions: int = 1) -> str:
        """Create a topic with three replicas, two of which have every acknowledged record."""
        new = NewTopic(topic, partitions, 3, config={"min.insync.replicas": "2"})
        admin = self._admin()  # its requests end when it goes
        admin.create_topics([new])[topic].result(PATIENCE_S)
        known_everywhere(self.bootstrap, topic)
        return topic

    def topics(self) -> set[str]:
        """Return the names of all topics."""
        return set(self._metadata().topics)

    def coordinator(self, kind: KeyType, key: str) -> int:
        """Return the broker that coordinates a group or a transactional id."""

        async def work() -> int:
            async def ask(coordinator: Coordinator, keys: Sequence[str]) -> Mapping[str, int]:
                return dict.fromkeys(keys, coordinator.node_id)

            async with AdminClient(parse_bootstrap(self.bootstrap)) as admin:
                return (await ask_each(admin, kind, [key], ask))[key]

        return asyncio.run(work())

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the broker that leads the partition."""
        look = lambda: self._metadata().topics[topic].partitions[partition].leader  # noqa: E731
        return until(look, lambda leader: leader in NODES)

    @contextmanager
    def killed(self, node: int) -> Iterator[None]:
        """SIGKILL a broker. The block begins when the others know. After it the broker is started
        again, and the block's end waits until it is in sync with everything.
        """
        self.target.kill(node)
        until(lambda: set(self._metadata().brokers), lambda brokers: brokers == NODES - {node})
        yield
        self.target.start(node)
        until(self._metadata, _is_whole)

    def kill_in_turn(
        self, victims: Sequence[Callable[[], int]], progress: Callable[[], int]
    ) -> None:
        """Kill brokers one after the other; `progress` rises before, while and after each is dead.

        Each function names its victim when its turn comes.
        """
        for victim in victims:
            await_more(progress)
            with self.killed(victim()):
                await_more(progress)
            await_more(progress)

    def stable_end(self, topic: str) -> int:
        """Return the sum of the last stable offsets of a topic's partitions.

        It rises with each transaction that ends. While leaders change it waits.
        """
        consumer = self._reader()

        def look() -> int | None:
            try:
                partitions = consumer.list_topics(topic, PATIENCE_S).topics[topic].partitions
                ends = [
                    consumer.get_watermark_offsets(TopicPartition(topic, partition), PATIENCE_S)
                    for partition in partitions
                ]
            except KafkaException:
                return None
            return sum(end for _, end in ends)

        try:
            found = until(look, lambda end: end is not None)
            assert found is not None
            return found
        finally:
            consumer.close()

    def committed(self, topic: str) -> list[Read]:
        """Return what a reader of committed records sees, each partition in its order."""
        consumer = self._reader()
        partitions = list(consumer.list_topics(topic, PATIENCE_S).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        found: list[Read] = []
        ended = set[int]()

        def poll() -> bool:
            for message in consumer.consume(500, 0.2):
                error, partition = message.error(), message.partition()
                if error is None:
                    key = message.key()
                    key = None if key is None else key.decode()
                    found.append(Read(partition, key, message.value().decode()))
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(partition)
            return len(ended) == len(partitions)

        try:
            until(poll, bool)
        finally:
            consumer.close()
        return found

    def committed_offset(self, group: str, topic: str) -> int:
        """Return the group's committed offset in partition 0."""
        admin = self._admin()
        wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
        found = admin.list_consumer_group_offsets([wanted])[group].result(PATIENCE_S)
        return int(found.topic_partitions[0].offset)

    def _reader(self) -> confluent_kafka.Consumer:
        return confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )

    def _admin(self) -> ConfluentAdmin:
        return ConfluentAdmin({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def _metadata(self) -> Any:
        return self._admin().list_topics(timeout=PATIENCE_S)


def _is_whole(metadata: Any) -> bool:
    partitions = [each for topic in metadata.topics.values() for each in topic.partitions.values()]
    return set(metadata.brokers) == NODES and all(
        set(each.isrs) == set(each.replicas) for each in partitions
    )


def await_more(progress: Callable[[], int]) -> None:
    """Wait until `progress` returns more than at first."""
    before = progress()
    until(progress, lambda now: now > before)


@contextmanager
def killable_cluster(store: Path, *options: str) -> Iterator[Killable]:
    """Three nodes that are broker and controller; afterwards nothing of them is left."""
    up = highwater("cluster", "up", "--detach", "--store", store, *options)
    assert up.returncode == 0, up.stderr
    run = stores.open_run(Path(facts(up.stdout)["run"]))
    try:
        with Journal.take_over(run.path / "journal.jsonl") as journal:
            target = kind_of(stored_plan(run.path)).attach(run.run_id, run.path, journal)
            system = BrokerSystem.attach(target, run)
            yield Killable(system.bootstrap, target)
            for node in system.layout.nodes:
                target.kill(node)
    finally:
        down = highwater("cluster", "down", run.path)
    assert down.returncode == 0, down.stderr
