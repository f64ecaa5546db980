"""Clients of coordinators, which note what they are promised: for lives of a broker.

They commit offsets as members of a classic group and of a KIP-848 group, also in transactions,
and delete what they committed. A broker that starts again gets new clients, which go on with what
those before them were told (`Told`).
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, TypeVar

from kio.schema.errors import ErrorCode

from harness.admin import topics
from harness.admin.client import AdminClient
from harness.workloads.clients.own.classic_member import ClassicMember
from harness.workloads.clients.own.cluster import Cluster, Timing
from harness.workloads.clients.own.consumer_member import ConsumerMember
from harness.workloads.clients.own.coordinator import GROUP, Coordinator, Unavailable
from harness.workloads.clients.own.group_member import GroupSettings
from harness.workloads.clients.own.transactions import Fenced, TransactionalProducer
from harness.zoo.schedules.load import in_service
from nodes.ids import TopicPartition
from nodes.metadata.records import TRANSACTION_VERSION_FEATURE
from tests.support.nodes.coordinator_promises import NOTHING, Promises
from tests.support.nodes.simulated_broker import NODE, SimulatedBroker

R = TypeVar("R")

TOPIC: Final = "t"
PARTITIONS: Final = 2
ALL: Final = frozenset(TopicPartition(TOPIC, each) for each in range(PARTITIONS))
CLASSIC, CONSUMER, PLAIN, GONE, EXPIRED = "classic", "consumer", "plain", "gone", "expired"
"""The groups."""
GROUPS: Final = (CLASSIC, CONSUMER, PLAIN, GONE, EXPIRED)
WITH_MEMBERS: Final = (CLASSIC, CONSUMER)
FIRST, SECOND, OLD = "first", "second", "old"
"""The transactional ids; the last one speaks the first version of the protocol."""
RETENTION_MS: Final = 200
OLDEST_WITH_RETENTION: Final = 4
UPGRADE, DOWNGRADE = 1, 2
"""The types of an update of a feature."""
RETRY_S: Final = 0.02


@dataclass
class Told:
    """What the clients of all brokers so far were told."""

    promises: Promises = field(default_factory=Promises)
    classic: tuple[str, int] | None = None
    """The member id and generation of the member of the classic group; None while they change."""
    consumer: int | None = None
    """The member epoch of the member of the KIP-848 group; None while it changes."""
    levels: list[int] = field(default_factory=lambda: [2])
    """The levels that transaction.version may have."""
    last_offset: int = 0

    def next_offset(self) -> int:
        """The next offset to commit: no two are equal."""
        self.last_offset += 1
        return self.last_offset


class Clients:
    """The clients of one broker; make them inside its world."""

    def __init__(self, told: Told, broker: SimulatedBroker) -> None:
        self.told = told
        self.promises = told.promises
        self.broker = broker
        addresses = list(broker.cluster.brokers.values())
        self.cluster = Cluster(
            addresses,
            TOPIC,
            client_id="life",
            rng=broker.world.stream("clients"),
            timing=Timing(metadata_age_s=60.0),
        )
        self.admin = AdminClient(addresses)
        self.groups = {group: Coordinator(self.cluster, group, GROUP) for group in GROUPS}
        self.producers: dict[str, TransactionalProducer] = {}
        self.classic = ClassicMember(self.cluster, _member_of(CLASSIC, instance_id="one"))
        self.consumer: ConsumerMember | None = None

    async def prepare(self) -> None:
        await in_service(self.admin, 1)
        await topics.create(
            self.admin, TOPIC, partitions=PARTITIONS, replication_factor=1, exist_ok=True
        )
        await self.until(self._knows_topic)
        assert self.cluster.topic_id is not None
        settings = _member_of(CONSUMER)
        self.consumer = ConsumerMember(self.cluster, settings, {self.cluster.topic_id: TOPIC})
        self.consumer.member_id = "two"

    async def _knows_topic(self) -> None:
        leaders = [self.cluster.leader(partition) for partition in range(PARTITIONS)]
        if None in leaders or self.cluster.connection(NODE) is None:
            raise Unavailable("LEADER_NOT_AVAILABLE")

    async def until(self, step: Callable[[], Awaitable[R]]) -> R:
        """Repeat a step until it is answered."""
        while True:
            try:
                return await step()
            except Unavailable:
                await asyncio.sleep(RETRY_S)

    # -- groups

    def membership(self, group: str) -> dict[str, Any]:
        """Who commits, as fields of OffsetCommit."""
        if group == CLASSIC and self.told.classic is not None:
            member_id, generation = self.told.classic
            who: tuple[str, int, str | None] = (member_id, generation, "one")
        elif group == CONSUMER and self.told.consumer is not None:
            who = ("two", self.told.consumer, None)
        else:
            who = ("", -1, None)
        return {"member_id": who[0], "generation": who[1], "group_instance_id": who[2]}

    async def join_classic(self) -> None:
        self.told.classic = None
        while await self.until(self.classic.join) is not ErrorCode.none:
            pass
        assert self.classic.owned == ALL
        self.told.classic = (self.classic.member_id, self.classic.generation)

    async def leave_classic(self) -> None:
        self.told.classic = None
        assert await self.until(self.classic.leave) is ErrorCode.none

    async def join_consumer(self) -> None:
        self.told.consumer = None
        assert self.consumer is not None
        assert await self.until(self.consumer.join) is ErrorCode.none
        assert self.consumer.owned == ALL
        self.told.consumer = self.consumer.epoch

    async def leave_consumer(self) -> None:
        self.told.consumer = None
        assert self.consumer is not None
        assert await self.until(self.consumer.leave) is ErrorCode.none

    async def commit(self, group: str, *partitions: int, **more: Any) -> None:
        """Commit the next offsets of these partitions."""
        offsets = {partition: self.told.next_offset() for partition in partitions}
        self.promises.may_be(group, offsets)
        member = self.membership(group)
        epoch = member.pop("generation")

        async def ask() -> None:
            answer = await self.groups[group].ask(
                "offset_commit",
                group_id=group,
                generation_id_or_member_epoch=epoch,
                topics=[{"name": TOPIC, "partitions": _rows(offsets)}],
                **member,
                **more,
            )
            for row in answer.topics[0].partitions:
                code = self.groups[group].check(row.error_code)
                assert code is ErrorCode.none, code

        await self.until(ask)
        self.promises.must_be(group, offsets)

    async def commit_with_retention(self) -> None:
        """Commit an offset that expires soon, perhaps before the answer is there."""
        self.promises.expiring.add((EXPIRED, 0))
        retention = timedelta(milliseconds=RETENTION_MS)
        await self.commit(EXPIRED, 0, newest=OLDEST_WITH_RETENTION, retention_time=retention)

    async def expire(self) -> None:
        """Wait until the offset has expired. Then it stays away."""

        async def gone() -> None:
            if await self.committed(EXPIRED):
                raise Unavailable("NOT_YET")

        await self.until(gone)
        self.promises.must_be(EXPIRED, {0: NOTHING})

    async def committed(self, group: str) -> dict[int, int]:
        """All stable offsets of a group, by partition."""

        async def ask() -> dict[int, int]:
            answer = await self.groups[group].ask(
                "offset_fetch", group_id=group, topics=None, require_stable=True
            )
            codes = [row.error_code for topic in answer.topics for row in topic.partitions]
            for code in (answer.error_code, *codes):
                if self.groups[group].check(code) is ErrorCode.unstable_offset_commit:
                    raise Unavailable("UNSTABLE_OFFSET_COMMIT")
                assert code is ErrorCode.none, code
            assert all(topic.name == TOPIC for topic in answer.topics)
            return {
                int(row.partition_index): int(row.committed_offset)
                for topic in answer.topics
                for row in topic.partitions
            }

        return await self.until(ask)

    async def delete_offset(self, group: str, partition: int) -> None:
        self.promises.may_be(group, {partition: NOTHING})
        rows = [{"name": TOPIC, "partitions": [{"partition_index": partition}]}]
        answer = await self.admin.request("offset_delete", group_id=group, topics=rows)
        assert answer.error_code is ErrorCode.none
        assert answer.topics[0].partitions[0].error_code is ErrorCode.none
        self.promises.must_be(group, {partition: NOTHING})

    async def delete_group(self, group: str) -> None:
        nothing = dict.fromkeys(range(PARTITIONS), NOTHING)
        self.promises.may_be(group, nothing)
        answer = await self.admin.request("delete_groups", groups_names=[group])
        assert answer.results[0].error_code is ErrorCode.none
        self.promises.must_be(group, nothing)

    async def set_transaction_version(self, level: int) -> None:
        update = {
            "feature": TRANSACTION_VERSION_FEATURE,
            "max_version_level": level,
            "upgrade_type": DOWNGRADE if level == 1 else UPGRADE,
        }
        self.told.levels.append(level)
        answer = await self.admin.request("update_features", at_least=1, feature_updates=[update])
        assert answer.error_code is ErrorCode.none
        self.told.levels = [level]

    # -- transactions

    async def init(self, name: str) -> TransactionalProducer:
        """A new producer; an open transaction of the id is aborted."""
        producer = TransactionalProducer(self.cluster, name, 60.0, second=name != OLD)
        await self.until(producer.init)
        self.producers[name] = producer
        return producer

    async def transact(self, name: str, group: str, *, commit: bool) -> None:
        """Write to both partitions and commit offsets of `group`, in one transaction."""
        producer = self.producers[name]
        transaction = self.promises.begin(name)
        await self._write(producer, transaction.number, transaction.partitions)
        offsets = {0: self.told.next_offset(), 1: self.told.next_offset()}
        self.promises.stage(name, group, offsets)
        member = self.membership(group)
        member["generation_id"] = member.pop("generation")
        await self.until(lambda: producer.add_offsets(group))
        places = {TopicPartition(TOPIC, each): offset for each, offset in offsets.items()}
        await self.until(
            lambda: producer.commit_offsets(self.groups[group], group, places, **member)
        )
        self.promises.deciding(name, commit=commit)
        await self.until(lambda: producer.end(commit=commit))
        self.promises.decided(name, commit=commit)

    async def _write(
        self, producer: TransactionalProducer, number: int, partitions: list[int]
    ) -> None:
        for partition in range(PARTITIONS):
            partitions.append(partition)
            value = [b"%d" % number]
            await self.until(lambda at=partition, value=value: producer.write(at, value, number))  # type: ignore[misc]

    async def be_fenced(self, name: str) -> None:
        """Another producer takes over in the middle of a transaction."""
        producer = await self.init(name)
        transaction = self.promises.begin(name)
        await self._write(producer, transaction.number, transaction.partitions)
        await self.init(name)
        try:
            await self.until(lambda: producer.end(commit=True))
        except Fenced:
            self.promises.decided(name, commit=False)
        else:
            raise AssertionError("the first producer is not fenced")


def _member_of(group: str, *, instance_id: str | None = None) -> GroupSettings:
    return GroupSettings(
        group=group,
        partitions={TOPIC: PARTITIONS},
        session_s=600.0,
        rebalance_s=60.0,
        instance_id=instance_id,
    )


def _rows(offsets: dict[int, int]) -> list[dict[str, Any]]:
    return [
        {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
        for partition, offset in offsets.items()
    ]
