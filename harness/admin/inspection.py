"""Requests about the state of nodes: quorum, log directories, producers, log ends, records."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode

from harness.admin import topics
from harness.admin.client import CONTROLLER, AdminClient
from harness.admin.codes import check
from harness.admin.descriptions import (
    LogDir,
    Producer,
    QuorumDescription,
    QuorumReplica,
    ReplicaSize,
)
from harness.admin.errors import BadRequest, TransientError
from harness.admin.reassignments import MAX_PARTITIONS, PartitionError, by_topic
from nodes.ids import TopicPartition

METADATA_TOPIC = "__cluster_metadata"
EARLIEST: Final = -2
LATEST: Final = -1
"""Timestamps that stand for the two ends of a log."""
_NO_REPLICA: Final = ErrorCode.not_leader_or_follower


async def quorum(admin: AdminClient) -> QuorumDescription:
    """Return the metadata quorum (KIP-595, KIP-836)."""

    async def attempt() -> QuorumDescription:
        answer = await admin.request(
            "describe_quorum",
            to=CONTROLLER,
            topics=[{"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0}]}],
        )
        check(answer.error_code, "the metadata quorum", getattr(answer, "error_message", None))
        (partition,) = answer.topics[0].partitions
        message = getattr(partition, "error_message", None)
        check(partition.error_code, "the metadata quorum", message)
        endpoints = {
            int(node.node_id): tuple(
                f"{each.name}://{each.host}:{each.port}" for each in node.listeners
            )
            for node in getattr(answer, "nodes", ())
        }
        return QuorumDescription(
            leader=int(partition.leader_id),
            epoch=int(partition.leader_epoch),
            high_watermark=int(partition.high_watermark),
            voters=tuple(_replica(each, endpoints) for each in partition.current_voters),
            observers=tuple(_replica(each, endpoints) for each in partition.observers),
        )

    return await admin.repeat(attempt)


def _replica(answer: Any, endpoints: Mapping[int, tuple[str, ...]]) -> QuorumReplica:
    node = int(answer.replica_id)
    return QuorumReplica(
        node_id=node,
        directory_id=getattr(answer, "replica_directory_id", None),
        log_end_offset=int(answer.log_end_offset),
        last_fetch_ms=int(getattr(answer, "last_fetch_timestamp", -1)),
        last_caught_up_ms=int(getattr(answer, "last_caught_up_timestamp", -1)),
        endpoints=endpoints.get(node, ()),
    )


async def log_dirs(admin: AdminClient, broker: int) -> list[LogDir]:
    """Return the log directories of one broker, with every replica in them.

    Raises BadRequest, RequestRefused.
    """

    async def attempt() -> list[LogDir]:
        answer = await admin.request("describe_log_dirs", to=broker, topics=None)
        check(getattr(answer, "error_code", ErrorCode.none), f"broker {broker}")
        return [
            LogDir(
                path=str(each.log_dir),
                error=None if each.error_code is ErrorCode.none else each.error_code.name.upper(),
                replicas={
                    TopicPartition(str(topic.name), int(replica.partition_index)): ReplicaSize(
                        size_bytes=int(replica.partition_size),
                        offset_lag=int(replica.offset_lag),
                        future=replica.is_future_key,
                    )
                    for topic in each.topics
                    for replica in topic.partitions
                },
            )
            for each in answer.results
        ]

    return await admin.repeat(attempt)


async def delete_records(
    admin: AdminClient, before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | PartitionError]:
    """Delete the records before these offsets; -1 stands for the high watermark (KIP-107).

    The result of each partition is its new log start offset, or Kafka's error.
    """

    async def attempt() -> dict[TopicPartition, int | PartitionError]:
        results: dict[TopicPartition, int | PartitionError] = {}
        for leader, partitions in (await by_leader(admin, list(before))).items():
            answer = await admin.request(
                "delete_records",
                to=leader,
                topics=[
                    {
                        "name": topic,
                        "partitions": [
                            {"partition_index": n, "offset": before[TopicPartition(topic, n)]}
                            for n in numbers
                        ],
                    }
                    for topic, numbers in by_topic(partitions).items()
                ],
                timeout=admin.request_timeout,
            )
            for topic in answer.topics:
                for each in topic.partitions:
                    key = TopicPartition(str(topic.name), int(each.partition_index))
                    done = each.error_code is ErrorCode.none
                    if each.error_code is ErrorCode.not_leader_or_follower:
                        check(each.error_code, str(key))
                    results[key] = int(each.low_watermark) if done else (each.error_code, None)
        return dict(sorted(results.items()))

    return await admin.repeat(attempt)


async def producers(
    admin: AdminClient, partitions: Sequence[TopicPartition], broker: int | None = None
) -> dict[TopicPartition, list[Producer]]:
    """Return the producers that the leader of each partition, or its replica on `broker`, knows
    (KIP-664). Raises BadRequest, RequestRefused."""

    async def attempt() -> dict[TopicPartition, list[Producer]]:
        asked: Mapping[int, Sequence[TopicPartition]] = (
            {broker: partitions} if broker is not None else await by_leader(admin, partitions)
        )
        found = {}
        for node, own in asked.items():
            for start in range(0, len(own), MAX_PARTITIONS):
                answer = await admin.request(
                    "describe_producers",
                    to=node,
                    topics=[
                        {"name": topic, "partition_indexes": numbers}
                        for topic, numbers in by_topic(own[start : start + MAX_PARTITIONS]).items()
                    ],
                )
                for topic in answer.topics:
                    for each in topic.partitions:
                        name = TopicPartition(str(topic.name), int(each.partition_index))
                        if broker is not None and each.error_code is _NO_REPLICA:
                            raise BadRequest(f"broker {broker} has no replica of {name}")
                        check(each.error_code, str(name), each.error_message)
                        found[name] = [_producer(state) for state in each.active_producers]
        return dict(sorted(found.items()))

    return await admin.repeat(attempt)


def _producer(answer: Any) -> Producer:
    start = int(answer.current_txn_start_offset)
    return Producer(
        producer_id=int(answer.producer_id),
        epoch=int(answer.producer_epoch),
        last_sequence=int(answer.last_sequence),
        last_timestamp_ms=int(answer.last_timestamp),
        coordinator_epoch=int(answer.coordinator_epoch),
        transaction_start=start if start >= 0 else None,
    )


async def unregister(admin: AdminClient, broker: int) -> None:
    """Remove a stopped broker from the cluster's metadata (KIP-500). Raises RequestRefused."""
    attempts = 0

    async def attempt() -> None:
        nonlocal attempts
        attempts += 1
        answer = await admin.request("unregister_broker", to=CONTROLLER, broker_id=broker)
        if attempts == 1 or answer.error_code is not ErrorCode.broker_id_not_registered:
            check(answer.error_code, f"broker {broker}", answer.error_message)

    await admin.repeat(attempt)


async def log_offsets(
    admin: AdminClient, partitions: Iterable[TopicPartition], timestamp_ms: int
) -> dict[TopicPartition, int]:
    """Return the first offset of each partition at or after a time; -1 where there is none.

    EARLIEST and LATEST stand for the ends of the log. Partitions that do not exist or have no
    leader are left out.
    """

    async def attempt() -> dict[TopicPartition, int]:
        grouped: dict[int, list[TopicPartition]] = defaultdict(list)
        for partition, leader in (await _leaders(admin, partitions)).items():
            if leader is not None:
                grouped[leader].append(partition)
        found = {}
        for leader, own in grouped.items():
            for start in range(0, len(own), MAX_PARTITIONS):
                answer = await admin.request(
                    "list_offsets",
                    to=leader,
                    at_least=1,
                    replica_id=-1,
                    isolation_level=0,
                    topics=[
                        {
                            "name": topic,
                            "partitions": [
                                {"partition_index": number, "timestamp": timestamp_ms}
                                for number in numbers
                            ],
                        }
                        for topic, numbers in by_topic(own[start : start + MAX_PARTITIONS]).items()
                    ],
                )
                for topic in answer.topics:
                    for each in topic.partitions:
                        name = TopicPartition(str(topic.name), int(each.partition_index))
                        check(each.error_code, str(name))
                        found[name] = int(each.offset)
        return dict(sorted(found.items()))

    return await admin.repeat(attempt)


async def _leaders(
    admin: AdminClient, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int | None]:
    """Return the leaders of those of the partitions that exist, ascending."""
    wanted = set(partitions)
    known = set(await topics.names(admin)) & {each.topic for each in wanted}
    return {
        each.name: each.leader
        for topic in await topics.describe(admin, sorted(known))
        for each in topic.partitions
        if each.name in wanted
    }


async def by_leader(
    admin: AdminClient, partitions: Sequence[TopicPartition]
) -> dict[int, list[TopicPartition]]:
    """Group the partitions by their leader. Raises BadRequest about a partition that does not
    exist, TransientError while one has no leader."""
    found = await _leaders(admin, partitions)
    grouped: dict[int, list[TopicPartition]] = defaultdict(list)
    for partition in sorted(partitions):
        if partition not in found:
            raise BadRequest(f"partition {partition} does not exist")
        leader = found[partition]
        if leader is None:
            raise TransientError(
                ErrorCode.leader_not_available, f"partition {partition} has no leader"
            )
        grouped[leader].append(partition)
    return grouped
