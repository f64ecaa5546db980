"""Queries that the monitor sends only while somebody needs the answer.

They ask for eligible leader replicas, ends of logs, ongoing reassignments and coordinators. Each
costs a request, and most runs need none of them. The first call of `answer` returns None and starts
the query. After the next round of requests `answer` returns an answer, no older than FRESH_S, as
long as it is called again and again. Any thread may call it; the monitor's thread sends the
requests.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.list_offsets.v7.request import ListOffsetsRequest
from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest

from nodes.ids import TopicPartition
from nodes.wire.client import Channel
from nodes.wire.errors import WireError
from nodes.wire.versions import fill

FRESH_S: Final = 1.0
"""How old an answer may be, and how long a query goes on after the last call."""
LATEST: Final = -1
CLIENT: Final = -1
DEBUGGING: Final = -2
"""With this replica id a broker answers with the log end offset, which clients do not get."""


@dataclass(frozen=True, slots=True)
class EligibleReplicas:
    """The partition's eligible leader replicas (KIP-966)."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class LogEnds:
    """The partition's high watermark and log end offset."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class OngoingReassignments:
    """Whether replicas are being moved."""


@dataclass(frozen=True, slots=True)
class CoordinatorOf:
    """The coordinator of a group (kind `group`) or of a transactional id (`transaction`).

    As for a client that asks, a broker then creates the internal topic if it does not exist.
    """

    kind: str
    key: str


KEY_TYPES: Final[Mapping[str, int]] = {"group": 0, "transaction": 1}
"""The key types of FindCoordinator."""

Query = EligibleReplicas | LogEnds | OngoingReassignments | CoordinatorOf


class OnDemandQueries:
    """The queries in progress and their answers.

    `channels` are the connections to the brokers. `leader` returns a partition's leader and its
    epoch; None when they are unknown. `now_s` is a monotonic clock.
    """

    def __init__(
        self,
        channels: Mapping[int, Channel],
        leader: Callable[[TopicPartition], tuple[int, int] | None],
        now_s: Callable[[], float],
    ) -> None:
        self._channels = channels
        self._leader = leader
        self._now_s = now_s
        self._wanted: dict[Query, float] = {}
        self._answers: dict[Query, tuple[float, Any]] = {}

    def answer(self, query: Query) -> Any:
        """Return the answer if there is a fresh one, else None; keep the query going."""
        now_s = self._now_s()
        self._wanted[query] = now_s
        at_s, found = self._answers.get(query, (0.0, None))
        return found if now_s - at_s <= FRESH_S else None

    async def send(self) -> None:
        """Send every current query once; the next round repeats those without an answer."""
        now_s = self._now_s()
        stale = [each for each, at_s in list(self._wanted.items()) if now_s - at_s > FRESH_S]
        for query in stale:
            del self._wanted[query]
            self._answers.pop(query, None)
        queries = list(self._wanted)
        found = await asyncio.gather(*map(self._ask, queries), return_exceptions=True)
        for query, answer in zip(queries, found, strict=True):
            if isinstance(answer, BaseException):
                if not isinstance(answer, WireError):
                    raise answer
            elif answer is not None:
                # The answer is as old as the request: later changes may not be in it.
                self._answers[query] = (now_s, answer)

    async def _ask(self, query: Query) -> Any:
        match query:
            case EligibleReplicas(partition):
                return await self._eligible(partition)
            case LogEnds(partition):
                return await self._ends(partition)
            case OngoingReassignments():
                return await self._reassigning()
            case CoordinatorOf(kind, key):
                return await self._coordinator(kind, key)

    async def _eligible(self, partition: TopicPartition) -> tuple[int, ...] | None:
        """Ask the leader; without a leader, ask the brokers in turn until one answers."""
        leader = self._leader(partition)
        request = fill(
            DescribeTopicPartitionsRequest,
            topics=[{"name": partition.topic}],
            response_partition_limit=2000,
        )
        answer = await self._any(request, None if leader is None else leader[0])
        for topic in answer.topics if answer is not None else ():
            for found in topic.partitions:
                if int(found.partition_index) == partition.partition:
                    return tuple(int(node) for node in found.eligible_leader_replicas or ())
        return None

    async def _ends(self, partition: TopicPartition) -> tuple[int, int] | None:
        leader = self._leader(partition)
        if leader is None or leader[0] not in self._channels:
            return None
        channel = self._channels[leader[0]]
        # Both requests at once, the high watermark first, so that it is never beyond the end.
        found = await asyncio.gather(
            *(channel.request(_end(partition, leader[1], each)) for each in (CLIENT, DEBUGGING))
        )
        [high_watermark, end] = [answer.topics[0].partitions[0] for answer in found]
        if any(each.error_code is not ErrorCode.none for each in (high_watermark, end)):
            return None
        return int(high_watermark.offset), int(end.offset)

    async def _reassigning(self) -> bool | None:
        request = fill(ListPartitionReassignmentsRequest, timeout=timedelta(seconds=1), topics=None)
        answer = await self._any(request)
        return None if answer is None else bool(answer.topics)

    async def _coordinator(self, kind: str, key: str) -> int | None:
        request = fill(FindCoordinatorRequest, key_type=KEY_TYPES[kind], coordinator_keys=(key,))
        answer = await self._any(request)
        for found in answer.coordinators if answer is not None else ():
            if found.error_code is ErrorCode.none:
                return int(found.node_id)
        return None

    async def _any(self, request: Any, first: int | None = None) -> Any:
        """Return the first answer without an error; ask the broker `first` before all others."""
        for node in sorted(self._channels, key=lambda node: (node != first, node)):
            channel = self._channels.get(node)
            if channel is None:
                continue
            try:
                answer = await channel.request(request)
            except WireError:
                continue
            if getattr(answer, "error_code", ErrorCode.none) is ErrorCode.none:
                return answer
        return None


def _end(partition: TopicPartition, leader_epoch: int, replica_id: int) -> Any:
    asked = {
        "partition_index": partition.partition,
        "current_leader_epoch": leader_epoch,
        "timestamp": LATEST,
    }
    return fill(
        ListOffsetsRequest,
        replica_id=replica_id,
        topics=[{"name": partition.topic, "partitions": [asked]}],
    )
