"""Members of groups by foreign libraries, each in a thread of its own, as applications run them.

A member subscribes to a topic, polls until it is stopped, and says what it has. Without a committed
offset it begins at the beginning. It commits what it has read when it is closed.
"""

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import confluent_kafka
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from tests.support.clients import kafka_python as py

PATIENCE_S = 180.0
"""The bound of every wait: far above what a busy machine needs."""
SESSION_MS = 6_000
POLL_S = 0.1
FIRST_POLL_S = 5.0
"""How long kafka-python polls while it has no partitions. It rejoins when it learns the topic's
partitions. If a poll ends before that JoinGroup is answered, kafka-python 3.0.12 forgets to take
the answer: it has no partitions from then on, and sends no heartbeat."""


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Wait until something holds."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > end:
            members = "; ".join(each.described for each in list(GroupMember.running))
            raise AssertionError(f"it takes too long: {what}. Members: {members or 'none'}")
        time.sleep(0.02)


class GroupMember(ABC):
    """A member that polls in its thread. Its partitions, its records and its errors are seen here.

    A static member (with an instance id) does not leave its group when it is stopped.
    """

    library: ClassVar[str]
    strategies: ClassVar[tuple[str, ...]]
    running: ClassVar[set["GroupMember"]] = set()

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topic: str,
        *,
        strategy: str = "range",
        instance_id: str | None = None,
    ) -> None:
        self.bootstrap = bootstrap
        self.group = group
        self.topic = topic
        self.strategy = strategy
        self.instance_id = instance_id
        self.partitions: frozenset[int] = frozenset()
        self.rebalances = 0
        self.values: list[bytes] = []
        self.error: BaseException | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._guarded, name=f"{self.library} in {group}")
        self.running.add(self)
        self._thread.start()

    @property
    def described(self) -> str:
        """What it has, for the message of a test that fails."""
        return (
            f"{self.library} in {self.group} has {sorted(self.partitions)} after {self.rebalances} "
            f"calls of its listener and {len(self.values)} records, error {self.error!r}"
        )

    def stop(self) -> None:
        """Commit, and close; once. Raises what ended it earlier."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        self.running.discard(self)
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), f"{self.library} does not end"
        self.partitions = frozenset()
        if self.error is not None:
            raise self.error

    def _guarded(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self.error = error

    @abstractmethod
    def _run(self) -> None:
        """Poll until `_stopped`, then commit and close."""


class ConfluentMember(GroupMember):
    """librdkafka's."""

    library = "confluent-kafka"
    strategies = ("range", "roundrobin", "cooperative-sticky")

    def _run(self) -> None:
        static = {"group.instance.id": self.instance_id} if self.instance_id else {}
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "partition.assignment.strategy": self.strategy,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": 200,
                "log_level": 0,
                **static,
            }
        )
        consumer.subscribe([self.topic], on_assign=self._changed, on_revoke=self._changed)
        try:
            while not self._stopped.is_set():
                message = consumer.poll(POLL_S)
                self.partitions = frozenset(each.partition for each in consumer.assignment())
                if message is not None and message.error() is not None:
                    raise confluent_kafka.KafkaException(message.error())
                if message is not None:
                    self.values.append(message.value())
        finally:
            consumer.close()

    def _changed(self, _consumer: Any, _partitions: Any) -> None:
        self.rebalances += 1


class KafkaPythonMember(GroupMember):
    """kafka-python's."""

    library = "kafka-python"
    strategies = ("range", "roundrobin", "sticky", "cooperative-sticky")

    def _run(self) -> None:
        member = self

        class Listener(py.ConsumerRebalanceListener):
            """Counts rebalances."""

            def on_partitions_revoked(self, revoked: Any) -> None:
                """Some are gone."""
                member.rebalances += 1

            def on_partitions_assigned(self, assigned: Any) -> None:
                """Some are there."""
                member.rebalances += 1
                member.partitions = frozenset(each.partition for each in consumer.assignment())

        consumer = py.KafkaConsumer(
            bootstrap_servers=self.bootstrap.split(","),
            group_id=self.group,
            group_instance_id=self.instance_id,
            partition_assignment_strategy=[py.ASSIGNORS[self.strategy]],
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=200,
        )
        consumer.subscribe([self.topic], listener=Listener())
        try:
            while not self._stopped.is_set():
                poll_s = POLL_S if self.partitions else FIRST_POLL_S
                for records in consumer.poll(timeout_ms=1000 * poll_s).values():
                    self.values += [record.value for record in records]
                self.partitions = frozenset(each.partition for each in consumer.assignment())
        finally:
            consumer.close()


_AIO_ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class AiokafkaMember(GroupMember):
    """aiokafka's."""

    library = "aiokafka"
    strategies = ("range", "roundrobin", "sticky")

    def _run(self) -> None:
        asyncio.run(self._poll())

    async def _poll(self) -> None:
        member = self

        class Listener(ConsumerRebalanceListener):
            """Counts rebalances."""

            def on_partitions_revoked(self, revoked: Any) -> None:
                """Some are gone."""
                member.rebalances += 1

            def on_partitions_assigned(self, assigned: Any) -> None:
                """Some are there."""
                member.rebalances += 1

        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            group_instance_id=self.instance_id,
            partition_assignment_strategy=(_AIO_ASSIGNORS[self.strategy],),
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=200,
        )
        consumer.subscribe([self.topic], listener=Listener())
        await consumer.start()
        try:
            while not self._stopped.is_set():
                for records in (await consumer.getmany(timeout_ms=round(1000 * POLL_S))).values():
                    self.values += [record.value for record in records]
                self.partitions = frozenset(each.partition for each in consumer.assignment())
        finally:
            await consumer.stop()


MEMBERS: tuple[type[GroupMember], ...] = (ConfluentMember, KafkaPythonMember, AiokafkaMember)
