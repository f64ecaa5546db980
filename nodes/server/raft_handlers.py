"""Answers the quorum's requests: Vote, Begin- and EndQuorumEpoch, Fetch, DescribeQuorum.

A fetch is a long poll: it waits until the log or the high watermark has something that this replica
has not been sent, at most as long as it asks for. So commits reach brokers without polling.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode

from nodes.ids import NO_NODE, NodeId, Offset
from nodes.raft.leadership import Leadership, ReplicaProgress
from nodes.raft.messages import Action, Answer, FetchAnswer, FetchRequest
from nodes.server import raft_wire
from nodes.wire.server import Api, RequestContext
from nodes.wire.versions import respond

if TYPE_CHECKING:
    from nodes.server.raft_io import RaftNode

MAX_WAIT_MS: Final = 1000.0
MAX_REPLICAS: Final = 1000
"""So many replicas' last answers are remembered; one more, and all are forgotten."""


class RaftHandlers:
    """The handlers of one RaftNode."""

    def __init__(self, node: "RaftNode") -> None:
        self._node = node
        self._sent_hw: dict[NodeId, Offset] = {}

    def apis(self) -> dict[int, Api]:
        """The requests served, by api key."""
        return {
            1: Api(17, 17, self.fetch),
            52: Api(2, 2, self.vote),
            53: Api(1, 1, self.begin_quorum_epoch),
            54: Api(1, 1, self.end_quorum_epoch),
            55: Api(0, 2, self.describe_quorum),
        }

    def vote(self, request: Any, context: RequestContext) -> Any:
        """Vote, and pre-vote."""
        node = self._node
        try:
            message = raft_wire.read_vote(request, node.cluster_id, node.node_id)
        except raft_wire.BadRequest as error:
            return respond(request, error_code=error.code)
        return self._decide(
            request, message.candidate_id, lambda now: node.quorum.on_vote(now, message)
        )

    def begin_quorum_epoch(self, request: Any, context: RequestContext) -> Any:
        """BeginQuorumEpoch."""
        node = self._node
        try:
            message = raft_wire.read_begin_epoch(request, node.cluster_id, node.node_id)
        except raft_wire.BadRequest as error:
            return respond(request, error_code=error.code)
        return self._decide(
            request, message.leader_id, lambda now: node.quorum.on_begin_epoch(now, message)
        )

    def end_quorum_epoch(self, request: Any, context: RequestContext) -> Any:
        """EndQuorumEpoch."""
        node = self._node
        try:
            message = raft_wire.read_end_epoch(request, node.cluster_id, node.node_id)
        except raft_wire.BadRequest as error:
            return respond(request, error_code=error.code)
        return self._decide(
            request, message.leader_id, lambda now: node.quorum.on_end_epoch(now, message)
        )

    def _decide(
        self,
        request: Any,
        sender: NodeId,
        decide: Callable[[float], tuple[Answer, list[Action]]],
    ) -> Any:
        node = self._node
        node.heard_from(sender)
        with node.critical():
            answer, actions = decide(node.now_ms())
        node.carry_out(actions)
        return raft_wire.write_answer(request, answer)

    # -- fetches

    async def fetch(self, request: Any, context: RequestContext) -> Any:
        """Fetch of the metadata log."""
        node = self._node
        try:
            message, max_bytes = raft_wire.read_fetch(request, node.cluster_id)
        except raft_wire.BadRequest as error:
            return respond(request, error_code=error.code)
        node.heard_from(message.replica_id)
        with node.critical():
            answer, actions = node.quorum.on_fetch(node.now_ms(), message)
        node.carry_out(actions)
        wait_ms = min(request.max_wait.total_seconds() * 1000, MAX_WAIT_MS)
        answer = await self._poll(message, answer, node.now_ms() + wait_ms)
        records = b""
        if answer.error is ErrorCode.none and answer.diverging is None:
            records = node.log.read(message.offset, max_bytes, node.log.end_offset)
            if len(self._sent_hw) >= MAX_REPLICAS:
                self._sent_hw.clear()
            self._sent_hw[message.replica_id] = answer.high_watermark
        return raft_wire.write_fetch_answer(request, answer, records, node.log.start_offset)

    async def _poll(
        self, message: FetchRequest, answer: FetchAnswer, deadline_ms: float
    ) -> FetchAnswer:
        node = self._node
        while self._has_nothing(message, answer):
            left_ms = deadline_ms - node.now_ms()
            if left_ms <= 0:
                break
            await asyncio.wait([node.moved()], timeout=left_ms / 1000)
            answer = node.quorum.fetch_answer(message)
        return answer

    def _has_nothing(self, message: FetchRequest, answer: FetchAnswer) -> bool:
        return (
            answer.error is ErrorCode.none
            and answer.diverging is None
            and message.offset >= self._node.log.end_offset
            and answer.high_watermark <= self._sent_hw.get(message.replica_id, Offset(-1))
        )

    # -- describing

    def describe_quorum(self, request: Any, context: RequestContext) -> Any:
        """DescribeQuorum, answered by the leader only."""
        quorum = self._node.quorum
        topics = [
            {
                "topic_name": topic.topic_name,
                "partitions": [
                    {"partition_index": p.partition_index, **self._describe(topic.topic_name, p)}
                    for p in topic.partitions
                ],
            }
            for topic in request.topics
        ]
        nodes = [
            {"node_id": voter, "listeners": [{"name": "CONTROLLER", "host": host, "port": port}]}
            for voter, (host, port) in sorted(self._node.voters.items())
        ]
        return respond(request, topics=topics, nodes=nodes if quorum.leadership else [])

    def _describe(self, topic: str, partition: Any) -> dict[str, object]:
        quorum = self._node.quorum
        unknown: dict[str, object] = {"leader_id": NO_NODE, "leader_epoch": -1}
        if topic != raft_wire.METADATA_TOPIC or partition.partition_index != 0:
            return {**unknown, "error_code": ErrorCode.unknown_topic_or_partition}
        if quorum.leadership is None:
            return {
                "error_code": ErrorCode.not_leader_or_follower,
                "leader_id": NO_NODE if quorum.leader_id is None else quorum.leader_id,
                "leader_epoch": quorum.epoch,
            }
        voters = self._voters(quorum.leadership)
        observers = quorum.leadership.observers
        return {
            "leader_id": self._node.node_id,
            "leader_epoch": quorum.epoch,
            "high_watermark": quorum.high_watermark,
            "current_voters": voters,
            "observers": [self._replica(node, observers[node]) for node in sorted(observers)],
        }

    def _voters(self, leadership: Leadership) -> list[dict[str, object]]:
        voters = {voter: self._replica(voter, p) for voter, p in leadership.voters.items()}
        voters[self._node.node_id] = {
            "replica_id": self._node.node_id,
            "log_end_offset": self._node.log.end_offset,
            "last_fetch_timestamp": -1,
            "last_caught_up_timestamp": self._node.wall_clock(),
        }
        return [voters[voter] for voter in sorted(voters)]

    def _replica(self, node: NodeId, progress: ReplicaProgress) -> dict[str, object]:
        return {
            "replica_id": node,
            "log_end_offset": -1 if progress.end_offset is None else progress.end_offset,
            "last_fetch_timestamp": self._wall_ms(progress.last_fetch_ms),
            "last_caught_up_timestamp": self._wall_ms(progress.caught_up_ms),
        }

    def _wall_ms(self, at_ms: float | None) -> int:
        """A monotonic time as wall-clock time; -1 for never."""
        if at_ms is None:
            return -1
        return self._node.wall_clock() - round(self._node.now_ms() - at_ms)
