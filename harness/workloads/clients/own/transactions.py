"""A transactional producer for one topic: every call is one step, asked once.

It speaks the first version of the protocol (partitions are added before they are written, the epoch
stays) or the second one (KIP-890: the broker adds partitions, every transaction has its own epoch).
Steps raise Unavailable if no answer came: then the step may have been done, and the caller repeats
it. Fenced ends the producer.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode

from harness.workloads.clients.own.cluster import Cluster
from harness.workloads.clients.own.coordinator import TRANSACTION, Coordinator, Unavailable
from harness.workloads.clients.own.group_member import rows_of
from nodes.ids import TopicPartition
from nodes.log.batch import Record, encode_batch
from nodes.wire.errors import ChannelError

FENCED: Final = frozenset(
    {
        ErrorCode.invalid_producer_epoch,
        ErrorCode.producer_fenced,
        ErrorCode.invalid_producer_id_mapping,
        ErrorCode.transactional_id_authorization_failed,
    }
)
AGAIN: Final = frozenset(
    {
        ErrorCode.concurrent_transactions,
        ErrorCode.not_leader_or_follower,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.leader_not_available,
        ErrorCode.kafka_storage_error,
        ErrorCode.unstable_offset_commit,
    }
)
OLD_PRODUCE: Final = 11
OLD_END: Final = 4
OLD_OFFSET_COMMIT: Final = 4
"""The newest versions of the first protocol version."""
FEATURE: Final = "transaction.version"
SECOND_VERSION: Final = 2
SOFTWARE: Final = "highwater"
OFFSETS: Final = "offsets"
"""Stands for the offsets of a group among the partitions that a transaction has."""
UNKNOWN_EPOCH: Final = -1
REQUEST_S: Final = 2.0


_Place = tuple[str, int]
"""Topic and partition."""


class Fenced(Exception):
    """Another producer with this transactional id has taken over, or the transaction timed out."""


class Refused(Exception):
    """The step is refused for good; the transaction can only be aborted."""


@dataclass(slots=True)
class TransactionalProducer:
    """Writes to the partitions of the cluster's topic in transactions, and to the topics of
    `others`, which are views of the same cluster.

    `second`: speak the second version of the protocol; None: if the cluster has finalized it, which
    `init` asks.
    """

    cluster: Cluster
    transactional_id: str
    timeout_s: float
    second: bool | None
    others: Sequence[Cluster] = ()
    producer_id: int = -1
    epoch: int = UNKNOWN_EPOCH
    _added: dict[_Place | str, None] = field(default_factory=dict)
    _sequences: dict[_Place, int] = field(default_factory=dict)
    _coordinator: Coordinator = field(init=False)

    def __post_init__(self) -> None:
        self._coordinator = Coordinator(self.cluster, self.transactional_id, TRANSACTION)

    async def init(self) -> None:
        """Take over the transactional id: fence earlier producers, end their transaction."""
        if self.second is None:
            self.second = await self._finalized_version() >= SECOND_VERSION
        answer = await self._coordinator.ask(
            "init_producer_id",
            transactional_id=self.transactional_id,
            transaction_timeout=timedelta(seconds=self.timeout_s),
            producer_id=-1,
            producer_epoch=-1,
        )
        self._check(answer.error_code)
        self._begin(int(answer.producer_id), int(answer.producer_epoch))

    async def _finalized_version(self) -> int:
        """Return the cluster's finalized level of transaction.version; 0 if it has none."""
        answer = await self._coordinator.ask(
            "api_versions", client_software_name=SOFTWARE, client_software_version=SOFTWARE
        )
        levels = {str(each.name): int(each.max_version_level) for each in answer.finalized_features}
        return levels.get(FEATURE, 0)

    async def write(
        self,
        partition: int,
        values: Sequence[bytes | None],
        timestamp_ms: int,
        key: bytes | None = None,
        topic: str | None = None,
    ) -> int:
        """Append one batch to a partition of a topic (the cluster's, unless it is given); return
        its base offset. It may be repeated.

        A value of None deletes the key in a compacted topic.
        """
        cluster = next((each for each in self.others if each.topic == topic), self.cluster)
        if not self.second and (cluster.topic, partition) not in self._added:
            await self.add(partition, cluster.topic)
        batch = self._batch((cluster.topic, partition), values, timestamp_ms, key)
        node = self._leader(cluster, partition)
        answer = await self._produce(cluster, node, {partition: batch})
        row = answer.responses[0].partition_responses[0]
        return self._written(cluster, partition, len(values), answer, row)

    async def write_all(
        self, values: Mapping[int, Sequence[bytes]], timestamp_ms: int
    ) -> Mapping[int, Sequence[bytes]]:
        """Append one batch to each partition, with one request to each leader.

        Second version only. Return what was not written: the caller waits, and repeats it.
        """
        by_leader: dict[int, dict[int, bytes]] = {}
        for partition, given in values.items():
            if (leader := self.cluster.leader(partition)) is not None:
                batch = self._batch((self.cluster.topic, partition), given, timestamp_ms, None)
                by_leader.setdefault(leader.node, {})[partition] = batch
        asked = [self._produce(self.cluster, node, batches) for node, batches in by_leader.items()]
        rest = dict(values)
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(answer, Unavailable):
                continue
            if isinstance(answer, BaseException):
                raise answer
            for row in answer.responses[0].partition_responses:
                partition = int(row.index)
                with contextlib.suppress(Unavailable):
                    self._written(self.cluster, partition, len(values[partition]), answer, row)
                    del rest[partition]
        return rest

    def _batch(
        self,
        place: _Place,
        values: Sequence[bytes | None],
        timestamp_ms: int,
        key: bytes | None,
    ) -> bytes:
        return encode_batch(
            [Record(timestamp=timestamp_ms, key=key, value=value) for value in values],
            timestamp_ms=timestamp_ms,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self._sequences.get(place, 0),
            transactional=True,
        )

    async def add(self, partition: int, topic: str | None = None) -> None:
        """Make a partition of a topic (the cluster's, unless it is given) a part of the
        transaction. First version only; `write` does it, too.
        """
        topic = topic or self.cluster.topic
        topics = [{"name": topic, "partitions": [partition]}]
        answer = await self._coordinator.ask(
            "add_partitions_to_txn",
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=topics,
        )
        for result in answer.results_by_topic_v3_and_below:
            for row in result.results_by_partition:
                self._check(row.partition_error_code)
        self._added[topic, partition] = None

    @staticmethod
    def _leader(cluster: Cluster, partition: int) -> int:
        leader = cluster.leader(partition)
        if leader is None:
            raise Unavailable("LEADER_NOT_AVAILABLE")
        return leader.node

    async def _produce(self, cluster: Cluster, node: int, batches: Mapping[int, bytes]) -> Any:
        """Send the batches of these partitions to their leader; return its answer."""
        connection = cluster.connection(node)
        if connection is None:
            raise Unavailable("LEADER_NOT_AVAILABLE")
        rows = [{"index": partition, "records": batch} for partition, batch in batches.items()]
        try:
            return await connection.start(
                "produce",
                newest=None if self.second else OLD_PRODUCE,
                transactional_id=self.transactional_id,
                acks=-1,
                timeout=timedelta(seconds=REQUEST_S),
                topic_data=[{"name": cluster.topic, "partition_data": rows}],
            )
        except ChannelError as error:
            cluster.refresh()
            raise Unavailable(type(error).__name__) from error

    def _written(self, cluster: Cluster, partition: int, count: int, answer: Any, row: Any) -> int:
        """Take note of an answer to a batch of `count` records; return its base offset."""
        if row.error_code is not ErrorCode.none and not cluster.hint(partition, answer, row):
            cluster.refresh()
        self._check(row.error_code)
        place = cluster.topic, partition
        self._added[place] = None
        self._sequences[place] = self._sequences.get(place, 0) + count
        return int(row.base_offset)

    async def add_offsets(self, group: str) -> None:
        """Make the offsets of `group` a part of the transaction (first version only)."""
        if self.second:
            return
        answer = await self._coordinator.ask(
            "add_offsets_to_txn",
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group,
        )
        self._check(answer.error_code)

    async def commit_offsets(
        self,
        coordinator: Coordinator,
        group: str,
        offsets: Mapping[TopicPartition, int],
        **member: Any,
    ) -> None:
        """Commit offsets of `group` in the transaction.

        `coordinator` is the group's; `member` has generation_id, member_id and group_instance_id
        (KIP-447).
        """
        answer = await coordinator.ask(
            "txn_offset_commit",
            newest=None if self.second else OLD_OFFSET_COMMIT,
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=rows_of(offsets),
            **member,
        )
        for topic in answer.topics:
            for row in topic.partitions:
                coordinator.check(row.error_code)
                self._check(row.error_code)
        self._added[OFFSETS] = None

    async def end(self, *, commit: bool) -> None:
        """Commit or abort. It may be repeated with the same `commit`."""
        if not self._added:
            return
        answer = await self._coordinator.ask(
            "end_txn",
            newest=None if self.second else OLD_END,
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        self._check(answer.error_code)
        if self.second:
            self._begin(int(answer.producer_id), int(answer.producer_epoch))
        self._added = {}

    async def end_again(
        self, ended: tuple[int, int], *, commit: bool
    ) -> tuple[ErrorCode, tuple[int, int]]:
        """Send the end of an earlier transaction again; return what the coordinator says, and the
        identity (producer id and epoch) that it names for the producer's next transaction.

        `ended`: the identity in that transaction. Second version only.
        """
        answer = await self._coordinator.ask(
            "end_txn",
            transactional_id=self.transactional_id,
            producer_id=ended[0],
            producer_epoch=ended[1],
            committed=commit,
        )
        identity = int(answer.producer_id), int(answer.producer_epoch)
        return self._coordinator.check(answer.error_code), identity

    async def mark_again(self, partition: int, *, commit: bool) -> ErrorCode:
        """Send the marker of the transaction before this one to the leader of a partition again;
        return what the leader says.

        Second version only: the marker has the epoch of this transaction. As the tool that ends
        hanging transactions, ask the leader first who wrote the last marker.
        """
        topic = self.cluster.topic
        connection = self.cluster.connection(self._leader(self.cluster, partition))
        if connection is None:
            raise Unavailable("LEADER_NOT_AVAILABLE")
        asked = [{"name": topic, "partition_indexes": [partition]}]
        try:
            found = await connection.start("describe_producers", topics=asked)
            states = found.topics[0].partitions[0].active_producers
            epochs = [s.coordinator_epoch for s in states if s.producer_id == self.producer_id]
            marker = {
                "producer_id": self.producer_id,
                "producer_epoch": self.epoch,
                "transaction_result": commit,
                "topics": asked,
                "coordinator_epoch": max(epochs, default=-1),
                "transaction_version": SECOND_VERSION,
            }
            answer = await connection.start("write_txn_markers", markers=[marker])
        except ChannelError as error:
            raise Unavailable(type(error).__name__) from error
        code: ErrorCode = answer.markers[0].topics[0].partitions[0].error_code
        return code

    def _begin(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self._sequences = {}
        self.producer_id, self.epoch = producer_id, epoch
        self._added = {}

    def _check(self, code: ErrorCode) -> None:
        self._coordinator.check(code)
        if code in FENCED:
            raise Fenced(code.name.upper())
        if code in AGAIN:
            raise Unavailable(code.name.upper())
        if code is not ErrorCode.none:
            raise Refused(code.name.upper())
