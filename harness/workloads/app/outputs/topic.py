"""A topic, read at read_committed; each record is an element: its value, and its key without one.

Records of transactions that were aborted, or that are still open, are no output.
"""

import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from harness.workloads.app.elements import Place
from harness.workloads.app.outputs.base import FINAL_S, Elements
from harness.workloads.clients.access import Access
from harness.workloads.clients.librdkafka import COMMON, SOCKET_TIMEOUT_MS, consumer_config

CHUNK: Final = 5_000
POLL_S: Final = 0.1
MADE_S: Final = 30.0
"""How long the brokers may take to make the topic."""
GROUP: Final = "highwater-output"


class NoTopic(Exception):
    """The topic could not be made; the message says why."""


def make_topic(
    bootstrap: str, access: Access, topic: str, partitions: int, replication_factor: int
) -> int:
    """Make a topic, unless it exists; return how many partitions it has. Raises NoTopic."""
    settings = {**access.librdkafka(), **COMMON, "bootstrap.servers": bootstrap}
    admin = AdminClient(settings)
    in_sync = {"min.insync.replicas": str(max(1, replication_factor - 1))}
    wanted = NewTopic(topic, partitions, replication_factor, config=in_sync)
    deadline_s, why = time.monotonic() + MADE_S, "no answer"
    while time.monotonic() < deadline_s:
        try:
            admin.create_topics([wanted], operation_timeout=5, request_timeout=5)[topic].result()
        except KafkaException as error:
            why = str(error.args[0])
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                time.sleep(0.5)
                continue
        if found := _partitions(admin, topic):
            return found
        time.sleep(0.2)
    raise NoTopic(f"topic {topic} could not be made: {why}")


def _partitions(admin: AdminClient, topic: str) -> int:
    """Return how many partitions a topic has, once each has a leader; else 0."""
    try:
        found = admin.list_topics(topic, timeout=3).topics[topic].partitions
    except (KafkaException, KeyError):
        return 0
    return len(found) if all(each.leader >= 0 for each in found.values()) else 0


class TopicReader:
    """Reads all partitions of a topic from their beginning."""

    def __init__(
        self,
        bootstrap: str,
        access: Access,
        topic: str,
        partitions: int,
        take: Callable[[Message], None],
    ) -> None:
        """`take` gets every record."""
        settings = consumer_config(bootstrap=bootstrap, group=GROUP, access=access)
        self._take = take
        self._topic = topic
        self._next = dict.fromkeys(range(partitions), 0)
        self._consumer = Consumer(
            {
                **settings,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
            }
        )
        self._consumer.assign([TopicPartition(topic, p, 0) for p in self._next])

    def poll(self, seconds: float = POLL_S) -> bool:
        """Read what is there; return whether there was something."""
        some = False
        for message in self._consumer.consume(CHUNK, seconds):
            error, partition = message.error(), message.partition()
            if error is None:
                self._take(message)
                self._next[partition] = message.offset() + 1
                some = True
            elif error.code() == KafkaError._PARTITION_EOF:
                some = some or message.offset() > self._next[partition]
                self._next[partition] = max(self._next[partition], message.offset())
        return some

    def to_the_end(self, patience_s: float = FINAL_S) -> str | None:
        """Read to the present end of every partition; return what is missing, in words, or None."""
        deadline_s = time.monotonic() + patience_s
        ends: dict[int, int] = {}
        while time.monotonic() < deadline_s:
            for partition in self._next.keys() - ends.keys():
                if (end := self._end(partition)) is not None:
                    ends[partition] = end
            if self.poll():
                deadline_s = time.monotonic() + patience_s
            if len(ends) == len(self._next) and not self._behind(ends):
                return None
        behind = [*(self._next.keys() - ends.keys()), *self._behind(ends)]
        return f"partitions {sorted(set(behind))} of {self._topic} were not read to their end"

    def _behind(self, ends: dict[int, int]) -> list[int]:
        return [partition for partition, end in ends.items() if self._next[partition] < end]

    def _end(self, partition: int) -> int | None:
        where = TopicPartition(self._topic, partition)
        try:
            found = self._consumer.get_watermark_offsets(where, timeout=SOCKET_TIMEOUT_MS / 1000)
        except KafkaException:
            return None
        return None if found is None else int(found[1])

    def close(self) -> None:
        """End the consumer."""
        self._consumer.close()


class TopicOutput:
    """A topic as an output."""

    def __init__(
        self, bootstrap: str, access: Access, topic: str, partitions: int, elements: Elements
    ) -> None:
        self.elements = elements
        self.problem: str | None = None
        self.address = topic
        self._reader = TopicReader(bootstrap, access, topic, partitions, self._add)

    def _add(self, message: Message) -> None:
        text = message.value() if message.value() is not None else message.key()
        place = Place(message.partition(), message.offset())
        self.elements.add(place, (text or b"").decode(errors="replace"))

    def poll(self) -> None:
        """See `OutputReader`."""
        self._reader.poll()

    def finish(self) -> None:
        """See `OutputReader`."""
        self.problem = self._reader.to_the_end()

    def close(self) -> None:
        """See `OutputReader`."""
        self._reader.close()
