"""Handlers of the quorum's requests: Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch, FetchSnapshot,
DescribeQuorum.

A fetch waits until there are records or a high watermark that the replica was not sent yet, at most
as long as the request allows. So commits reach brokers without polling.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from kio.schema.errors import ErrorCode

from nodes.ids import NO_NODE, NodeId, Offset
from nodes.raft.leadership import Leadership, ReplicaProgress
from nodes.raft.messages import Action, FetchRequest, FetchResponse, Response
from nodes.server.purgatory.delayed_responses import DelayedResponse
from nodes.server.quorum import translation
from nodes.server.quorum.member import QuorumMember
from nodes.server.quorum.peers import Address
from nodes.wire.server import Api, RequestContext
from nodes.wire.versions import respond

MAX_WAIT_MS: Final = 1000.0
MAX_PART_BYTES: Final = 1 << 20
"""The most bytes of a snapshot in one response, whatever the request allows."""

MAX_RECORD_BYTES: Final = 8 << 20
"""The most bytes of the log in one response, except that one larger batch is sent whole."""

MAX_REPLICAS: Final = 1000
"""The last high watermarks of so many replicas are stored; one more replica clears the table."""


class _DelayedMetadataFetch(DelayedResponse):
    """A fetch that waits until the log, the high watermark or the leadership changes."""

    def __init__(
        self, handlers: "QuorumRequestHandler", request: Any, message: FetchRequest, max_bytes: int
    ) -> None:
        super().__init__()
        self._handlers = handlers
        self._request = request
        self._message = message
        self._max_bytes = max_bytes

    def watch(self) -> None:
        self._change = self._handlers.node.next_change()
        self._change.add_done_callback(self.check_and_complete)

    def try_complete(self, *, forced: bool) -> Any:
        handlers, message = self._handlers, self._message
        answer = handlers.node.quorum.fetch_response(message)
        if handlers.has_no_news(message, answer) and not forced:
            return None
        return handlers.fetch_response(self._request, message, answer, self._max_bytes)

    def unwatch(self) -> None:
        self._change.remove_done_callback(self.check_and_complete)


class QuorumRequestHandler:
    """The handlers of one member."""

    def __init__(self, node: QuorumMember) -> None:
        self.node = node
        self._sent_high_watermarks: dict[NodeId, Offset] = {}

    def apis(self) -> dict[int, Api]:
        """The requests served, by api key."""
        return {
            1: Api(17, 17, self.fetch),
            52: Api(2, 2, self.vote),
            53: Api(1, 1, self.begin_quorum_epoch),
            54: Api(1, 1, self.end_quorum_epoch),
            55: Api(0, 2, self.describe_quorum),
            59: Api(0, 1, self.fetch_snapshot),
        }

    def vote(self, request: Any, context: RequestContext) -> Any:
        """Vote, also as a pre-vote."""
        node = self.node
        try:
            message = translation.read_vote(request, node.config.cluster_id, node.config.node_id)
        except translation.InvalidRequest as error:
            return respond(request, error_code=error.code)
        return self._handle(
            request, message.candidate_id, lambda now: node.quorum.on_vote(now, message)
        )

    def begin_quorum_epoch(self, request: Any, context: RequestContext) -> Any:
        """BeginQuorumEpoch."""
        node = self.node
        try:
            message = translation.read_begin_epoch(
                request, node.config.cluster_id, node.config.node_id
            )
        except translation.InvalidRequest as error:
            return respond(request, error_code=error.code)

        def decide(now_ms: float) -> tuple[Response, list[Action]]:
            answer, actions = node.quorum.on_begin_epoch(now_ms, message)
            if answer.error is ErrorCode.none:  # believe a node about its own address only
                for endpoint in request.leader_endpoints[:1]:
                    node.peers.set_address(message.leader_id, (endpoint.host, endpoint.port))
            return answer, actions

        return self._handle(request, message.leader_id, decide)

    def end_quorum_epoch(self, request: Any, context: RequestContext) -> Any:
        """EndQuorumEpoch."""
        node = self.node
        try:
            message = translation.read_end_epoch(
                request, node.config.cluster_id, node.config.node_id
            )
        except translation.InvalidRequest as error:
            return respond(request, error_code=error.code)
        return self._handle(
            request, message.leader_id, lambda now: node.quorum.on_end_epoch(now, message)
        )

    def _handle(
        self,
        request: Any,
        sender: NodeId,
        decide: Callable[[float], tuple[Response, list[Action]]],
    ) -> Any:
        node = self.node
        node.record_contact(sender)
        with node.critical():
            answer, actions = decide(node.now_ms())
        node.carry_out(actions)
        return translation.write_answer(request, answer, self._leader_address())

    def _leader_address(self) -> Address | None:
        leader = self.node.quorum.leader_id
        return None if leader is None else self.node.peers.addresses.get(leader)

    # -- fetches

    def fetch(self, request: Any, context: RequestContext) -> Any:
        """Fetch, of the metadata log."""
        node = self.node
        try:
            message, max_bytes = translation.read_fetch(request, node.config.cluster_id)
        except translation.InvalidRequest as error:
            return respond(request, error_code=error.code)
        node.record_contact(message.replica_id)
        with node.critical():
            answer, actions = node.quorum.on_fetch(node.now_ms(), message)
        node.carry_out(actions)
        wait_ms = min(request.max_wait.total_seconds() * 1000, MAX_WAIT_MS)
        if wait_ms > 0 and self.has_no_news(message, answer):
            return _DelayedMetadataFetch(self, request, message, max_bytes).start(wait_ms / 1000)
        return self.fetch_response(request, message, answer, max_bytes)

    def fetch_response(
        self, request: Any, message: FetchRequest, answer: FetchResponse, max_bytes: int
    ) -> Any:
        """The response, with the records that are there."""
        node = self.node
        records = b""
        if answer.plain:
            length = max(1, min(max_bytes, MAX_RECORD_BYTES))
            records = node.log.read(message.offset, length, node.log.end_offset)
            if len(self._sent_high_watermarks) >= MAX_REPLICAS:
                self._sent_high_watermarks.clear()
            self._sent_high_watermarks[message.replica_id] = answer.high_watermark
        return translation.write_fetch_answer(
            request, answer, records, node.log.start_offset, self._leader_address()
        )

    def has_no_news(self, message: FetchRequest, answer: FetchResponse) -> bool:
        """Whether the replica was sent everything in this answer before."""
        return (
            answer.plain
            and message.offset >= self.node.log.end_offset
            and answer.high_watermark
            <= self._sent_high_watermarks.get(message.replica_id, Offset(-1))
        )

    def fetch_snapshot(self, request: Any, context: RequestContext) -> Any:
        """FetchSnapshot: a part of a snapshot file."""
        node = self.node
        try:
            replica, epoch, requested, max_bytes = translation.read_fetch_snapshot(
                request, node.config.cluster_id
            )
        except translation.InvalidRequest as error:
            return respond(request, error_code=error.code)
        node.record_contact(replica.node_id)
        with node.critical():
            answer, actions = node.quorum.on_snapshot_fetch(node.now_ms(), epoch, replica)
        node.carry_out(actions)
        part = requested
        if answer.error is ErrorCode.none:
            size = node.log.snapshots.size(requested.snapshot_id)
            if size is None:
                answer = replace(answer, error=ErrorCode.snapshot_not_found)
            elif not 0 <= requested.position < size:
                answer = replace(answer, error=ErrorCode.position_out_of_range)
            else:
                length = max(1, min(max_bytes, MAX_PART_BYTES))
                data = node.log.snapshots.part(requested.snapshot_id, requested.position, length)
                part = replace(requested, size=size, data=data)
        return translation.write_snapshot_answer(request, answer, part, self._leader_address())

    # -- DescribeQuorum

    def describe_quorum(self, request: Any, context: RequestContext) -> Any:
        """DescribeQuorum; only the leader knows the state of the voters."""
        quorum = self.node.quorum
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
            {
                "node_id": voter.node_id,
                "listeners": [
                    {"name": e.listener, "host": e.host, "port": e.port} for e in voter.endpoints
                ],
            }
            for voter in quorum.voters.voters
        ]
        return respond(request, topics=topics, nodes=nodes if quorum.leadership else [])

    def _describe(self, topic: str, partition: Any) -> dict[str, object]:
        quorum = self.node.quorum
        unknown: dict[str, object] = {"leader_id": NO_NODE, "leader_epoch": -1}
        if topic != translation.METADATA_TOPIC or partition.partition_index != 0:
            return {**unknown, "error_code": ErrorCode.unknown_topic_or_partition}
        if quorum.leadership is None:
            return {
                "error_code": ErrorCode.not_leader_or_follower,
                "leader_id": NO_NODE if quorum.leader_id is None else quorum.leader_id,
                "leader_epoch": quorum.epoch,
            }
        voters = self._voters(quorum.leadership)
        observers = sorted(quorum.leadership.observers.items(), key=lambda item: item[0].node_id)
        return {
            "leader_id": self.node.config.node_id,
            "leader_epoch": quorum.epoch,
            "high_watermark": quorum.high_watermark,
            "current_voters": voters,
            "observers": [self._replica(key.node_id, progress) for key, progress in observers],
        }

    def _voters(self, leadership: Leadership) -> list[dict[str, object]]:
        node = self.node
        voters = {voter: self._replica(voter, p) for voter, p in leadership.voters.items()}
        if node.quorum.is_voter:
            voters[node.config.node_id] = {
                "replica_id": node.config.node_id,
                "replica_directory_id": node.config.directory_id,
                "log_end_offset": node.log.end_offset,
                "last_fetch_timestamp": node.wall_clock(),
                "last_caught_up_timestamp": node.wall_clock(),
            }
        return [voters[voter] for voter in sorted(voters)]

    def _replica(self, node: NodeId, progress: ReplicaProgress) -> dict[str, object]:
        return {
            "replica_id": node,
            "replica_directory_id": progress.directory_id,
            "log_end_offset": -1 if progress.end_offset is None else progress.end_offset,
            "last_fetch_timestamp": self._wall_ms(progress.last_fetch_ms),
            "last_caught_up_timestamp": self._wall_ms(progress.caught_up_ms),
        }

    def _wall_ms(self, at_ms: float | None) -> int:
        """A monotonic time as wall-clock time; -1 for never."""
        if at_ms is None:
            return -1
        return self.node.wall_clock() - round(self.node.now_ms() - at_ms)
