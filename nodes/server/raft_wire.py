"""Translates between the quorum's messages and Kafka's, for the one metadata partition. Pure.

Reading raises BadRequest or BadAnswer for what cannot be meant for this quorum: another topic,
another cluster, another voter.
"""

import io
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, assert_never
from uuid import UUID

from kio.schema.begin_quorum_epoch.v1.request import BeginQuorumEpochRequest
from kio.schema.end_quorum_epoch.v1.request import EndQuorumEpochRequest
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v17.request import FetchRequest as WireFetchRequest
from kio.schema.leader_change_message.v0.data import LeaderChangeMessage
from kio.schema.vote.v2.request import VoteRequest as WireVoteRequest
from kio.serial import entity_writer

from nodes.ids import NO_NODE, Epoch, NodeId, Offset
from nodes.log.divergence import EpochEnd
from nodes.raft.messages import (
    Answer,
    AppendLeaderChange,
    BeginEpochRequest,
    EndEpochRequest,
    FetchAnswer,
    FetchRequest,
    VoteAnswer,
    VoteRequest,
)
from nodes.wire.versions import fill, respond

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_TOPIC_ID: Final = UUID(int=1)
LEADER_CHANGE_KEY: Final = bytes([0, 0, 0, 2])
"""A control record's key: version 0, type 2."""


class BadRequest(Exception):
    """A request that is answered with `code`, at the top of the response."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class BadAnswer(Exception):
    """An answer that says nothing about the quorum."""


def leader_change(action: AppendLeaderChange) -> bytes:
    """The value of the control record that a new leader appends (KIP-595)."""
    buffer = io.BytesIO()
    message = fill(
        LeaderChangeMessage,
        leader_id=action.leader_id,
        voters=[{"voter_id": voter} for voter in action.voters],
        granting_voters=[{"voter_id": voter} for voter in action.granting_voters],
    )
    entity_writer(LeaderChangeMessage)(buffer, message)
    return buffer.getvalue()


# -- requests


def _topics(partition: Mapping[str, object]) -> list[Mapping[str, object]]:
    return [{"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0, **partition}]}]


def write_request(
    request: VoteRequest | BeginEpochRequest | EndEpochRequest, cluster_id: str, to: NodeId
) -> Any:
    """The Kafka request to voter `to`."""
    match request:
        case VoteRequest():
            topics = _topics(
                {
                    "replica_epoch": request.epoch,
                    "replica_id": request.candidate_id,
                    "last_offset_epoch": request.last_epoch,
                    "last_offset": request.end_offset,
                    "pre_vote": request.pre_vote,
                }
            )
            return fill(WireVoteRequest, cluster_id=cluster_id, voter_id=to, topics=topics)
        case BeginEpochRequest():
            topics = _topics({"leader_id": request.leader_id, "leader_epoch": request.epoch})
            return fill(BeginQuorumEpochRequest, cluster_id=cluster_id, voter_id=to, topics=topics)
        case EndEpochRequest():
            candidates = [{"candidate_id": node} for node in request.preferred_successors]
            topics = _topics(
                {
                    "leader_id": request.leader_id,
                    "leader_epoch": request.epoch,
                    "preferred_candidates": candidates,
                }
            )
            return fill(EndQuorumEpochRequest, cluster_id=cluster_id, topics=topics)
        case _:
            assert_never(request)


def write_fetch(request: FetchRequest, cluster_id: str, *, wait_ms: float, max_bytes: int) -> Any:
    """The Kafka request that fetches the metadata log."""
    partition = {
        "partition": 0,
        "current_leader_epoch": request.epoch,
        "fetch_offset": request.offset,
        "last_fetched_epoch": request.last_epoch,
        "log_start_offset": 0,
        "partition_max_bytes": max_bytes,
    }
    return fill(
        WireFetchRequest,
        cluster_id=cluster_id,
        replica_state={"replica_id": request.replica_id, "replica_epoch": -1},
        max_wait=timedelta(milliseconds=wait_ms),
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[{"topic_id": METADATA_TOPIC_ID, "partitions": [partition]}],
    )


def _the_partition(request: Any, cluster_id: str, node_id: NodeId) -> Any:
    if request.cluster_id is not None and request.cluster_id != cluster_id:
        raise BadRequest(ErrorCode.inconsistent_cluster_id)
    if getattr(request, "voter_id", NO_NODE) not in (NO_NODE, node_id):
        raise BadRequest(ErrorCode.invalid_voter_key)
    match request.topics:
        case [topic] if topic.topic_name == METADATA_TOPIC:
            match topic.partitions:
                case [partition] if partition.partition_index == 0:
                    return partition
    raise BadRequest(ErrorCode.invalid_request)


def read_vote(request: Any, cluster_id: str, node_id: NodeId) -> VoteRequest:
    """Raises BadRequest."""
    partition = _the_partition(request, cluster_id, node_id)
    return VoteRequest(
        epoch=Epoch(partition.replica_epoch),
        candidate_id=NodeId(partition.replica_id),
        last_epoch=Epoch(partition.last_offset_epoch),
        end_offset=Offset(partition.last_offset),
        pre_vote=partition.pre_vote,
    )


def read_begin_epoch(request: Any, cluster_id: str, node_id: NodeId) -> BeginEpochRequest:
    """Raises BadRequest."""
    partition = _the_partition(request, cluster_id, node_id)
    return BeginEpochRequest(
        epoch=Epoch(partition.leader_epoch), leader_id=NodeId(partition.leader_id)
    )


def read_end_epoch(request: Any, cluster_id: str, node_id: NodeId) -> EndEpochRequest:
    """Raises BadRequest."""
    partition = _the_partition(request, cluster_id, node_id)
    return EndEpochRequest(
        epoch=Epoch(partition.leader_epoch),
        leader_id=NodeId(partition.leader_id),
        preferred_successors=tuple(
            NodeId(candidate.candidate_id) for candidate in partition.preferred_candidates
        ),
    )


def read_fetch(request: Any, cluster_id: str) -> tuple[FetchRequest, int]:
    """The request, and how many bytes of records it accepts. Raises BadRequest."""
    if request.cluster_id is not None and request.cluster_id != cluster_id:
        raise BadRequest(ErrorCode.inconsistent_cluster_id)
    match request.topics:
        case [topic] if topic.topic_id == METADATA_TOPIC_ID:
            match topic.partitions:
                case [partition] if partition.partition == 0:
                    message = FetchRequest(
                        replica_id=NodeId(request.replica_state.replica_id),
                        epoch=Epoch(partition.current_leader_epoch),
                        offset=Offset(partition.fetch_offset),
                        last_epoch=Epoch(partition.last_fetched_epoch),
                    )
                    return message, min(request.max_bytes, partition.partition_max_bytes)
    raise BadRequest(ErrorCode.unknown_topic_id)


# -- answers


def _leader(leader_id: NodeId | None) -> NodeId:
    return NO_NODE if leader_id is None else leader_id


def write_answer(request: Any, answer: Answer) -> Any:
    """The Kafka response to a vote or an announcement."""
    partition: dict[str, object] = {
        "error_code": answer.error,
        "leader_id": _leader(answer.leader_id),
        "leader_epoch": answer.epoch,
    }
    if isinstance(answer, VoteAnswer):
        partition["vote_granted"] = answer.granted
    return respond(request, topics=_topics(partition))


def write_fetch_answer(request: Any, answer: FetchAnswer, records: bytes, log_start: Offset) -> Any:
    """The Kafka response to a fetch of the metadata log."""
    partition: dict[str, object] = {
        "partition_index": 0,
        "error_code": answer.error,
        "high_watermark": answer.high_watermark,
        "log_start_offset": log_start,
        "current_leader": {"leader_id": _leader(answer.leader_id), "leader_epoch": answer.epoch},
        "records": records,
    }
    if answer.diverging is not None:
        epoch, end_offset = answer.diverging
        partition["diverging_epoch"] = {"epoch": epoch, "end_offset": end_offset}
    topic = {"topic_id": METADATA_TOPIC_ID, "partitions": [partition]}
    return respond(request, responses=[topic])


def _leader_or_none(leader_id: int) -> NodeId | None:
    return None if leader_id < 0 else NodeId(leader_id)


def _only_partition(response: Any, topics: Any) -> Any:
    if response.error_code is not ErrorCode.none:
        raise BadAnswer(response.error_code.name)
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        raise BadAnswer("not about one partition")
    return topics[0].partitions[0]


def read_vote_answer(response: Any) -> VoteAnswer:
    """Raises BadAnswer."""
    partition = _only_partition(response, response.topics)
    return VoteAnswer(
        error=partition.error_code,
        epoch=Epoch(partition.leader_epoch),
        leader_id=_leader_or_none(partition.leader_id),
        granted=partition.vote_granted,
    )


def read_answer(response: Any) -> Answer:
    """The answer to an announcement. Raises BadAnswer."""
    partition = _only_partition(response, response.topics)
    return Answer(
        error=partition.error_code,
        epoch=Epoch(partition.leader_epoch),
        leader_id=_leader_or_none(partition.leader_id),
    )


def read_fetch_answer(response: Any) -> tuple[FetchAnswer, bytes]:
    """The answer and its records. Raises BadAnswer."""
    partition = _only_partition(response, response.responses)
    diverging = partition.diverging_epoch
    answer = FetchAnswer(
        error=partition.error_code,
        epoch=Epoch(partition.current_leader.leader_epoch),
        leader_id=_leader_or_none(partition.current_leader.leader_id),
        high_watermark=Offset(partition.high_watermark),
        diverging=None
        if diverging.end_offset < 0
        else EpochEnd(Epoch(diverging.epoch), Offset(diverging.end_offset)),
    )
    return answer, bytes(partition.records or b"")
