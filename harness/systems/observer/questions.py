"""What the monitor asks only while somebody wants to know.

Eligible leader replicas, ends of logs, ongoing reassignments: each costs a request, and most runs
never wait for any. Wanting to know is asking: the first time, nobody knows; from the next round of
requests on there is an answer, no older than FRESH_S, for as long as somebody keeps asking. Asked
from any thread, answered in the monitor's.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v7.request import ListOffsetsRequest
from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest

from nodes.ids import TopicPartition
from nodes.wire.client import Channel
from nodes.wire.errors import WireError
from nodes.wire.versions import fill

FRESH_S: Final = 1.0
"""How old an answer may be, and how long a question goes on being asked."""
LATEST: Final = -1
CLIENT: Final = -1
DEBUGGING: Final = -2
"""A replica number that is told the log's end, which clients are not."""


@dataclass(frozen=True, slots=True)
class Eligible:
    """Who may be elected although out of sync?"""

    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class Ends:
    """What are the high watermark and the end of the log?"""

    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class Reassigning:
    """Are replicas being moved?"""


Question = Eligible | Ends | Reassigning


class Questions:
    """The open questions and their answers.

    `channels` are the connections to the brokers; `leader` names a partition's leader and its
    epoch, None when nobody knows; `now_s` is a monotonic clock.
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
        self._wanted: dict[Question, float] = {}
        self._answers: dict[Question, tuple[float, Any]] = {}

    def answer(self, question: Question) -> Any:
        """The answer if there is a fresh one, else None; and let it be asked."""
        now_s = self._now_s()
        self._wanted[question] = now_s
        at_s, found = self._answers.get(question, (0.0, None))
        return found if now_s - at_s <= FRESH_S else None

    async def ask(self) -> None:
        """Ask what is wanted, once; who does not answer is asked again in the next round."""
        now_s = self._now_s()
        stale = [each for each, at_s in list(self._wanted.items()) if now_s - at_s > FRESH_S]
        for question in stale:
            del self._wanted[question]
            self._answers.pop(question, None)
        questions = list(self._wanted)
        found = await asyncio.gather(*map(self._ask, questions), return_exceptions=True)
        for question, answer in zip(questions, found, strict=True):
            if isinstance(answer, BaseException):
                if not isinstance(answer, WireError):
                    raise answer
            elif answer is not None:
                # As old as the request: what happened since may not be in the answer.
                self._answers[question] = (now_s, answer)

    async def _ask(self, question: Question) -> Any:
        match question:
            case Eligible(partition):
                return await self._eligible(partition)
            case Ends(partition):
                return await self._ends(partition)
            case Reassigning():
                return await self._reassigning()

    async def _eligible(self, partition: TopicPartition) -> tuple[int, ...] | None:
        """By the word of the leader; without one by that of whoever answers first."""
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
        # In one go, the high watermark first: so it is never beyond the end.
        found = await asyncio.gather(
            *(channel.request(_end(partition, leader[1], who)) for who in (CLIENT, DEBUGGING))
        )
        [high_watermark, end] = [answer.topics[0].partitions[0] for answer in found]
        if any(each.error_code is not ErrorCode.none for each in (high_watermark, end)):
            return None
        return int(high_watermark.offset), int(end.offset)

    async def _reassigning(self) -> bool | None:
        request = fill(ListPartitionReassignmentsRequest, timeout=timedelta(seconds=1), topics=None)
        answer = await self._any(request)
        return None if answer is None else bool(answer.topics)

    async def _any(self, request: Any, first: int | None = None) -> Any:
        """The answer of `first`, if given, or else of any broker that answers without error."""
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
