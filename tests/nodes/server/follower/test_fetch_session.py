"""The follower's side of a fetch session, alone and against the leader's side."""

from collections import deque
from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from nodes.ids import Epoch, TopicPartition
from nodes.log.batch import iter_batches
from nodes.server.follower.fetch_session import (
    BACKOFF_PER_PARTITION_MS,
    FIRST_BACKOFF_MS,
    MAX_SENT,
    FetchRequestData,
    FetchSessionHandler,
    FollowedPartition,
)
from tests.support.nodes.fetching import BATCH, EPOCH, FOLLOWER, FetchBroker, topic_id

BACKOFF_MS = 50


def partition(number: int) -> TopicPartition:
    return TopicPartition(f"t{number}", 0)


def new_session(*numbers: int) -> FetchSessionHandler:
    made = FetchSessionHandler(BACKOFF_MS)
    for number in numbers:
        made.add(partition(number), topic_id(number), EPOCH)
    return made


def names(data: FetchRequestData | None) -> list[str]:
    assert data is not None
    return [followed.partition.topic for followed in data.to_send]


def test_request_sends_only_partitions_that_changed() -> None:
    """First all, then the one whose position changed, then none."""
    session = new_session(0, 1, 2)
    data = session.next_request(0)
    assert data is not None
    assert (names(data), data.session_id, data.session_epoch) == (["t0", "t1", "t2"], 0, 0)
    assert session.handle_response(data.number, 77, ErrorCode.none)
    moved = session.current(data.number, partition(1))
    assert moved is not None
    session.position_changed(moved)
    assert session.current(data.number, partition(1)) is None, "its position is not that one now"
    data = session.next_request(0)
    assert data is not None
    assert (names(data), data.session_id, data.session_epoch) == (["t1"], 77, 1)
    assert names(session.next_request(0)) == []


def test_response_from_an_older_leader_epoch_does_not_count() -> None:
    """It may have records that the leader has truncated since."""
    session = new_session(0)
    data = session.next_request(0)
    assert data is not None
    session.handle_response(data.number, 77, ErrorCode.none)
    waiting = session.next_request(0)
    assert waiting is not None
    session.add(partition(0), topic_id(0), Epoch(EPOCH + 1))
    assert session.current(waiting.number, partition(0)) is None
    renamed = session.next_request(0)
    assert renamed is not None
    assert (names(renamed), renamed.to_forget) == (["t0"], ())
    assert session.current(waiting.number, partition(0)) is None
    assert session.current(renamed.number, partition(0)) is not None


def test_partition_with_errors_is_paused_longer_each_time() -> None:
    """It is forgotten, and sent again after its pause; the others continue."""
    session = new_session(0, 1)
    first = session.next_request(0)
    assert first is not None
    session.handle_response(first.number, 77, ErrorCode.none)
    now_ms, number, pauses = 0.0, first.number, []
    for _ in range(6):
        failed = session.current(number, partition(0))
        assert failed is not None
        session.back_off(failed, now_ms)
        data = session.next_request(now_ms)
        assert data is not None
        assert (names(data), data.to_forget) == ([], ((topic_id(0), 0),))
        pauses.append(session.next_resume_ms - now_ms)
        now_ms = session.next_resume_ms
        data = session.next_request(now_ms)
        assert names(data) == ["t0"]
        number = data.number if data else 0
    assert pauses == [FIRST_BACKOFF_MS * 2**n for n in range(4)] + [BACKOFF_MS] * 2


def test_many_partitions_with_errors_are_paused_for_longer() -> None:
    """Thousands of retries every few milliseconds would keep both brokers busy."""
    session = new_session(*range(200))
    data = session.next_request(0)
    assert data is not None
    session.handle_response(data.number, 77, ErrorCode.none)
    for followed in data.to_send:
        session.back_off(followed, 0)
    retried = [f for f in data.to_send if (f.paused_until_ms or 0) <= FIRST_BACKOFF_MS]
    assert len(retried) <= FIRST_BACKOFF_MS / BACKOFF_PER_PARTITION_MS + 1
    assert max(f.paused_until_ms or 0 for f in data.to_send) <= 200 * BACKOFF_PER_PARTITION_MS


def test_no_request_is_sent_while_all_partitions_are_paused() -> None:
    """The leader would close a session without partitions."""
    session = new_session(0)
    data = session.next_request(0)
    assert data is not None
    session.handle_response(data.number, 77, ErrorCode.none)
    failed = session.current(data.number, partition(0))
    assert failed is not None
    session.back_off(failed, 0)
    assert session.next_request(0) is None
    assert names(session.next_request(FIRST_BACKOFF_MS)) == ["t0"]


def test_many_partitions_are_sent_in_several_requests() -> None:
    """Only the last of them may wait, so that all are sent soon."""
    session = new_session(*range(2 * MAX_SENT + 1))
    sizes = []
    for number in range(1, 5):
        data = session.next_request(0)
        assert data is not None
        sizes.append((len(data.to_send), data.may_wait))
        session.handle_response(number, 77, ErrorCode.none)
    assert sizes == [(MAX_SENT, False), (MAX_SENT, False), (1, True), (0, True)]


def test_many_partitions_are_forgotten_in_several_requests() -> None:
    """A request with all of them would have more elements than a broker accepts."""
    session = new_session(*range(2 * MAX_SENT + 1))
    for number in range(1, 4):
        assert session.next_request(0) is not None
        session.handle_response(number, 77, ErrorCode.none)
    for number in range(2 * MAX_SENT):
        session.remove(partition(number))
    forgotten: list[tuple[UUID, int]] = []
    sizes = []
    while session.has_changes(0):
        data = session.next_request(0)
        assert data is not None
        sizes.append((len(data.to_forget), data.may_wait))
        forgotten += data.to_forget
    assert sizes == [(MAX_SENT, False), (MAX_SENT, True)]
    assert forgotten == [(topic_id(number), 0) for number in range(2 * MAX_SENT)]


def test_request_without_a_session_sends_all_partitions() -> None:
    """A leader may refuse a session; then requests still may wait."""
    session = new_session(*range(MAX_SENT + 1))
    data = session.next_request(0)
    assert data is not None
    session.handle_response(data.number, 0, ErrorCode.none)
    for _ in range(2):
        data = session.next_request(0)
        assert data is not None
        assert (len(data.to_send), data.may_wait, data.session_epoch) == (MAX_SENT + 1, True, 0)
        session.handle_response(data.number, 0, ErrorCode.none)


def test_session_error_starts_one_new_session() -> None:
    """Responses to requests of the old session have no effect any more."""
    session = new_session(0)
    first = session.next_request(0)
    assert first is not None
    session.handle_response(first.number, 77, ErrorCode.none)
    second, third = session.next_request(0), session.next_request(0)
    assert second is not None
    assert third is not None
    assert not session.handle_response(second.number, 77, ErrorCode.invalid_fetch_session_epoch)
    anew = session.next_request(0)
    assert anew is not None
    assert (names(anew), anew.session_id, anew.session_epoch) == (["t0"], 77, 0)
    assert not session.handle_response(third.number, 77, ErrorCode.invalid_fetch_session_epoch)
    session.handle_response(anew.number, 78, ErrorCode.none)
    data = session.next_request(0)
    assert data is not None
    assert (data.session_id, data.session_epoch) == (78, 1)


class Pair:
    """A leader with real logs, and a follower that keeps only how far it has come."""

    def __init__(self, count: int) -> None:
        self.broker = FetchBroker(count)
        self.have = dict.fromkeys(range(count), 0)
        self.epochs = dict.fromkeys(range(count), int(EPOCH))
        self.session = new_session(*range(count))
        self.answers: deque[tuple[FetchRequestData, Any]] = deque()
        self.now_ms = 0.0

    def send(self) -> None:
        data = self.session.next_request(self.now_ms)
        if data is None:
            return
        wanted = {}
        parts: dict[int, FollowedPartition] = {}
        for followed in data.to_send:
            number = followed.topic_id.int - 1
            wanted[number], parts[number] = self.have[number], followed
        request = self.broker.request(
            wanted,
            node=FOLLOWER,
            session=(data.session_id, data.session_epoch),
            forgotten=tuple(topic.int - 1 for topic, _ in data.to_forget),
            part_of=lambda number: {"current_leader_epoch": parts[number].leader_epoch},
            max_bytes=2 * len(BATCH),
        )
        self.answers.append((data, self.broker.answer(request)))

    def receive(self) -> None:
        if not self.answers:
            return
        data, response = self.answers.popleft()
        if not self.session.handle_response(data.number, response.session_id, response.error_code):
            return
        for topic in response.responses:
            (part,) = topic.partitions
            number = topic.topic_id.int - 1
            followed = self.session.current(data.number, partition(number))
            if followed is None or followed.leader_epoch != self.epochs[number]:
                continue
            if part.error_code is not ErrorCode.none:
                self.session.back_off(followed, self.now_ms)
            elif part.records:
                for _, header in iter_batches(part.records):
                    assert header.base_offset == self.have[number], "a gap, or a repetition"
                    self.have[number] += header.record_count
                self.session.position_changed(followed)

    def new_epoch(self, number: int, follower_first: bool) -> None:
        """The leader stays; who hears of it first differs."""
        self.epochs[number] += 1
        if follower_first:
            self.receive()
        self.broker.assign(number, epoch=self.epochs[number])
        self.session.add(partition(number), topic_id(number), Epoch(self.epochs[number]))


moves = st.lists(
    st.tuples(
        st.sampled_from(
            ["append", "append", "send", "send", "receive", "receive", "epoch", "drop", "lose"]
        ),
        st.integers(0, 3),
    ),
    max_size=80,
)


@settings(max_examples=60)
@given(moves)
def test_follower_gets_every_record_once_in_any_order_of_events(
    history: list[tuple[str, int]],
) -> None:
    """Requests overtake responses, sessions are lost, epochs change, partitions are removed and
    added."""
    pair = Pair(4)
    for what, number in history:
        pair.now_ms += 1
        match what:
            case "append":
                pair.broker.replica(number).append(BATCH)
            case "send" if len(pair.answers) < 2:
                if not pair.answers or pair.session.in_session:
                    pair.send()
            case "receive":
                pair.receive()
            case "epoch":
                pair.new_epoch(number, follower_first=bool(number % 2))
            case "drop":
                pair.session.remove(partition(number))
                pair.session.add(partition(number), topic_id(number), Epoch(pair.epochs[number]))
            case "lose":
                pair.answers.clear()
                pair.session.reset_session()
            case _:
                pass
    for _ in range(400):
        pair.now_ms += BACKOFF_MS
        pair.receive()
        if not pair.answers:
            pair.send()
    ends = {n: pair.broker.replica(n).log.end_offset for n in range(4)}
    assert pair.have == ends
    progress = {n: pair.broker.replica(n).state.followers[FOLLOWER].log_end for n in range(4)}
    assert progress == ends, "the leader knows what the follower has"
