"""Translates between the quorum's messages and Kafka's, for the one metadata partition. Pure.

Reading raises InvalidRequest or InvalidResponse for a message that is not for this quorum: one
about another topic, another cluster or another voter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, assert_never
from uuid import UUID

from kio.schema.begin_quorum_epoch.v1.request import BeginQuorumEpochRequest
from kio.schema.end_quorum_epoch.v1.request import EndQuorumEpochRequest
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v17.request import FetchRequest as WireFetchRequest
from kio.schema.fetch_snapshot.v1.request import FetchSnapshotRequest
from kio.schema.update_raft_voter.v0.request import UpdateRaftVoterRequest
from kio.schema.vote.v2.request import VoteRequest as WireVoteRequest

from nodes.ids import NO_NODE, Epoch, NodeId, Offset
from nodes.log.divergence import EpochEnd
from nodes.raft.messages import (
    BeginEpochRequest,
    EndEpochRequest,
    FetchRequest,
    FetchResponse,
    Response,
    VoteRequest,
    VoteResponse,
)
from nodes.raft.positions import SnapshotId
from nodes.raft.voters import ReplicaKey, VoterEndpoint
from nodes.wire.versions import Draft, fill, respond

Endpoint = tuple[str, int]
"""Host and port."""

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_TOPIC_ID: Final = UUID(int=1)


class InvalidRequest(Exception):
    """A request that gets a response with `code` as its top-level error."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class InvalidResponse(Exception):
    """A response with a top-level error, or about another partition."""


# -- requests


def _topics(partition: Mapping[str, object]) -> list[Mapping[str, object]]:
    return [{"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0, **partition}]}]


def write_request(
    request: VoteRequest | BeginEpochRequest | EndEpochRequest,
    cluster_id: str,
    to: NodeId,
    endpoints: Sequence[VoterEndpoint] = (),
) -> Any:
    """Return the Kafka request to voter `to`; `endpoints` are the sender's, if it is leader."""
    own = [{"name": e.listener, "host": e.host, "port": e.port} for e in endpoints]
    match request:
        case VoteRequest():
            topics = _topics(
                {
                    "replica_epoch": request.epoch,
                    "replica_id": request.candidate_id,
                    "replica_directory_id": request.candidate_directory_id,
                    "voter_directory_id": request.voter_directory_id,
                    "last_offset_epoch": request.last_epoch,
                    "last_offset": request.end_offset,
                    "pre_vote": request.pre_vote,
                }
            )
            return fill(WireVoteRequest, cluster_id=cluster_id, voter_id=to, topics=topics)
        case BeginEpochRequest():
            topics = _topics(
                {
                    "voter_directory_id": request.voter_directory_id,
                    "leader_id": request.leader_id,
                    "leader_epoch": request.epoch,
                }
            )
            return fill(
                BeginQuorumEpochRequest,
                cluster_id=cluster_id,
                voter_id=to,
                topics=topics,
                leader_endpoints=own,
            )
        case EndEpochRequest():
            candidates = [{"candidate_id": node} for node in request.preferred_successors]
            topics = _topics(
                {
                    "leader_id": request.leader_id,
                    "leader_epoch": request.epoch,
                    "preferred_candidates": candidates,
                }
            )
            return fill(
                EndQuorumEpochRequest, cluster_id=cluster_id, topics=topics, leader_endpoints=own
            )
        case _:
            assert_never(request)


def write_fetch(
    request: FetchRequest, cluster_id: str, *, start: Offset, wait_ms: float, max_bytes: int
) -> Any:
    """Return the Kafka request that fetches the metadata log."""
    partition = {
        "partition": 0,
        "current_leader_epoch": request.epoch,
        "fetch_offset": request.offset,
        "last_fetched_epoch": request.last_epoch,
        "log_start_offset": start,
        "replica_directory_id": request.directory_id,
        "partition_max_bytes": max_bytes,
    }
    values = {
        "cluster_id": cluster_id,
        "replica_state": {"replica_id": request.replica_id, "replica_epoch": -1},
        "max_wait": timedelta(milliseconds=wait_ms),
        "min_bytes": 1,
        "max_bytes": max_bytes,
        "topics": [{"topic_id": METADATA_TOPIC_ID, "partitions": [partition]}],
    }
    return Draft(WireFetchRequest, values)


def _the_partition(request: Any, cluster_id: str, node_id: NodeId) -> Any:
    if request.cluster_id is not None and request.cluster_id != cluster_id:
        raise InvalidRequest(ErrorCode.inconsistent_cluster_id)
    if getattr(request, "voter_id", NO_NODE) not in (NO_NODE, node_id):
        raise InvalidRequest(ErrorCode.invalid_voter_key)
    match request.topics:
        case [topic] if topic.topic_name == METADATA_TOPIC:
            match topic.partitions:
                case [partition] if partition.partition_index == 0:
                    return partition
    raise InvalidRequest(ErrorCode.invalid_request)


def read_vote(request: Any, cluster_id: str, node_id: NodeId) -> VoteRequest:
    """Raises InvalidRequest."""
    partition = _the_partition(request, cluster_id, node_id)
    return VoteRequest(
        epoch=Epoch(partition.replica_epoch),
        candidate_id=NodeId(partition.replica_id),
        candidate_directory_id=partition.replica_directory_id,
        voter_directory_id=partition.voter_directory_id,
        last_epoch=Epoch(partition.last_offset_epoch),
        end_offset=Offset(partition.last_offset),
        pre_vote=partition.pre_vote,
    )


def read_begin_epoch(request: Any, cluster_id: str, node_id: NodeId) -> BeginEpochRequest:
    """Raises InvalidRequest."""
    partition = _the_partition(request, cluster_id, node_id)
    return BeginEpochRequest(
        epoch=Epoch(partition.leader_epoch),
        leader_id=NodeId(partition.leader_id),
        voter_directory_id=partition.voter_directory_id,
    )


def read_end_epoch(request: Any, cluster_id: str, node_id: NodeId) -> EndEpochRequest:
    """Raises InvalidRequest."""
    partition = _the_partition(request, cluster_id, node_id)
    return EndEpochRequest(
        epoch=Epoch(partition.leader_epoch),
        leader_id=NodeId(partition.leader_id),
        preferred_successors=tuple(
            NodeId(candidate.candidate_id) for candidate in partition.preferred_candidates
        ),
    )


def read_fetch(request: Any, cluster_id: str) -> tuple[FetchRequest, int]:
    """Return the request, and how many bytes of records it accepts. Raises InvalidRequest."""
    if request.cluster_id is not None and request.cluster_id != cluster_id:
        raise InvalidRequest(ErrorCode.inconsistent_cluster_id)
    match request.topics:
        case [topic] if topic.topic_id == METADATA_TOPIC_ID:
            match topic.partitions:
                case [partition] if partition.partition == 0:
                    message = FetchRequest(
                        replica_id=NodeId(request.replica_state.replica_id),
                        directory_id=partition.replica_directory_id,
                        epoch=Epoch(partition.current_leader_epoch),
                        offset=Offset(partition.fetch_offset),
                        last_epoch=Epoch(partition.last_fetched_epoch),
                    )
                    return message, min(request.max_bytes, partition.partition_max_bytes)
    raise InvalidRequest(ErrorCode.unknown_topic_id)


# -- answers


def _leader(leader_id: NodeId | None) -> NodeId:
    return NO_NODE if leader_id is None else leader_id


def _endpoints(answer: Response, leader: Endpoint | None) -> list[dict[str, object]]:
    """Where the leader that an answer names is, for those that do not know it."""
    if answer.leader_id is None or leader is None:
        return []
    return [{"node_id": answer.leader_id, "host": leader[0], "port": leader[1]}]


def write_answer(request: Any, answer: Response, leader: Endpoint | None) -> Any:
    """Return the Kafka response to a Vote, BeginQuorumEpoch or EndQuorumEpoch request.

    `leader` is the leader's address.
    """
    partition: dict[str, object] = {
        "error_code": answer.error,
        "leader_id": _leader(answer.leader_id),
        "leader_epoch": answer.epoch,
    }
    if isinstance(answer, VoteResponse):
        partition["vote_granted"] = answer.granted
    endpoints = _endpoints(answer, leader)
    return respond(request, topics=_topics(partition), node_endpoints=endpoints)


def write_fetch_answer(
    request: Any, answer: FetchResponse, records: bytes, log_start: Offset, leader: Endpoint | None
) -> Any:
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
    if answer.snapshot is not None:
        end_offset, epoch = answer.snapshot
        partition["snapshot_id"] = {"end_offset": end_offset, "epoch": epoch}
    topic = {"topic_id": METADATA_TOPIC_ID, "partitions": [partition]}
    return respond(request, responses=[topic], node_endpoints=_endpoints(answer, leader))


def _leader_or_none(leader_id: int) -> NodeId | None:
    return None if leader_id < 0 else NodeId(leader_id)


def _only_partition(response: Any, topics: Any) -> Any:
    if response.error_code is not ErrorCode.none:
        raise InvalidResponse(response.error_code.name)
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        raise InvalidResponse("not about one partition")
    return topics[0].partitions[0]


def read_vote_answer(response: Any) -> VoteResponse:
    """Raises InvalidResponse."""
    partition = _only_partition(response, response.topics)
    return VoteResponse(
        error=partition.error_code,
        epoch=Epoch(partition.leader_epoch),
        leader_id=_leader_or_none(partition.leader_id),
        granted=partition.vote_granted,
    )


def read_answer(response: Any) -> Response:
    """Return the answer to BeginQuorumEpoch or EndQuorumEpoch. Raises InvalidResponse."""
    partition = _only_partition(response, response.topics)
    return Response(
        error=partition.error_code,
        epoch=Epoch(partition.leader_epoch),
        leader_id=_leader_or_none(partition.leader_id),
    )


def read_fetch_answer(response: Any) -> tuple[FetchResponse, bytes]:
    """Return the answer and its records. Raises InvalidResponse."""
    partition = _only_partition(response, response.responses)
    diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
    answer = FetchResponse(
        error=partition.error_code,
        epoch=Epoch(partition.current_leader.leader_epoch),
        leader_id=_leader_or_none(partition.current_leader.leader_id),
        high_watermark=Offset(partition.high_watermark),
        diverging=None
        if diverging.end_offset < 0
        else EpochEnd(Epoch(diverging.epoch), Offset(diverging.end_offset)),
        snapshot=None
        if snapshot.end_offset < 0
        else SnapshotId(Offset(snapshot.end_offset), Epoch(snapshot.epoch)),
    )
    return answer, bytes(partition.records or b"")


def leader_endpoint(response: Any) -> tuple[NodeId, Endpoint] | None:
    """Return the leader and its address, if the response names them."""
    for node in getattr(response, "node_endpoints", ()):
        return NodeId(node.node_id), (node.host, node.port)
    return None


def write_update_voter(
    voter: ReplicaKey, epoch: Epoch, endpoints: Sequence[VoterEndpoint], cluster_id: str
) -> Any:
    """Return the Kafka request that asks the leader of `epoch` to record a voter's endpoints."""
    return fill(
        UpdateRaftVoterRequest,
        cluster_id=cluster_id,
        current_leader_epoch=epoch,
        voter_id=voter.node_id,
        voter_directory_id=voter.directory_id,
        listeners=[{"name": e.listener, "host": e.host, "port": e.port} for e in endpoints],
        k_raft_version_feature={"min_supported_version": 0, "max_supported_version": 1},
    )


# -- snapshots


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPart:
    """A part of a snapshot's file, as requested (without data) or as sent."""

    snapshot_id: SnapshotId
    position: int
    size: int = 0
    """The size of the whole file in bytes."""
    data: bytes = b""


def write_fetch_snapshot(
    replica: ReplicaKey, epoch: Epoch, part: SnapshotPart, cluster_id: str, *, max_bytes: int
) -> Any:
    """Return the Kafka request for a part of a snapshot."""
    offset, snapshot_epoch = part.snapshot_id
    partition = {
        "partition": 0,
        "current_leader_epoch": epoch,
        "snapshot_id": {"end_offset": offset, "epoch": snapshot_epoch},
        "position": part.position,
        "replica_directory_id": replica.directory_id,
    }
    return fill(
        FetchSnapshotRequest,
        cluster_id=cluster_id,
        replica_id=replica.node_id,
        max_bytes=max_bytes,
        topics=[{"name": METADATA_TOPIC, "partitions": [partition]}],
    )


def read_fetch_snapshot(
    request: Any, cluster_id: str
) -> tuple[ReplicaKey, Epoch, SnapshotPart, int]:
    """Return the replica that fetches, its epoch, the requested part, and the most bytes to send.

    Raises InvalidRequest.
    """
    if request.cluster_id is not None and request.cluster_id != cluster_id:
        raise InvalidRequest(ErrorCode.inconsistent_cluster_id)
    match request.topics:
        case [topic] if topic.name == METADATA_TOPIC:
            match topic.partitions:
                case [partition] if partition.partition == 0:
                    requested = partition.snapshot_id
                    part = SnapshotPart(
                        snapshot_id=SnapshotId(
                            Offset(requested.end_offset), Epoch(requested.epoch)
                        ),
                        position=partition.position,
                    )
                    directory = getattr(partition, "replica_directory_id", None)
                    replica = ReplicaKey(NodeId(request.replica_id), directory)
                    return replica, Epoch(partition.current_leader_epoch), part, request.max_bytes
    raise InvalidRequest(ErrorCode.unknown_topic_or_partition)


def write_snapshot_answer(
    request: Any, answer: Response, part: SnapshotPart, leader: Endpoint | None
) -> Any:
    """Return the Kafka response with a part of a snapshot."""
    offset, epoch = part.snapshot_id
    partition = {
        "index": 0,
        "error_code": answer.error,
        "snapshot_id": {"end_offset": offset, "epoch": epoch},
        "current_leader": {"leader_id": _leader(answer.leader_id), "leader_epoch": answer.epoch},
        "size": part.size,
        "position": part.position,
        "unaligned_records": part.data,
    }
    topics = [{"name": METADATA_TOPIC, "partitions": [partition]}]
    return respond(request, topics=topics, node_endpoints=_endpoints(answer, leader))


def read_snapshot_answer(response: Any) -> tuple[Response, SnapshotPart]:
    """Raises InvalidResponse."""
    partition = _only_partition(response, response.topics)
    answer = Response(
        error=partition.error_code,
        epoch=Epoch(partition.current_leader.leader_epoch),
        leader_id=_leader_or_none(partition.current_leader.leader_id),
    )
    found = partition.snapshot_id
    part = SnapshotPart(
        snapshot_id=SnapshotId(Offset(found.end_offset), Epoch(found.epoch)),
        position=partition.position,
        size=partition.size,
        data=bytes(partition.unaligned_records or b""),
    )
    return answer, part
