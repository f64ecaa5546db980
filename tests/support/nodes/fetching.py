"""The fetch handler of one broker with replicas made by hand: no sockets, no cluster, any clock.

The broker is node 1. Topics are named t0, t1, ...; all have partition 0 with the replicas 1, 2, 3.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, cast
from uuid import UUID

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from nodes.ids import BrokerEpoch, Epoch, NodeId, Offset, TopicPartition
from nodes.log.batch import Record, encode_batch
from nodes.log.log import Log, LogConfig
from nodes.metadata.broker import BrokerImage
from nodes.metadata.image import ClusterImage, ConfigResource
from nodes.metadata.records import BROKER_RESOURCE, TOPIC_RESOURCE, BrokerEndpoint
from nodes.replication.partition import PartitionRegistration, PartitionState
from nodes.server.replicas.replica import Replica
from nodes.server.requests.fetch.fetch import FetchHandler
from nodes.server.requests.fetch.partitions import FetchPartition, FetchPartitionSet
from nodes.server.requests.fetch.read import FetchParams, FetchPartitionData, PartitionReader
from nodes.server.requests.fetch.replica_selector import ReplicaSelector
from nodes.server.requests.fetch.sessions import FetchSessionCache
from nodes.storage.memory import MemoryDisk
from nodes.wire.budget import ByteBudget
from nodes.wire.server import RequestContext
from nodes.wire.versions import fill

LEADER, FOLLOWER, OTHER = NodeId(1), NodeId(2), NodeId(3)
CONSUMER = NodeId(-1)
EPOCH = Epoch(5)
BATCH = encode_batch([Record(value=b"news")], timestamp_ms=1)
SOMEBODY = RequestContext(listener="PLAINTEXT", peer_host="127.0.0.1", client_id=None)


def topic_id(number: int) -> UUID:
    """The id of topic t<number>."""
    return UUID(int=number + 1)


@dataclass(slots=True)
class Hosted:
    """The part of a ReplicaManager that the handler uses."""

    image: ClusterImage = field(default_factory=ClusterImage)
    replicas: dict[TopicPartition, Replica] = field(default_factory=dict)
    names: dict[UUID, str] = field(default_factory=dict)
    truncations: int = 0
    verifies_transactions: bool = True

    def find(self, partition: TopicPartition) -> Replica | None:
        return self.replicas.get(partition)

    def topic_name(self, topic: UUID | None) -> str | None:
        return None if topic is None else self.names.get(topic)

    def after_truncation(self) -> None:
        self.truncations += 1

    def missing_replica_error(self, partition: TopicPartition) -> ErrorCode:
        return ErrorCode.unknown_topic_or_partition


class NoIsr:
    """Never expands an ISR."""

    def maybe_expand_isr(self, replica: Replica, follower: NodeId) -> None:
        pass


class CountingReader(PartitionReader):
    """Counts the reads of partitions."""

    reads = 0

    def read(
        self,
        partition: FetchPartition,
        params: FetchParams,
        left: int,
        now_ms: float,
        *,
        first: bool,
    ) -> FetchPartitionData:
        self.reads += 1
        return super().read(partition, params, left, now_ms, first=first)


class FetchBroker:
    """Broker `local` with `count` topics, led by 1, all replicas in sync; its clock is `now_ms`."""

    def __init__(
        self, count: int, *, local: NodeId = LEADER, slots: int = 10, rack_aware: bool = False
    ) -> None:
        self.now_ms = 0.0
        self.clock: Callable[[], float] = lambda: self.now_ms
        self.hosted = Hosted()
        self.disk = disk = MemoryDisk()
        for number in range(count):
            log = Log.open(disk, f"t{number}-0", LogConfig(), clean=True)
            state = PartitionState(local, Offset(0))
            partition = TopicPartition(f"t{number}", 0)
            replica = Replica(partition, topic_id(number), log, state)
            self.hosted.replicas[partition] = replica
            self.hosted.names[topic_id(number)] = partition.topic
            self.assign(number)
        self.sessions = FetchSessionCache[FetchPartitionSet](slots, 100)
        self.reader = CountingReader(
            cast(Any, self.hosted), ReplicaSelector() if rack_aware else None
        )
        self.response_budget = ByteBudget("responses", 256 << 20, largest_first=False)
        self.handler = FetchHandler(
            self.reader,
            cast(Any, NoIsr()),
            self.sessions,
            lambda: self.clock(),
            max_bytes=55 << 20,
            response_budget=self.response_budget,
        )

    def racks(self, **fenced: bool) -> None:
        """The brokers are in the racks r1, r2, r3; `n2=True`: broker 2 is fenced."""
        brokers = {
            node: BrokerImage(
                node_id=node,
                epoch=BrokerEpoch(7),
                incarnation_id=None,
                endpoints=(BrokerEndpoint(name="PLAINTEXT", host=f"h{node}", port=9092),),
                rack=f"r{node}",
                fenced=fenced.get(f"n{node}", False),
            )
            for node in (LEADER, FOLLOWER, OTHER)
        }
        self.hosted.image = ClusterImage(brokers=brokers)

    def configure(self, topic: str, broker: dict[str, str], values: dict[str, str]) -> None:
        """Dynamic configuration of this cluster's brokers, and of one topic."""
        configs = {
            ConfigResource(BROKER_RESOURCE, ""): broker,
            ConfigResource(TOPIC_RESOURCE, topic): values,
        }
        self.hosted.image = replace(self.hosted.image, configs=configs)

    def replica(self, number: int) -> Replica:
        return self.hosted.replicas[TopicPartition(f"t{number}", 0)]

    def assign(
        self,
        number: int,
        *,
        leader: NodeId = LEADER,
        epoch: int = EPOCH,
        isr: tuple[int, ...] = (1, 2, 3),
        change: int = 1,
    ) -> None:
        assignment = PartitionRegistration(
            replicas=(LEADER, FOLLOWER, OTHER),
            isr=tuple(map(NodeId, isr)),
            leader=leader,
            leader_epoch=Epoch(epoch),
            partition_epoch=self.replica(number).state.partition_epoch + change,
        )
        self.replica(number).apply(assignment, 1, self.now_ms)

    def commit(self, number: int) -> None:
        """All followers fetch at the log's end."""
        replica = self.replica(number)
        for node in (FOLLOWER, OTHER):
            replica.record_fetch(node, replica.log.end_offset, BrokerEpoch(7), self.now_ms)

    def request(
        self,
        wanted: dict[int, int],
        *,
        node: NodeId = CONSUMER,
        version: int = 17,
        session: tuple[int, int] = (0, -1),
        forgotten: tuple[int, ...] = (),
        max_wait_ms: int = 0,
        part: dict[str, Any] | None = None,
        part_of: Callable[[int], dict[str, Any]] = lambda number: {},
        **values: Any,
    ) -> Any:
        """A Fetch of `wanted` (topic number -> offset); `part` and `part_of` refine its parts."""
        by_id = version >= 13
        key = "topic_id" if by_id else "topic"
        name = topic_id if by_id else lambda number: f"t{number}"
        fields: dict[str, Any] = {
            "replica_id": node,
            "replica_state": {"replica_id": node, "replica_epoch": 7 if node >= 0 else -1},
            "max_wait": timedelta(milliseconds=max_wait_ms),
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "session_id": session[0],
            "session_epoch": session[1],
            "topics": [
                {
                    key: name(number),
                    "partitions": [
                        {
                            "partition": 0,
                            "fetch_offset": offset,
                            "partition_max_bytes": 1 << 20,
                            "current_leader_epoch": EPOCH,
                            **(part or {}),
                            **part_of(number),
                        }
                    ],
                }
                for number, offset in wanted.items()
            ],
            "forgotten_topics_data": [
                {key: name(number), "partitions": [0]} for number in forgotten
            ],
        }
        return fill(load_request_schema(1, version), **{**fields, **values})

    def answer(self, request: Any) -> Any:
        """The response to a request that may not wait."""
        return self.handler.handle(request, SOMEBODY)

    def start(self, wanted: dict[int, int], **values: Any) -> Any:
        """The response, or the awaitable of one that has to wait."""
        return self.handler.handle(self.request(wanted, **values), SOMEBODY)

    async def fetch(self, wanted: dict[int, int], **values: Any) -> Any:
        """The response."""
        answer = self.start(wanted, **values)
        return await answer if inspect.isawaitable(answer) else answer


def numbers(response: Any) -> list[int]:
    """The topics that a response (v13 on) names, in its order."""
    return [topic.topic_id.int - 1 for topic in response.responses]


def only(response: Any) -> Any:
    """The single partition of a response."""
    (topic,) = response.responses
    (part,) = topic.partitions
    return part
