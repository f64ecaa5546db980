"""Requests about committed offsets: which records a commit makes, and what a reader is told.

Pure functions over `Offsets`. Whether a request is allowed is for the kinds of groups to say. The
answers are field values of Kafka's responses.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.kind import Committer
from nodes.coordinators.groups.offsets import (
    NOTHING_COMMITTED,
    CommittedOffset,
    OffsetKey,
    Offsets,
)
from nodes.coordinators.groups.records import NO_EXPIRY, CommitEncoder
from nodes.coordinators.records import CoordinatorRecord
from nodes.ids import NO_EPOCH, Epoch, Offset

Row = dict[str, Any]

NO_RETENTION: Final = -1
"""The client leaves the time of retention to the broker."""


class PartitionCommit(NamedTuple):
    """An offset to commit."""

    partition: int
    offset: Offset
    leader_epoch: Epoch = NO_EPOCH
    metadata: str | None = None


class TopicCommit(NamedTuple):
    """The offsets to commit of one topic; `topic_id` is None if the client named the topic."""

    name: str
    partitions: tuple[PartitionCommit, ...]
    topic_id: UUID | None = None


class OffsetCommit(NamedTuple):
    """OffsetCommit or TxnOffsetCommit."""

    committer: Committer
    topics: tuple[TopicCommit, ...]
    retention_ms: int = NO_RETENTION


class TopicFetch(NamedTuple):
    """The partitions of one topic whose offsets are asked for."""

    name: str
    partitions: tuple[int, ...]
    topic_id: UUID | None = None


class OffsetFetch(NamedTuple):
    """OffsetFetch of one group; `topics` is None for all."""

    group_id: str
    topics: tuple[TopicFetch, ...] | None = None
    member_id: str | None = None
    member_epoch: int = -1
    require_stable: bool = False


class OffsetDelete(NamedTuple):
    """OffsetDelete."""

    group_id: str
    topics: tuple[TopicFetch, ...]


def commit_records(
    commit: OffsetCommit, now_wall_ms: int, metadata_max_bytes: int
) -> tuple[tuple[CoordinatorRecord, ...], list[Row]]:
    """The records of an allowed commit, and the topics of its response."""
    records, topics = [], []
    expire = NO_EXPIRY
    if commit.retention_ms != NO_RETENTION:
        expire = now_wall_ms + commit.retention_ms
    for topic in commit.topics:
        rows = []
        encoder = CommitEncoder(
            commit.committer.group_id,
            topic.name,
            topic.topic_id,
            commit_timestamp=now_wall_ms,
            expire_timestamp=expire,
        )
        for partition, offset, leader_epoch, given in topic.partitions:
            metadata = given or ""
            if metadata and _java_length(metadata) > metadata_max_bytes:
                rows.append(_row(partition, ErrorCode.offset_metadata_too_large))
                continue
            records.append(encoder.encode(partition, offset, leader_epoch, metadata))
            rows.append(_row(partition, ErrorCode.none))
        topics.append({"name": topic.name, "topic_id": topic.topic_id, "partitions": rows})
    return tuple(records), topics


def refused_commit(commit: OffsetCommit, error: ErrorCode) -> list[Row]:
    """The topics of a response that refuses the whole commit."""
    return [
        {
            "name": topic.name,
            "topic_id": topic.topic_id,
            "partitions": [_row(each.partition, error) for each in topic.partitions],
        }
        for topic in commit.topics
    ]


def fetched_topics(offsets: Offsets, fetch: OffsetFetch) -> list[Row]:
    """The topics of the response to an allowed fetch of one group."""
    known = offsets.of_group(fetch.group_id)
    if fetch.topics is None:
        return [
            {
                "name": topic,
                "partitions": [
                    _fetched(offsets, fetch, topic, partition, committed)
                    for partition, committed in partitions.items()
                ],
            }
            for topic, partitions in known.items()
        ]
    topics = []
    for topic in fetch.topics:
        partitions = known.get(topic.name, {})
        rows = [
            _fetched(
                offsets,
                fetch,
                topic.name,
                number,
                _of_topic(partitions.get(number), topic.topic_id),
            )
            for number in topic.partitions
        ]
        topics.append({"name": topic.name, "topic_id": topic.topic_id, "partitions": rows})
    return topics


def deletion(
    offsets: Offsets, delete: OffsetDelete, subscribes: Callable[[str], bool]
) -> tuple[tuple[CoordinatorRecord, ...], list[Row]]:
    """The tombstones of an allowed OffsetDelete, and the topics of its response."""
    records, topics = [], []
    for topic in delete.topics:
        used = subscribes(topic.name)
        error = ErrorCode.group_subscribed_to_topic if used else ErrorCode.none
        for number in () if used else topic.partitions:
            key = OffsetKey(delete.group_id, topic.name, number)
            if offsets.committed(key) is not None or offsets.pending(key):
                records.append(key.tombstone())
        rows = [_row(number, error) for number in topic.partitions]
        topics.append({"name": topic.name, "partitions": rows})
    return tuple(records), topics


def tombstones(keys: Iterable[OffsetKey]) -> tuple[CoordinatorRecord, ...]:
    """The records that remove these offsets."""
    return tuple(key.tombstone() for key in keys)


def _fetched(
    offsets: Offsets,
    fetch: OffsetFetch,
    topic: str,
    partition: int,
    committed: CommittedOffset | None,
) -> Row:
    error = ErrorCode.none
    if fetch.require_stable and offsets.pending(OffsetKey(fetch.group_id, topic, partition)):
        error, committed = ErrorCode.unstable_offset_commit, None
    found = committed or NOTHING_COMMITTED
    return {
        "partition_index": partition,
        "committed_offset": found.offset,
        "committed_leader_epoch": found.leader_epoch,
        "metadata": found.metadata,
        "error_code": error,
    }


def _of_topic(committed: CommittedOffset | None, topic_id: UUID | None) -> CommittedOffset | None:
    """The offset, unless it is known to be of another topic with the same name."""
    if committed is None or topic_id is None or committed.topic_id is None:
        return committed
    return committed if committed.topic_id == topic_id else None


def _row(partition: int, error: ErrorCode) -> Row:
    return {"partition_index": partition, "error_code": error}


def _java_length(text: str) -> int:
    """The length of a Java string: Kafka compares it with offset.metadata.max.bytes."""
    if text.isascii():
        return len(text)
    return len(text) + sum(character > "\uffff" for character in text)
