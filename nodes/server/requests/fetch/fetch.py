"""Fetch requests: of followers (up to the log's end) and of consumers (up to the high watermark).

A follower's fetch also tells what it has, and is checked for divergence by leader epoch; consumers
may read from followers too, and are sent to one in their own rack (KIP-392). A fetch that finds too
little waits until there is more, or its time is up. In a session (KIP-227) only what changed is
named and answered, and a request ends the wait of the one before it, which is then answered with
nothing: so a follower whose partitions change need not sit out a long poll.

An answer is never larger than a quarter of what the node's connections may still hold, one batch
always excepted; what a waiting fetch has found counts, and it is answered when that is too much.

What one partition has to answer is `fetch_read`'s; which may have news, `fetch_parts`'.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.ids import NO_NODE, NO_OFFSET, BrokerEpoch, NodeId
from nodes.server.purgatory.delayed_responses import LongPoll
from nodes.server.replicas.isr import IsrManager
from nodes.server.requests.current_leader import current_leader, node_endpoints
from nodes.server.requests.fetch.partitions import Part, PartKey, PartSet
from nodes.server.requests.fetch.read import NOTHING_YET, Answer, PartReader, Reader
from nodes.server.requests.fetch.sessions import (
    FULL_AND_NO_SESSION,
    NO_SESSION,
    FetchSession,
    SessionCache,
)
from nodes.wire.budget import Budget
from nodes.wire.server import RequestContext
from nodes.wire.versions import respond

SESSIONS_SINCE = 7
TOPIC_IDS_SINCE = 13
REPLICA_STATE_SINCE = 15
CURRENT_LEADER_SINCE = 16
READ_COMMITTED = 1
SHARE_OF_ROOM = 4
LEAST_BYTES = 1 << 20
"""What a fetch may be answered with however little room there is."""

_LEADER_ELSEWHERE = frozenset({ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch})

Session = FetchSession[PartSet]


@dataclass(slots=True)
class _Fetch:
    """One request while it is served; `session_epoch` is the one its answer belongs to."""

    request: Any
    reader: Reader
    parts: PartSet
    session: Session | None = None
    session_epoch: int = 0
    wants_session: bool = False
    answers: dict[Part, Answer] = field(default_factory=dict)
    size: int = 0
    urgent: bool = False

    @property
    def overtaken(self) -> bool:
        """Whether a later request of the same session came, or the session ended, meanwhile."""
        return self.session is not None and self.session.epoch != self.session_epoch

    @property
    def enough(self) -> bool:
        """Whether to answer now."""
        return self.urgent or self.size >= min(self.request.min_bytes, self.reader.max_bytes)


class FetchHandler:
    """Serves Fetch of topic partitions (the metadata log's is served by the quorum)."""

    def __init__(
        self,
        part_reader: PartReader,
        isr: IsrManager,
        sessions: SessionCache[PartSet],
        now_ms: Callable[[], float],
        *,
        max_bytes: int,
        answers: Budget,
    ) -> None:
        self._answers = answers
        self._part_reader = part_reader
        self._isr = isr
        self._sessions = sessions
        self._now_ms = now_ms
        self._max_bytes = max_bytes

    def handle(self, request: Any, context: RequestContext) -> Any:
        """The response, or an awaitable of it when the fetch has to wait."""
        fetch = self._open(request, self._reader(request, context))
        if isinstance(fetch, ErrorCode):
            return respond(request, error_code=fetch)
        if fetch.reader.is_follower:
            self._note_progress(fetch)
        fetch.parts.take_fresh()
        self._look(fetch, fetch.parts.due)
        if fetch.enough or request.max_wait.total_seconds() <= 0 or not fetch.parts.parts:
            return self._response(fetch)
        poll = _Poll(fetch, self._look, self._response, self._answers)
        return poll.begin(request.max_wait.total_seconds())

    # -- sessions ------------------------------------------------------------------------------

    def _reader(self, request: Any, context: RequestContext) -> Reader:
        if request.__version__ >= REPLICA_STATE_SINCE:
            node = NodeId(request.replica_state.replica_id)
            broker_epoch = BrokerEpoch(request.replica_state.replica_epoch)
        else:
            node, broker_epoch = NodeId(request.replica_id), BrokerEpoch(-1)
        follower = node >= 0
        room_bytes = max(self._answers.room_bytes // SHARE_OF_ROOM, LEAST_BYTES)
        return Reader(
            node=node if follower else NO_NODE,
            broker_epoch=broker_epoch,
            version=request.__version__,
            max_bytes=min(request.max_bytes, self._max_bytes, room_bytes),
            rack=getattr(request, "rack_id", ""),
            listener=context.listener,
        )

    def _open(self, request: Any, reader: Reader) -> _Fetch | ErrorCode:
        """The parts that this request is about: its session's, or those that it names."""
        session_id = getattr(request, "session_id", NO_SESSION)
        epoch = getattr(request, "session_epoch", FULL_AND_NO_SESSION)
        if epoch > 0:
            return self._continue(request, reader)
        if session_id != NO_SESSION:
            self._sessions.close(session_id)
        parts = self._part_reader.part_set(reader)
        _ask(parts, request)
        return _Fetch(request, reader, parts, wants_session=epoch != FULL_AND_NO_SESSION)

    def _continue(self, request: Any, reader: Reader) -> _Fetch | ErrorCode:
        by_id = request.__version__ >= TOPIC_IDS_SINCE
        session = self._sessions.find(request.session_id, request.session_epoch, by_topic_id=by_id)
        if isinstance(session, ErrorCode):
            return session
        parts = session.parts
        parts.fetched_by(reader.node, reader.broker_epoch)
        _ask(parts, request)
        for topic in request.forgotten_topics_data:
            key = topic.topic_id if by_id else topic.topic
            for number in topic.partitions:
                parts.forget(PartKey(key, number))
        if not parts.parts:
            self._sessions.close(session.session_id)
            return _Fetch(request, reader, parts)
        self._sessions.advance(session, self._now_ms())
        parts.wake()
        return _Fetch(request, reader, parts, session, session.epoch)

    # -- reading -------------------------------------------------------------------------------

    def _note_progress(self, fetch: _Fetch) -> None:
        """Take the fetch offsets as acknowledgements, where the fetcher's log is a prefix of ours.

        Only fetches in the current leader epoch count: what a follower had in an older epoch it may
        have truncated since. The parts that are not due say what they said before; the pulse is
        enough for them.
        """
        now_ms = self._now_ms()
        parts, reader = fetch.parts, fetch.reader
        parts.pulse.fetched_ms = now_ms
        for part in list(parts.due):
            replica = self._part_reader.agreeing(part, reader)
            if replica is not None:
                replica.record_fetch(
                    reader.node,
                    part.offset,
                    reader.broker_epoch,
                    now_ms,
                    log_start=part.log_start,
                    pulse=parts.pulse,
                )
                self._isr.consider_growing(replica, reader.node)

    def _look(self, fetch: _Fetch, looked: Iterable[Part]) -> None:
        """Find the answers of `looked`, as far as the response has room for records."""
        now_ms = self._now_ms()
        for part in list(looked):
            before = fetch.answers.get(part, NOTHING_YET)
            fetch.size -= len(before.records)
            left = fetch.reader.max_bytes - fetch.size
            first = fetch.size == 0
            answer = self._part_reader.read(part, fetch.reader, left, now_ms, first=first)
            fetch.answers[part] = answer
            fetch.size += len(answer.records)
            fetch.urgent = fetch.urgent or answer.urgent
        if fetch.session is not None and fetch.parts.commits_are_news and fetch.reader.is_follower:
            fetch.urgent = fetch.urgent or any(
                answer.high_watermark != part.told_high_watermark
                for part, answer in fetch.answers.items()
            )

    # -- answering -----------------------------------------------------------------------------

    def _response(self, fetch: _Fetch) -> Any:
        request = fetch.request
        if fetch.overtaken:
            assert fetch.session is not None
            return respond(request, session_id=fetch.session.session_id, responses=())
        incremental = fetch.session is not None
        if fetch.wants_session and fetch.parts.parts:
            fetch.session = self._sessions.create(
                fetch.parts,
                by_topic_id=request.__version__ >= TOPIC_IDS_SINCE,
                privileged=fetch.reader.is_follower,
                now_ms=self._now_ms(),
            )
            if fetch.session is not None:
                fetch.parts.watch()
        answers = list(fetch.answers.items())
        if fetch.session is not None:
            told = [(part, answer, self._tell(fetch, part, answer)) for part, answer in answers]
            answers = [(part, answer) for part, answer, news in told if news or not incremental]
        return respond(
            request,
            session_id=NO_SESSION if fetch.session is None else fetch.session.session_id,
            **self._rows(fetch, answers),
        )

    def _tell(self, fetch: _Fetch, part: Part, answer: Answer) -> bool:
        """Note in the session that the fetcher is told `answer`; whether that is news to it."""
        failed = answer.error is not ErrorCode.none
        news = (
            failed
            or answer.urgent
            or bool(answer.records)
            or answer.high_watermark != part.told_high_watermark
            or answer.log_start != part.told_log_start
        )
        # After an error the partition is told whole: whatever was told before may not hold.
        part.told_high_watermark = NO_OFFSET if failed else answer.high_watermark
        part.told_log_start = answer.log_start
        parts = fetch.parts
        if answer.records:  # the next in line are those that had no room this time
            parts.due.pop(part, None)
            parts.due[part] = None
        elif not (answer.urgent or answer.more or self._part_reader.unsettled(part, fetch.reader)):
            parts.due.pop(part, None)
        return news

    def _rows(self, fetch: _Fetch, answers: Iterable[tuple[Part, Answer]]) -> dict[str, Any]:
        """The response's fields, its partitions grouped by topic in the order of the answers."""
        version = fetch.reader.version
        committed_only = getattr(fetch.request, "isolation_level", 0) == READ_COMMITTED
        topics: dict[Any, list[dict[str, Any]]] = {}
        leaders: list[NodeId] = []
        image = self._part_reader.image
        for part, answer in answers:
            row: dict[str, Any] = {
                "partition_index": part.key.partition,
                "error_code": answer.error,
                "high_watermark": answer.high_watermark,
                "last_stable_offset": answer.high_watermark,
                "log_start_offset": answer.log_start,
                "aborted_transactions": () if committed_only else None,
                "preferred_read_replica": answer.preferred,
                "records": answer.records,
            }
            if answer.diverging is not None:
                epoch, end = answer.diverging
                row["diverging_epoch"] = {"epoch": epoch, "end_offset": end}
            if version >= CURRENT_LEADER_SINCE and answer.error in _LEADER_ELSEWHERE:
                assert part.partition is not None
                row["current_leader"] = current_leader(image, part.partition)
                leaders.append(NodeId(row["current_leader"]["leader_id"]))
            topics.setdefault(part.key.topic, []).append(row)
        key_name = "topic_id" if version >= TOPIC_IDS_SINCE else "topic"
        fields: dict[str, Any] = {
            "responses": [{key_name: key, "partitions": rows} for key, rows in topics.items()]
        }
        if leaders:
            fields["node_endpoints"] = node_endpoints(image, leaders, fetch.reader.listener)
        return fields


class _Poll(LongPoll):
    """A fetch that found too little: until there is more, or a later request overtakes it."""

    def __init__(
        self,
        fetch: _Fetch,
        look: Callable[[_Fetch, Iterable[Part]], None],
        respond: Callable[[_Fetch], Any],
        answers: Budget,
    ) -> None:
        super().__init__()
        self._answers = answers
        self._fetch = fetch
        self._look = look
        self._respond = respond
        fetch.parts.watch()

    def wait(self) -> None:
        self._fetch.parts.wait(self.woken)
        self._answers.hold(self, self._fetch.size)

    def shed(self, reason: str) -> None:
        """Answer with what there is."""
        asyncio.get_running_loop().call_soon(self.end_wait)

    def look(self, *, last: bool) -> Any:
        fetch = self._fetch
        if not fetch.overtaken:
            self._look(fetch, fetch.parts.take_fresh())
            if not fetch.enough and not last:
                return None
        return self._respond(fetch)

    def leave(self) -> None:
        self._answers.hold(self, 0)
        self._fetch.parts.leave(self.woken)
        if self._fetch.session is None:
            self._fetch.parts.release()


def _ask(parts: PartSet, request: Any) -> None:
    by_id = request.__version__ >= TOPIC_IDS_SINCE
    for topic in request.topics:
        key = topic.topic_id if by_id else topic.topic
        for wanted in topic.partitions:
            parts.ask(PartKey(key, wanted.partition), wanted)
