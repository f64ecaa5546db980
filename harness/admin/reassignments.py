"""Moving replicas between brokers (KIP-455), and electing leaders (KIP-460)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final

from kio.schema.errors import ErrorCode

from harness.admin.client import CONTROLLER, AdminClient
from harness.admin.codes import PASSING, check
from harness.admin.descriptions import Reassignment
from harness.admin.errors import Passing
from nodes.ids import TopicPartition

PREFERRED: Final = 0
UNCLEAN: Final = 1

AT_ONCE: Final = 800
"""Partitions named by one request: a broker bounds what a request may hold."""

Failure = tuple[ErrorCode, str | None]
"""Kafka's error about one partition, and its message."""


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The numbers of partitions per topic, both ascending."""
    grouped: dict[str, list[int]] = defaultdict(list)
    for each in sorted(partitions):
        grouped[each.topic].append(each.partition)
    return grouped


async def ongoing(
    admin: AdminClient, partitions: Sequence[TopicPartition] | None = None
) -> dict[TopicPartition, Reassignment]:
    """The reassignments under way, of these partitions or of all."""

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
) -> dict[TopicPartition, Failure]:
    """Give partitions these replicas, preferred leader first; None cancels what is under way.

    Returns what the cluster refused; the rest has begun. Once it has begun, asking for the same
    again changes nothing. So many are asked for in one request that a broker takes it.
    """
    refused: dict[TopicPartition, Failure] = {}
    for some in _parts(list(targets)):
        refused |= await _alter(admin, {partition: targets[partition] for partition in some})
    return dict(sorted(refused.items()))


def _parts(partitions: Sequence[TopicPartition]) -> list[Sequence[TopicPartition]]:
    """The partitions in pieces of at most AT_ONCE."""
    return [partitions[at : at + AT_ONCE] for at in range(0, len(partitions), AT_ONCE)]


async def _alter(
    admin: AdminClient, targets: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, Failure]:
    async def attempt() -> dict[TopicPartition, Failure]:
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
) -> dict[TopicPartition, Failure]:
    """Elect leaders of these partitions, or of all that need it.

    `kind` is PREFERRED, or UNCLEAN: any live replica where no in-sync one is left, which may lose
    records. The result has an entry for every partition that the cluster decided about, with
    ErrorCode.none where it was elected.
    """
    if partitions is None:
        return dict(sorted((await _elect(admin, kind, None)).items()))
    decided: dict[TopicPartition, Failure] = {}
    for some in _parts(partitions):
        decided |= await _elect(admin, kind, some)
    return dict(sorted(decided.items()))


async def _elect(
    admin: AdminClient, kind: int, partitions: Sequence[TopicPartition] | None
) -> dict[TopicPartition, Failure]:
    async def attempt() -> dict[TopicPartition, Failure]:
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
        if results and all(code in PASSING for code, _ in results.values()):
            code, message = next(iter(results.values()))
            raise Passing(code, message or code.name.upper())
        return results

    return dict(sorted((await admin.repeat(attempt)).items()))
