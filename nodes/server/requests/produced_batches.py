"""What a Produce request asks, partition by partition, as far as its fields show it. Pure."""

import contextlib
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.ids import TopicPartition
from nodes.log.batch import HEADER_BYTES, BatchHeader, read_header
from nodes.log.errors import CorruptBatch
from nodes.log.record_validation import MAX_WALKED, MIN_RECORD_BYTES
from nodes.log.transactions.verification import VerificationGuard
from nodes.server.requests.verification import Refusal, Verified

ZSTD_SINCE = 7
TOPIC_IDS_SINCE = 13

_MAGIC_AT, _ATTRIBUTES_AT = 16, 22
_CODEC_MASK, _ZSTD = 0x07, 4
_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x08, 0x10, 0x20

_COUNT, _COUNT_AT = struct.Struct(">i"), 57

PARTITION_US, RECORD_US, BYTE_US = 10.0, 0.6, 0.001
"""The cost of a partition of a request, of each of its records, and of each of its bytes."""


class RequestedPartition(NamedTuple):
    """One partition of a request; `partition` is None when no topic has the id.

    `guard` and `refused` are what its verification led to.
    """

    topic_key: Any
    number: int
    partition: TopicPartition | None
    records: bytes | None
    guard: VerificationGuard | None = None
    refused: Refusal | None = None


def requested_partitions(
    request: Any, topic_name: Callable[[UUID], str | None]
) -> list[RequestedPartition]:
    """The partitions of a request of any version, in its order."""
    requested = []
    by_id = request.__version__ >= TOPIC_IDS_SINCE
    for topic in request.topic_data:
        key: UUID | str | None = topic.topic_id if by_id else topic.name
        name = topic_name(topic.topic_id) if by_id else topic.name
        for data in topic.partition_data:
            partition = None if name is None else TopicPartition(name, data.index)
            requested.append(RequestedPartition(key, data.index, partition, data.records))
    return requested


def cost_us(requested: RequestedPartition) -> float:
    """About how long a partition takes, judged by what its batch announces."""
    records = requested.records or b""
    if len(records) < HEADER_BYTES:
        return PARTITION_US
    count: int = _COUNT.unpack_from(records, _COUNT_AT)[0]
    walked = min(max(count, 0), MAX_WALKED, len(records) // MIN_RECORD_BYTES)
    return PARTITION_US + RECORD_US * walked + BYTE_US * len(records)


def transactional_batches(
    partitions: Sequence[RequestedPartition],
) -> dict[TopicPartition, BatchHeader]:
    """The headers of the transactional batches; those that cannot be appended are left out."""
    batches = {}
    for each in partitions:
        records = each.records or b""
        if each.partition is not None and len(records) >= HEADER_BYTES:
            with contextlib.suppress(CorruptBatch):
                header = read_header(records)
                if header.is_transactional and not header.is_control and header.producer_id >= 0:
                    batches[each.partition] = header
    return batches


def after_verification(
    partitions: Sequence[RequestedPartition], verified: Verified
) -> list[RequestedPartition]:
    """The partitions with the outcome of their verification."""
    return [
        each
        if each.partition is None
        else each._replace(
            guard=verified.guards.get(each.partition), refused=verified.refused.get(each.partition)
        )
        for each in partitions
    ]


def invalid_batch(
    records: bytes, version: int, in_transactions: bool
) -> tuple[ErrorCode, str] | None:
    """Why a client's batch is refused, as far as the fixed fields of its header show it."""
    if len(records) <= _ATTRIBUTES_AT:
        return ErrorCode.invalid_record, "a produce has exactly one record batch for a partition"
    if records[_MAGIC_AT] != 2:
        return ErrorCode.invalid_record, f"magic {records[_MAGIC_AT]}: only record batches v2"
    attributes = records[_ATTRIBUTES_AT]
    if attributes & _CONTROL:
        return ErrorCode.invalid_record, "clients may not write control records"
    if attributes & _TRANSACTIONAL and not in_transactions:
        message = "a transactional batch without a transactional id"
        return ErrorCode.transactional_id_authorization_failed, message
    if attributes & _APPEND_TIME:
        return ErrorCode.invalid_timestamp, "LogAppendTime is the broker's to set"
    if attributes & _CODEC_MASK > _ZSTD:
        return ErrorCode.unsupported_compression_type, f"codec {attributes & _CODEC_MASK}"
    if attributes & _CODEC_MASK == _ZSTD and version < ZSTD_SINCE:
        return ErrorCode.unsupported_compression_type, f"zstd needs Produce v{ZSTD_SINCE}"
    return None
