"""OffsetCommit, OffsetFetch and OffsetDelete.

Newer versions name topics by their ids, the coordinator knows names. A partition that does not
exist is refused here; the coordinator gets the others.
"""

import asyncio
from collections.abc import Container, Iterable
from datetime import timedelta
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.coordinator import GroupCoordinator
from nodes.coordinators.groups.kind import Committer
from nodes.coordinators.groups.offset_requests import (
    NO_RETENTION,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    PartitionCommit,
    Row,
    TopicCommit,
    TopicFetch,
    refused_commit,
)
from nodes.coordinators.machine import Answer
from nodes.ids import NO_EPOCH, NO_OFFSET
from nodes.server.coordinators.errors import CoordinatorError
from nodes.server.coordinators.shard import Access
from nodes.server.coordinators.shards import Shards
from nodes.server.replicas.manager import ReplicaManager
from nodes.server.requests.groups.many import side_by_side
from nodes.wire.prompt import Converted
from nodes.wire.server import RequestContext
from nodes.wire.versions import respond

COMMIT_TOPIC_IDS_SINCE = 10
FETCH_TOPIC_IDS_SINCE = 10
FETCH_GROUPS_SINCE = 8
FETCH_ERROR_SINCE = 2

_MS = timedelta(milliseconds=1)


class GroupOffsetsHandler:
    """Serves the requests about committed offsets."""

    def __init__(self, shards: Shards[GroupCoordinator], replicas: ReplicaManager) -> None:
        self._shards = shards
        self._replicas = replicas

    # -- OffsetCommit

    def offset_commit(self, request: Any, context: RequestContext) -> Any:
        """OffsetCommit: the offsets of the partitions that exist, in one batch.

        Return the response, or a future of it.
        """
        by_id = request.__version__ >= COMMIT_TOPIC_IDS_SINCE
        known, rows = split_commit(self._replicas, request.topics, by_id=by_id)
        if not known:
            return respond(request, topics=merged(rows))
        commit = OffsetCommit(_committer(request), tuple(known), _retention_ms(request))
        try:
            answer = self._shards.perform(
                commit.committer.group_id,
                lambda coordinator, token, now: coordinator.commit_offsets(commit, token, now),
                Access.WRITE,
            )
        except CoordinatorError as error:
            rows += refused_commit(commit, commit_error(error.code))
            return respond(request, topics=merged(rows))

        def response(answered: "asyncio.Future[Answer]") -> Any:
            error = answered.exception()
            if isinstance(error, CoordinatorError):
                topics = refused_commit(commit, commit_error(error.code))
            else:
                topics = answered.result()["topics"]
            return respond(request, topics=merged([*rows, *topics]))

        return Converted(answer, response)

    # -- OffsetFetch

    async def offset_fetch(self, request: Any, context: RequestContext) -> Any:
        """OffsetFetch: of one group, or (from version 8 on) of several."""
        stable = getattr(request, "require_stable", False)
        if request.__version__ >= FETCH_GROUPS_SINCE:
            groups = await side_by_side(
                self._fetch(request, group, stable=stable) for group in request.groups
            )
            return respond(request, groups=groups)
        row = await self._fetch(request, request, stable=stable)
        if row["error_code"] is not ErrorCode.none and request.__version__ < FETCH_ERROR_SINCE:
            row["topics"] = _failed_topics(request.topics, row["error_code"])
        return respond(request, topics=row["topics"], error_code=row["error_code"])

    async def _fetch(self, request: Any, group: Any, *, stable: bool) -> Row:
        """The row of one group."""
        by_id = request.__version__ >= FETCH_TOPIC_IDS_SINCE
        unknown: list[Row] = []
        topics = None
        if group.topics is not None:
            topics, unknown = self._split_fetch(group.topics, by_id=by_id)
        fetch = OffsetFetch(
            group.group_id,
            topics,
            getattr(group, "member_id", None),
            getattr(group, "member_epoch", -1),
            stable,
        )
        try:
            answer = await self._shards.perform(
                fetch.group_id,
                lambda coordinator, token, now: coordinator.fetch_offsets(fetch, token, now),
                Access.READ,
            )
        except CoordinatorError as error:
            return {
                "group_id": group.group_id,
                "error_code": _fetch_error(error.code),
                "topics": [],
            }
        found = answer["topics"]
        if by_id and topics is None:
            ids = self._replicas.image.topic_ids
            found = [{**row, "topic_id": ids[row["name"]]} for row in found if row["name"] in ids]
        return {**answer, "topics": [*unknown, *found]}

    def _split_fetch(
        self, topics: Iterable[Any], *, by_id: bool
    ) -> tuple[tuple[TopicFetch, ...], list[Row]]:
        """The topics by name, and the rows of those whose ids are unknown."""
        if not by_id:
            named = (TopicFetch(topic.name, topic.partition_indexes) for topic in topics)
            return tuple(named), []
        known, unknown = [], []
        for topic in topics:
            name = self._replicas.topic_name(topic.topic_id)
            if name is None:
                unknown += _failed_topics([topic], ErrorCode.unknown_topic_id)
            else:
                known.append(TopicFetch(name, topic.partition_indexes, topic.topic_id))
        return tuple(known), unknown

    # -- OffsetDelete

    async def offset_delete(self, request: Any, context: RequestContext) -> Any:
        """OffsetDelete: partitions that do not exist are refused, as in Kafka."""
        image = self._replicas.image
        known: list[TopicFetch] = []
        rows: list[Row] = []
        for topic in request.topics:
            found = image.topic(topic.name)
            there = frozenset[int]() if found is None else frozenset(found.partitions)
            numbers = [each.partition_index for each in topic.partitions]
            error = ErrorCode.unknown_topic_or_partition
            missing = [
                {"partition_index": n, "error_code": error} for n in numbers if n not in there
            ]
            if missing:
                rows.append({"name": topic.name, "partitions": missing})
            if kept := tuple(number for number in numbers if number in there):
                known.append(TopicFetch(topic.name, kept))
        delete = OffsetDelete(request.group_id, tuple(known))
        try:
            answer = await self._shards.perform(
                delete.group_id,
                lambda coordinator, token, now: coordinator.delete_offsets(delete, token, now),
                Access.WRITE,
            )
        except CoordinatorError as error:
            return respond(request, error_code=error.code)
        if "topics" not in answer:
            return respond(request, **answer)
        return respond(request, topics=merged([*rows, *answer["topics"]]))


def split_commit(
    replicas: ReplicaManager, topics: Iterable[Any], *, by_id: bool = False
) -> tuple[list[TopicCommit], list[Row]]:
    """The partitions of a commit that exist, and the response's rows of those that do not."""
    known: list[TopicCommit] = []
    refused: list[Row] = []
    for topic in topics:
        topic_id = topic.topic_id if by_id else None
        name = replicas.topic_name(topic_id) if by_id else topic.name
        found = None if name is None else replicas.image.topic(name)
        there: Container[int] = () if found is None else found.partitions
        error = ErrorCode.unknown_topic_or_partition
        if name is None:
            error = ErrorCode.unknown_topic_id
        missing: list[Row] = []
        commits: list[PartitionCommit] = []
        for each in topic.partitions:
            number = each.partition_index
            if number in there:
                leader_epoch = getattr(each, "committed_leader_epoch", NO_EPOCH)
                offset, metadata = each.committed_offset, each.committed_metadata
                commits.append(PartitionCommit(number, offset, leader_epoch, metadata))
            else:
                missing.append({"partition_index": number, "error_code": error})
        if missing:
            refused.append({"name": name, "topic_id": topic_id, "partitions": missing})
        if commits and name is not None:
            known.append(TopicCommit(name, tuple(commits), topic_id))
    return known, refused


def _committer(request: Any) -> Committer:
    return Committer(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=getattr(request, "group_instance_id", None),
        generation=request.generation_id_or_member_epoch,
        version=request.__version__,
    )


def _retention_ms(request: Any) -> int:
    given = getattr(request, "retention_time", None)
    return NO_RETENTION if given is None else int(given / _MS)


def commit_error(code: ErrorCode) -> ErrorCode:
    """A commit that does not fit into a batch has an error of its own."""
    too_large = code is ErrorCode.record_list_too_large
    return ErrorCode.invalid_commit_offset_size if too_large else code


def _fetch_error(code: ErrorCode) -> ErrorCode:
    """As Kafka: consumers before 3.9 do not know COORDINATOR_NOT_AVAILABLE here."""
    unknown = code is ErrorCode.coordinator_not_available
    return ErrorCode.not_coordinator if unknown else code


def _failed_topics(topics: Iterable[Any] | None, error: ErrorCode) -> list[Row]:
    return [
        {
            "name": getattr(topic, "name", ""),
            "topic_id": getattr(topic, "topic_id", None),
            "partitions": [
                {
                    "partition_index": number,
                    "committed_offset": NO_OFFSET,
                    "committed_leader_epoch": NO_EPOCH,
                    "metadata": "",
                    "error_code": error,
                }
                for number in topic.partition_indexes
            ],
        }
        for topic in topics or ()
    ]


def merged(topics: Iterable[Row]) -> list[Row]:
    """The rows of topics, one for each topic."""
    by_topic: dict[tuple[str | None, UUID | None], Row] = {}
    for topic in topics:
        key = (topic["name"], topic.get("topic_id"))
        if key in by_topic:
            by_topic[key]["partitions"] += topic["partitions"]
        else:
            by_topic[key] = {**topic, "partitions": list(topic["partitions"])}
    return list(by_topic.values())
