"""Requests about the records of one partition, sent to its leader: write, find, delete."""

from collections.abc import Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode

from harness.admin import topics
from harness.admin.client import AdminClient
from harness.admin.codes import check
from harness.admin.errors import TransientError
from nodes.ids import TopicPartition
from nodes.log.batch import Record, encode_batch

MAX_TIMESTAMP: Final = -3
_CONSUMER: Final = -1
_IN_SYNC: Final = -1
_BY_MAX_TIMESTAMP_SINCE: Final = 7


async def write(admin: AdminClient, partition: TopicPartition, timestamps_ms: Sequence[int]) -> int:
    """Write one batch, a record for each timestamp, with acks=all; return its first offset.

    Raises RequestRefused, TransientError, Unreachable; the last two do not say whether the batch
    was written.
    """
    batch = encode_batch(
        [Record(timestamp=each, value=b"scratch") for each in timestamps_ms],
        timestamp_ms=timestamps_ms[0],
    )
    data = [{"index": partition.partition, "records": batch}]
    answer = await _ask(
        admin, partition, "produce", "topic_data", "partition_data", data,
        transactional_id=None, acks=_IN_SYNC, timeout=admin.request_timeout,
    )  # fmt: skip
    row = answer.responses[0].partition_responses[0]
    check(row.error_code, str(partition))
    return int(row.base_offset)


async def find(admin: AdminClient, partition: TopicPartition, timestamp_ms: int) -> int:
    """Return the first offset at or after a time, or of a special timestamp; -1 if there is none.

    Raises RequestRefused, TransientError, Unreachable.
    """
    wanted = [{"partition_index": partition.partition, "timestamp": timestamp_ms}]
    answer = await _ask(
        admin, partition, "list_offsets", "topics", "partitions", wanted,
        at_least=_BY_MAX_TIMESTAMP_SINCE if timestamp_ms == MAX_TIMESTAMP else 1,
        replica_id=_CONSUMER, isolation_level=0,
    )  # fmt: skip
    row = answer.topics[0].partitions[0]
    check(row.error_code, str(partition))
    return int(row.offset)


async def delete(admin: AdminClient, partition: TopicPartition, before: int) -> int:
    """Delete the records below an offset (KIP-107); return the new low watermark.

    Raises RequestRefused, TransientError, Unreachable.
    """
    wanted = [{"partition_index": partition.partition, "offset": before}]
    answer = await _ask(
        admin, partition, "delete_records", "topics", "partitions", wanted,
        timeout=admin.request_timeout,
    )  # fmt: skip
    row = answer.topics[0].partitions[0]
    check(row.error_code, str(partition))
    return int(row.low_watermark)


async def _ask(
    admin: AdminClient,
    partition: TopicPartition,
    api: str,
    of_topics: str,
    of_partitions: str,
    rows: Sequence[Any],
    **values: Any,
) -> Any:
    """Send a request about one partition to its leader."""
    (topic,) = await topics.describe(admin, [partition.topic])
    leader = next((p.leader for p in topic.partitions if p.name == partition), None)
    if leader is None:
        raise TransientError(ErrorCode.leader_not_available, f"{partition} has no leader")
    values[of_topics] = [{"name": partition.topic, "topic_id": topic.topic_id, of_partitions: rows}]
    return await admin.request(api, to=leader, **values)
