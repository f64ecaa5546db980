"""Fetch requests: of followers (up to the log's end) and of consumers (up to the high watermark).

A follower's fetch also tells what it has, and is checked for divergence by leader epoch. A fetch
that finds too little waits until something is appended (followers) or committed (consumers), or its
time is up. Fetch sessions are not kept: every answer says so (session id 0), which clients accept.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from nodes.ids import (
    NO_EPOCH,
    NO_NODE,
    NO_OFFSET,
    BrokerEpoch,
    Epoch,
    NodeId,
    Offset,
    TopicPartition,
)
from nodes.log.divergence import EpochEnd, divergence
from nodes.log.errors import LogError
from nodes.server.isr import IsrManager
from nodes.server.queries import leadership_error
from nodes.server.replica import Replica, Wakeup
from nodes.server.replicas import ReplicaManager
from nodes.wire.server import RequestContext
from nodes.wire.versions import respond

TOPIC_IDS_SINCE = 13
REPLICA_STATE_SINCE = 15


@dataclass(frozen=True, slots=True)
class _Fetcher:
    """Who fetches: a follower by its node id, or a consumer (no node)."""

    node: NodeId
    broker_epoch: BrokerEpoch

    @property
    def is_follower(self) -> bool:
        return self.node != NO_NODE


class _Answer(NamedTuple):
    """One partition's part of the response."""

    error: ErrorCode
    high_watermark: Offset = NO_OFFSET
    log_start: Offset = NO_OFFSET
    records: bytes = b""
    diverging: EpochEnd | None = None

    @property
    def urgent(self) -> bool:
        """Not worth waiting: the fetcher has to act on it."""
        return self.error is not ErrorCode.none or self.diverging is not None


_UNREAD = _Answer(ErrorCode.none)


@dataclass(slots=True)
class _Part:
    """One partition's part of the request."""

    topic_key: Any
    partition: TopicPartition | None
    request: Any
    replica: Replica | None
    answer: _Answer = _UNREAD


class FetchHandler:
    """Serves Fetch of topic partitions (the metadata log's is served by the quorum)."""

    def __init__(
        self, replicas: ReplicaManager, isr: IsrManager, now_ms: Callable[[], float]
    ) -> None:
        self._replicas = replicas
        self._isr = isr
        self._now_ms = now_ms

    def handle(self, request: Any, context: RequestContext) -> Any:
        """The response, or an awaitable of it when the fetch has to wait."""
        if request.__version__ >= 7 and request.session_id != 0:
            return respond(request, error_code=ErrorCode.fetch_session_id_not_found)
        fetcher = _fetcher_of(request)
        parts = [self._part(request, topic, part) for topic, part in _requested(request)]
        if fetcher.is_follower:
            self._note_progress(fetcher, parts)
        enough = self._read(request, fetcher, parts)
        if enough or request.max_wait.total_seconds() <= 0 or not parts:
            return _response(request, parts)
        return self._wait(request, fetcher, parts)

    def _part(self, request: Any, topic: Any, part: Any) -> _Part:
        if request.__version__ >= TOPIC_IDS_SINCE:
            key: Any = topic.topic_id
            name = self._replicas.topic_name(topic.topic_id)
        else:
            key = name = topic.topic
        if name is None:
            return _Part(key, None, part, None)
        partition = TopicPartition(name, part.partition)
        return _Part(key, partition, part, self._replicas.find(partition))

    def _note_progress(self, fetcher: _Fetcher, parts: Iterable[_Part]) -> None:
        """Take the fetch offsets as acknowledgements, where the fetcher's log is a prefix of ours.

        Only fetches in the current leader epoch count: what a follower had in an older epoch it may
        have truncated since.
        """
        now_ms = self._now_ms()
        for part in parts:
            replica = part.replica
            if replica is None or _leadership_error(part) is not ErrorCode.none:
                continue
            offset = part.request.fetch_offset
            if offset > replica.log.end_offset or _diverging(replica, part.request):
                continue
            replica.record_fetch(fetcher.node, offset, fetcher.broker_epoch, now_ms)
            self._isr.consider_growing(replica, fetcher.node)

    def _read(self, request: Any, fetcher: _Fetcher, parts: Iterable[_Part]) -> bool:
        """Fill in every part's answer; true when it is enough to respond now."""
        left = request.max_bytes
        total = 0
        urgent = False
        for part in parts:
            part.answer = self._read_part(part, fetcher, left, first=total == 0)
            size = len(part.answer.records)
            total += size
            left -= size
            urgent = urgent or part.answer.urgent
        return urgent or total >= request.min_bytes

    def _read_part(self, part: _Part, fetcher: _Fetcher, left: int, *, first: bool) -> _Answer:
        error = self._part_error(part)
        replica = part.replica
        if error is not ErrorCode.none or replica is None:
            return _Answer(error)
        told = _diverging(replica, part.request)
        state, log = replica.state, replica.log
        if told is not None:
            return _Answer(ErrorCode.none, state.high_watermark, log.start_offset, b"", told)
        offset = part.request.fetch_offset
        upper = log.end_offset if fetcher.is_follower else state.high_watermark
        if not log.start_offset <= offset <= log.end_offset:
            return _Answer(ErrorCode.offset_out_of_range, state.high_watermark, log.start_offset)
        records = b""
        limit = min(left, part.request.partition_max_bytes)
        if offset < upper and (limit > 0 or first):
            try:
                records = log.read(offset, max(limit, 1), upper, at_least_one=first)
            except LogError:
                return _Answer(ErrorCode.kafka_storage_error)
        return _Answer(ErrorCode.none, state.high_watermark, log.start_offset, records)

    def _part_error(self, part: _Part) -> ErrorCode:
        if part.partition is None:
            return ErrorCode.unknown_topic_id
        if part.replica is None:
            return self._replicas.why_not_here(part.partition)
        return _leadership_error(part)

    async def _wait(self, request: Any, fetcher: _Fetcher, parts: list[_Part]) -> Any:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + request.max_wait.total_seconds()
        while True:
            wakeup = Wakeup()
            watched = [part.replica for part in parts if part.replica is not None]
            for replica in watched:
                replica.watch(wakeup, commits=not fetcher.is_follower)
            timer = loop.call_at(deadline, wakeup.fire)
            try:
                # Only now: what was appended since the last look, before this task first ran say,
                # fired nothing, and whoever waits for it would wait until the deadline.
                if self._read(request, fetcher, parts) or loop.time() >= deadline:
                    return _response(request, parts)
                await wakeup.future
            finally:
                timer.cancel()
                for replica in watched:
                    replica.unwatch(wakeup)


def _requested(request: Any) -> list[tuple[Any, Any]]:
    return [(topic, part) for topic in request.topics for part in topic.partitions]


def _fetcher_of(request: Any) -> _Fetcher:
    if request.__version__ >= REPLICA_STATE_SINCE:
        state = request.replica_state
        return _Fetcher(NodeId(state.replica_id), BrokerEpoch(state.replica_epoch))
    return _Fetcher(NodeId(request.replica_id), BrokerEpoch(-1))


def _leadership_error(part: _Part) -> ErrorCode:
    assert part.replica is not None
    return leadership_error(part.replica, getattr(part.request, "current_leader_epoch", NO_EPOCH))


def _diverging(replica: Replica, request: Any) -> EpochEnd | None:
    last_epoch = Epoch(getattr(request, "last_fetched_epoch", NO_EPOCH))
    return divergence(replica.log, last_epoch, request.fetch_offset)


def _response(request: Any, parts: Iterable[_Part]) -> Any:
    """The response, its partitions grouped by topic in the order of the request."""
    topics: dict[Any, list[dict[str, Any]]] = {}
    for part in parts:
        answer = part.answer
        row: dict[str, Any] = {
            "partition_index": part.request.partition,
            "error_code": answer.error,
            "high_watermark": answer.high_watermark,
            "last_stable_offset": answer.high_watermark,
            "log_start_offset": answer.log_start,
            "records": answer.records,
        }
        if answer.diverging is not None:
            epoch, end = answer.diverging
            row["diverging_epoch"] = {"epoch": epoch, "end_offset": end}
        topics.setdefault(part.topic_key, []).append(row)
    by_id = request.__version__ >= TOPIC_IDS_SINCE
    key_name = "topic_id" if by_id else "topic"
    return respond(
        request,
        responses=[{key_name: key, "partitions": rows} for key, rows in topics.items()],
    )
