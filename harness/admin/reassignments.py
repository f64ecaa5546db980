"""Requests that move replicas between brokers (KIP-455) and elect leaders (KIP-460)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final

from kio.schema.errors import ErrorCode

from harness.admin.client import CONTROLLER, AdminClient
from harness.admin.codes import TRANSIENT, check
from harness.admin.descriptions import Reassignment
from harness.admin.errors import TransientError
from nodes.ids import TopicPartition

PREFERRED: Final = 0
UNCLEAN: Final = 1

MAX_PARTITIONS: Final = 800
"""The most partitions in one request; brokers limit its size."""

PartitionError = tuple[ErrorCode, str | None]
"""Kafka's error code for one partition, and its message."""


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partition numbers of each topic, both ascending."""
    grouped: dict[str, list[int]] = defaultdict(list)
    for each in sorted(partitions):
        grouped[each.topic].append(each.partition)
    return grouped


async def ongoing(
    admin: AdminClient, partitions: Sequence[TopicPartition] | None = None
) -> dict[TopicPartition, Reassignment]:
    """Return the reassignments in progress, of these partitions or of all."""

    async def attempt() -> dict[TopicPartition, Reassignment]:
        asked = None
        if partitions is not None:
            asked = [
                {"name": topic, "partition_indexes": numbers}
                for topic, numbers in by_topic(partitions).items()
            ]
        answer = await admin.request(
            "list_partition_reassignments",
            to=CONTROLLER,
            topics=asked,
            timeout=admin.request_timeout,
        )
        check(answer.error_code, "", answer.error_message)
        return {
            TopicPartition(str(topic.name), int(each.partition_index)): Reassignment(
                replicas=tuple(map(int, each.replicas)),
                adding=tuple(map(int, each.adding_replicas)),
                removing=tuple(map(int, each.removing_replicas)),
            )
            for topic in answer.topics
            for each in topic.partitions
        }

    return dict(sorted((await admin.repeat(attempt)).items()))


async def alter(
    admin: AdminClient, targets: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, PartitionError]:
    """Start to move partitions to these replicas, preferred leader first; None cancels a move.

    Returns the errors of refused partitions; the other moves have started. A repeated request
    changes nothing. Large requests are split.
    """
    refused: dict[TopicPartition, PartitionError] = {}
    for some in _parts(list(targets)):
        refused |= await _alter(admin, {partition: targets[partition] for partition in some})
    return dict(sorted(refused.items()))


def _parts(partitions: Sequence[TopicPartition]) -> list[Sequence[TopicPartition]]:
    """Return the partitions in pieces of at most MAX_PARTITIONS."""
    starts = range(0, len(partitions), MAX_PARTITIONS)
    return [partitions[at : at + MAX_PARTITIONS] for at in starts]


async def _alter(
    admin: AdminClient, targets: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, PartitionError]:
    async def attempt() -> dict[TopicPartition, PartitionError]:
        answer = await admin.request(
            "alter_partition_reassignments",
            to=CONTROLLER,
            topics=[
                {
                    "name": topic,
                    "partitions": [
                        {
                            "partition_index": number,
                            "replicas": targets[TopicPartition(topic, number)],
                        }
                        for number in numbers
                    ],
                }
                for topic, numbers in by_topic(targets).items()
            ],
            timeout=admin.request_timeout,
        )
        check(answer.error_code, "", answer.error_message)
        return {
            TopicPartition(str(topic.name), int(each.partition_index)): (
                each.error_code,
                each.error_message,
            )
            for topic in answer.responses
            for each in topic.partitions
            if each.error_code is not ErrorCode.none
        }

    return await admin.repeat(attempt)


async def elect(
    admin: AdminClient, kind: int, partitions: Sequence[TopicPartition] | None = None
) -> dict[TopicPartition, PartitionError]:
    """Elect leaders of these partitions, or of all partitions that need an election.

    `kind` is PREFERRED or UNCLEAN. An unclean election takes any live replica of a partition
    without a live in-sync replica, and may lose records. The result has an entry for every
    partition that the cluster decided about; ErrorCode.none means elected.
    """
    if partitions is None:
        return dict(sorted((await _elect(admin, kind, None)).items()))
    decided: dict[TopicPartition, PartitionError] = {}
    for some in _parts(partitions):
        decided |= await _elect(admin, kind, some)
    return dict(sorted(decided.items()))


async def _elect(
    admin: AdminClient, kind: int, partitions: Sequence[TopicPartition] | None
) -> dict[TopicPartition, PartitionError]:
    async def attempt() -> dict[TopicPartition, PartitionError]:
        asked = None
        if partitions is not None:
            asked = [
                {"topic": topic, "partitions": numbers}
                for topic, numbers in by_topic(partitions).items()
            ]
        answer = await admin.request(
            "elect_leaders",
            to=CONTROLLER,
            at_least=0 if kind == PREFERRED else 1,
            election_type=kind,
            topic_partitions=asked,
            timeout=timedelta(seconds=admin.timeout_s),
        )
        check(getattr(answer, "error_code", ErrorCode.none), "")
        results = {
            TopicPartition(str(topic.topic), int(each.partition_id)): (
                each.error_code,
                each.error_message,
            )
            for topic in answer.replica_election_results
            for each in topic.partition_result
        }
        if results and all(code in TRANSIENT for code, _ in results.values()):
            code, message = next(iter(results.values()))
            raise TransientError(code, message or code.name.upper())
        return results

    return dict(sorted((await admin.repeat(attempt)).items()))
