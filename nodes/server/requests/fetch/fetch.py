"""Fetch requests: of followers (up to the log's end) and of consumers (up to the high watermark, or
to the last stable offset, which moves only when the high watermark does).

A follower's fetch also reports what the follower has, and is checked for divergence by leader
epoch. Consumers may read from followers too, and are sent to a follower in their own rack
(KIP-392). A fetch that finds too little waits until there is more, or until its time is up.

In a session (KIP-227) only what changed is sent, in both directions. A new request of a session
ends the wait of the request before it, which gets an empty response. So a follower whose partitions
change need not wait until the delayed fetch ends.

A response is never larger than a quarter of what the node's connections may still hold, except that
it may always have one batch. What a delayed fetch has found counts as held, and the fetch responds
when all connections hold too much.

`read` reads one partition; `partitions` knows which partitions have to be read.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.ids import NO_NODE, NO_OFFSET, BrokerEpoch, NodeId
from nodes.server.purgatory.delayed_responses import DelayedResponse
from nodes.server.replicas.isr import IsrManager
from nodes.server.requests.current_leader import current_leader, node_endpoints
from nodes.server.requests.fetch.partitions import (
    READ_AT_ONCE,
    FetchPartition,
    FetchPartitionKey,
    FetchPartitionSet,
)
from nodes.server.requests.fetch.read import (
    NO_DATA,
    FetchParams,
    FetchPartitionData,
    PartitionReader,
)
from nodes.server.requests.fetch.sessions import (
    FULL_AND_NO_SESSION,
    NO_SESSION,
    FetchSession,
    FetchSessionCache,
)
from nodes.server.requests.list_offsets import READ_COMMITTED
from nodes.wire.budget import ByteBudget
from nodes.wire.server import RequestContext
from nodes.wire.versions import respond

SESSIONS_SINCE = 7
TOPIC_IDS_SINCE = 13
REPLICA_STATE_SINCE = 15
CURRENT_LEADER_SINCE = 16
SHARE_OF_AVAILABLE = 4
MIN_LIMIT_BYTES = 1 << 20
"""A response may have so many bytes, however little is available."""

_LEADER_ELSEWHERE = frozenset({ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch})

Session = FetchSession[FetchPartitionSet]


@dataclass(slots=True)
class _FetchInProgress:
    """One request while it is served; `session_epoch` is the one that its response belongs to."""

    request: Any
    params: FetchParams
    partitions: FetchPartitionSet
    session: Session | None = None
    session_epoch: int = 0
    wants_session: bool = False
    data: dict[FetchPartition, FetchPartitionData] = field(default_factory=dict)
    size: int = 0
    needs_action: bool = False
    left_some: bool = False
    """Whether there is more to read than one request reads."""

    def leave(self, partitions: Iterable[FetchPartition]) -> None:
        """Leave `partitions`, which are due, to the next request; what was read is too old."""
        self.left_some = True
        for partition in partitions:
            self.size -= len(self.data.pop(partition, NO_DATA).records)

    @property
    def superseded(self) -> bool:
        """Whether a later request of the session has come, or the session was closed."""
        return self.session is not None and self.session.epoch != self.session_epoch

    @property
    def has_enough(self) -> bool:
        """Whether to respond now."""
        enough = self.size >= min(self.request.min_bytes, self.params.max_bytes)
        return self.needs_action or self.left_some or enough


class FetchHandler:
    """Serves Fetch of topic partitions (the metadata log's is served by the quorum)."""

    def __init__(
        self,
        partition_reader: PartitionReader,
        isr: IsrManager,
        sessions: FetchSessionCache[FetchPartitionSet],
        now_ms: Callable[[], float],
        *,
        max_bytes: int,
        response_budget: ByteBudget,
    ) -> None:
        self._response_budget = response_budget
        self._partition_reader = partition_reader
        self._isr = isr
        self._sessions = sessions
        self._now_ms = now_ms
        self._max_bytes = max_bytes

    def handle(self, request: Any, context: RequestContext) -> Any:
        """Return the response, or an awaitable of it if the fetch has to wait."""
        fetch = self._open(request, self._fetch_params(request, context))
        if isinstance(fetch, ErrorCode):
            return respond(request, error_code=fetch)
        due, fetch.left_some = fetch.partitions.take_due(some=fetch.session is not None)
        if fetch.params.is_follower:
            self._record_follower_offsets(fetch, due)
        fetch.partitions.take_changed()
        self._read(fetch, due)
        if fetch.has_enough or request.max_wait.total_seconds() <= 0 or not fetch.partitions.by_key:
            return self._response(fetch)
        delayed = _DelayedFetch(fetch, self._read, self._response, self._response_budget)
        return delayed.start(request.max_wait.total_seconds())

    # -- sessions ------------------------------------------------------------------------------

    def _fetch_params(self, request: Any, context: RequestContext) -> FetchParams:
        if request.__version__ >= REPLICA_STATE_SINCE:
            node = NodeId(request.replica_state.replica_id)
            broker_epoch = BrokerEpoch(request.replica_state.replica_epoch)
        else:
            node, broker_epoch = NodeId(request.replica_id), BrokerEpoch(-1)
        follower = node >= 0
        limit_bytes = max(
            self._response_budget.available_bytes // SHARE_OF_AVAILABLE, MIN_LIMIT_BYTES
        )
        return FetchParams(
            replica_id=node if follower else NO_NODE,
            broker_epoch=broker_epoch,
            late=follower and self._has_registered_again(node, broker_epoch),
            version=request.__version__,
            max_bytes=min(request.max_bytes, self._max_bytes, limit_bytes),
            rack=getattr(request, "rack_id", ""),
            listener=context.listener,
            committed_only=not follower and request.isolation_level == READ_COMMITTED,
        )

    def _has_registered_again(self, node: NodeId, broker_epoch: BrokerEpoch) -> bool:
        """Whether the follower has a later broker epoch than that of its fetch (-1: none).

        The network may deliver a fetch that late. The follower may have lost since what it had.
        """
        brokers = self._partition_reader.image.brokers
        return node in brokers and -1 < broker_epoch < brokers[node].epoch

    def _open(self, request: Any, params: FetchParams) -> _FetchInProgress | ErrorCode:
        """Return the fetch with the partitions of its session, or of the request itself."""
        session_id = getattr(request, "session_id", NO_SESSION)
        epoch = getattr(request, "session_epoch", FULL_AND_NO_SESSION)
        if epoch > 0:
            return self._continue(request, params)
        if session_id != NO_SESSION:
            self._sessions.close(session_id)
        partitions = self._partition_reader.new_partition_set(params)
        _add_requested(partitions, request)
        wants_session = epoch != FULL_AND_NO_SESSION
        return _FetchInProgress(request, params, partitions, wants_session=wants_session)

    def _continue(self, request: Any, params: FetchParams) -> _FetchInProgress | ErrorCode:
        by_id = request.__version__ >= TOPIC_IDS_SINCE
        session = self._sessions.find(request.session_id, request.session_epoch, by_topic_id=by_id)
        if isinstance(session, ErrorCode):
            return session
        partitions = session.partitions
        partitions.set_follower(params.replica_id, params.broker_epoch)
        _add_requested(partitions, request)
        for topic in request.forgotten_topics_data:
            key = topic.topic_id if by_id else topic.topic
            for number in topic.partitions:
                partitions.forget(FetchPartitionKey(key, number))
        if not partitions.by_key:
            self._sessions.close(session.session_id)
            return _FetchInProgress(request, params, partitions)
        self._sessions.advance(session, self._now_ms())
        partitions.wake()
        return _FetchInProgress(request, params, partitions, session, session.epoch)

    # -- reading -------------------------------------------------------------------------------

    def _record_follower_offsets(
        self, fetch: _FetchInProgress, due: Iterable[FetchPartition]
    ) -> None:
        """Count the fetch offsets as acknowledgements, if the follower's log is a prefix of ours.

        Only fetches in the current leader epoch count: the follower may have truncated what it had
        in an older epoch. For partitions that are not due nothing changed since the last fetch, so
        the time of this fetch (the session's activity) is enough.
        """
        now_ms = self._now_ms()
        partitions, params = fetch.partitions, fetch.params
        partitions.activity.fetched_ms = now_ms
        for partition in due:
            replica = self._partition_reader.matching_replica(partition, params)
            if replica is not None:
                replica.record_fetch(
                    params.replica_id,
                    partition.offset,
                    params.broker_epoch,
                    now_ms,
                    log_start=partition.log_start,
                    activity=partitions.activity,
                )
                self._isr.maybe_expand_isr(replica, params.replica_id)

    def _read(self, fetch: _FetchInProgress, partitions: Iterable[FetchPartition]) -> None:
        """Read `partitions`, as far as the response has room for their records."""
        now_ms = self._now_ms()
        for partition in list(partitions):
            before = fetch.data.get(partition, NO_DATA)
            fetch.size -= len(before.records)
            left = fetch.params.max_bytes - fetch.size
            first = fetch.size == 0
            data = self._partition_reader.read(partition, fetch.params, left, now_ms, first=first)
            fetch.data[partition] = data
            fetch.size += len(data.records)
            fetch.needs_action = fetch.needs_action or data.needs_action
        reports_commits = fetch.partitions.wakes_on_commit and fetch.params.is_follower
        if fetch.session is not None and reports_commits:
            fetch.needs_action = fetch.needs_action or any(
                data.high_watermark != partition.sent_high_watermark
                for partition, data in fetch.data.items()
            )

    # -- responding ----------------------------------------------------------------------------

    def _response(self, fetch: _FetchInProgress) -> Any:
        request = fetch.request
        if fetch.superseded:
            assert fetch.session is not None
            return respond(request, session_id=fetch.session.session_id, responses=())
        incremental = fetch.session is not None
        if fetch.wants_session and fetch.partitions.by_key:
            fetch.session = self._sessions.create(
                fetch.partitions,
                by_topic_id=request.__version__ >= TOPIC_IDS_SINCE,
                privileged=fetch.params.is_follower,
                now_ms=self._now_ms(),
            )
            if fetch.session is not None:
                fetch.partitions.watch()
        sent = list(fetch.data.items())
        if fetch.session is not None:
            updated = [(each, data, self._update_session(fetch, each, data)) for each, data in sent]
            sent = [(each, data) for each, data, is_new in updated if is_new or not incremental]
        return respond(
            request,
            session_id=NO_SESSION if fetch.session is None else fetch.session.session_id,
            **self._rows(fetch, sent),
        )

    def _update_session(
        self, fetch: _FetchInProgress, partition: FetchPartition, data: FetchPartitionData
    ) -> bool:
        """Note in the session that `data` is sent; return whether it is new to the fetcher."""
        failed = data.error is not ErrorCode.none
        is_new = (
            failed
            or data.needs_action
            or bool(data.records)
            or data.high_watermark != partition.sent_high_watermark
            or data.log_start != partition.sent_log_start
        )
        # After an error the next response sends everything: earlier values may not hold any more.
        partition.sent_high_watermark = NO_OFFSET if failed else data.high_watermark
        partition.sent_log_start = data.log_start
        due, joining = fetch.partitions.due, fetch.partitions.joining
        if data.records:  # next time, partitions that had no room in this response come first
            due.pop(partition, None)
            due[partition] = None
        elif not (data.needs_action or data.more):
            if self._partition_reader.may_join_isr(partition, fetch.params):
                joining[partition] = None
            else:
                due.pop(partition, None)
                if joining:
                    joining.pop(partition, None)
        return is_new

    def _rows(
        self, fetch: _FetchInProgress, sent: Iterable[tuple[FetchPartition, FetchPartitionData]]
    ) -> dict[str, Any]:
        """The fields of the response, with the partitions by topic in the order of `sent`."""
        version, committed_only = fetch.params.version, fetch.params.committed_only
        topics: dict[Any, list[dict[str, Any]]] = {}
        leaders: list[NodeId] = []
        image = self._partition_reader.image
        for partition, data in sent:
            row: dict[str, Any] = {
                "partition_index": partition.key.partition,
                "error_code": data.error,
                "high_watermark": data.high_watermark,
                "last_stable_offset": data.last_stable_offset,
                "log_start_offset": data.log_start,
                "aborted_transactions": _aborted(data) if committed_only else None,
                "preferred_read_replica": data.preferred,
                "records": data.records,
            }
            if data.diverging is not None:
                epoch, end = data.diverging
                row["diverging_epoch"] = {"epoch": epoch, "end_offset": end}
            if version >= CURRENT_LEADER_SINCE and data.error in _LEADER_ELSEWHERE:
                assert partition.topic_partition is not None
                row["current_leader"] = current_leader(image, partition.topic_partition)
                leaders.append(NodeId(row["current_leader"]["leader_id"]))
            topics.setdefault(partition.key.topic, []).append(row)
        key_name = "topic_id" if version >= TOPIC_IDS_SINCE else "topic"
        fields: dict[str, Any] = {
            "responses": [{key_name: key, "partitions": rows} for key, rows in topics.items()]
        }
        if leaders:
            fields["node_endpoints"] = node_endpoints(image, leaders, fetch.params.listener)
        return fields


class _DelayedFetch(DelayedResponse):
    """A fetch that found too little; it waits for more, or for a later request of its session."""

    def __init__(
        self,
        fetch: _FetchInProgress,
        read: Callable[[_FetchInProgress, Iterable[FetchPartition]], None],
        response_of: Callable[[_FetchInProgress], Any],
        response_budget: ByteBudget,
    ) -> None:
        super().__init__()
        self._response_budget = response_budget
        self._fetch = fetch
        self._read = read
        self._response_of = response_of
        fetch.partitions.watch()

    def watch(self) -> None:
        self._fetch.partitions.wait(self.check_and_complete, self.response.get_loop())
        self._response_budget.hold(self, self._fetch.size)

    def shed(self, reason: str) -> None:
        """All connections hold too much: respond with what there is."""
        asyncio.get_running_loop().call_soon(self.force_complete)

    def try_complete(self, *, forced: bool) -> Any:
        fetch = self._fetch
        if not fetch.superseded:
            changed = fetch.partitions.take_changed()
            if len(changed) > READ_AT_ONCE and fetch.session is not None:
                fetch.leave(islice(changed, READ_AT_ONCE, None))
                self._read(fetch, islice(changed, READ_AT_ONCE))
            else:
                self._read(fetch, changed)
            if not fetch.has_enough and not forced:
                return None
        return self._response_of(fetch)

    def unwatch(self) -> None:
        self._response_budget.hold(self, 0)
        self._fetch.partitions.stop_waiting(self.check_and_complete)
        if self._fetch.session is None:
            self._fetch.partitions.release()


def _aborted(data: FetchPartitionData) -> Sequence[dict[str, int]]:
    """The aborted transactions, for consumers with isolation.level=read_committed only."""
    return [
        {"producer_id": each.producer_id, "first_offset": each.first_offset}
        for each in data.aborted
    ]


def _add_requested(partitions: FetchPartitionSet, request: Any) -> None:
    by_id = request.__version__ >= TOPIC_IDS_SINCE
    for topic in request.topics:
        key = topic.topic_id if by_id else topic.topic
        for requested in topic.partitions:
            partitions.add(FetchPartitionKey(key, requested.partition), requested)
