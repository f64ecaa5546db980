"""The following side of a fetch session, alone and against the serving side."""

from collections import deque
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from nodes.ids import Epoch, TopicPartition
from nodes.log.batch import iter_batches
from nodes.server.follower.fetch_session import (
    BACKOFF_OF_EACH_MS,
    FIRST_BACKOFF_MS,
    MAX_NAMED,
    Followed,
    Following,
    Plan,
)
from tests.support.nodes.fetching import BATCH, EPOCH, FOLLOWER, FetchBroker, topic_id

BACKOFF_MS = 50


def partition(number: int) -> TopicPartition:
    return TopicPartition(f"t{number}", 0)


def following(*numbers: int) -> Following:
    made = Following(BACKOFF_MS)
    for number in numbers:
        made.follow(partition(number), topic_id(number), EPOCH)
    return made


def names(plan: Plan | None) -> list[str]:
    assert plan is not None
    return [followed.partition.topic for followed in plan.named]


def test_only_what_changed_is_named_again() -> None:
    """All at first, then what moved, then nothing."""
    session = following(0, 1, 2)
    plan = session.next_request(0)
    assert plan is not None
    assert (names(plan), plan.session_id, plan.session_epoch) == (["t0", "t1", "t2"], 0, 0)
    assert session.answered(plan.number, 77, ErrorCode.none)
    moved = session.accept(plan.number, partition(1))
    assert moved is not None
    session.moved(moved)
    assert session.accept(plan.number, partition(1)) is None, "its position is not that one now"
    plan = session.next_request(0)
    assert plan is not None
    assert (names(plan), plan.session_id, plan.session_epoch) == (["t1"], 77, 1)
    assert names(session.next_request(0)) == []


def test_an_answer_from_before_a_new_leader_epoch_does_not_count() -> None:
    """It may hold what the leader has truncated since."""
    session = following(0)
    plan = session.next_request(0)
    assert plan is not None
    session.answered(plan.number, 77, ErrorCode.none)
    waiting = session.next_request(0)
    assert waiting is not None
    session.follow(partition(0), topic_id(0), Epoch(EPOCH + 1))
    assert session.accept(waiting.number, partition(0)) is None
    renamed = session.next_request(0)
    assert renamed is not None
    assert (names(renamed), renamed.forgotten) == (["t0"], ())
    assert session.accept(waiting.number, partition(0)) is None
    assert session.accept(renamed.number, partition(0)) is not None


def test_a_partition_in_error_is_left_out_alone_and_longer_each_time() -> None:
    """Forgotten, then named again after its pause; the others go on."""
    session = following(0, 1)
    first = session.next_request(0)
    assert first is not None
    session.answered(first.number, 77, ErrorCode.none)
    now_ms, number, pauses = 0.0, first.number, []
    for _ in range(6):
        failed = session.accept(number, partition(0))
        assert failed is not None
        session.failed(failed, now_ms)
        plan = session.next_request(now_ms)
        assert plan is not None
        assert (names(plan), plan.forgotten) == ([], ((topic_id(0), 0),))
        pauses.append(session.resumes_ms - now_ms)
        now_ms = session.resumes_ms
        plan = session.next_request(now_ms)
        assert names(plan) == ["t0"]
        number = plan.number if plan else 0
    assert pauses == [FIRST_BACKOFF_MS * 2**n for n in range(4)] + [BACKOFF_MS] * 2


def test_many_partitions_in_error_are_left_out_for_longer() -> None:
    """Asking for each of thousands every few milliseconds would keep both brokers busy with it."""
    session = following(*range(200))
    plan = session.next_request(0)
    assert plan is not None
    session.answered(plan.number, 77, ErrorCode.none)
    for followed in plan.named:
        session.failed(followed, 0)
    retried = [f for f in plan.named if (f.paused_until_ms or 0) <= FIRST_BACKOFF_MS]
    assert len(retried) <= FIRST_BACKOFF_MS / BACKOFF_OF_EACH_MS + 1
    assert max(f.paused_until_ms or 0 for f in plan.named) <= 200 * BACKOFF_OF_EACH_MS


def test_nothing_is_asked_while_everything_is_left_out() -> None:
    """A session without partitions would be closed by the leader."""
    session = following(0)
    plan = session.next_request(0)
    assert plan is not None
    session.answered(plan.number, 77, ErrorCode.none)
    failed = session.accept(plan.number, partition(0))
    assert failed is not None
    session.failed(failed, 0)
    assert session.next_request(0) is None
    assert names(session.next_request(FIRST_BACKOFF_MS)) == ["t0"]


def test_many_partitions_are_named_in_several_requests() -> None:
    """None of which waits but the last, so that all are named soon."""
    session = following(*range(2 * MAX_NAMED + 1))
    sizes = []
    for number in range(1, 5):
        plan = session.next_request(0)
        assert plan is not None
        sizes.append((len(plan.named), plan.may_wait))
        session.answered(number, 77, ErrorCode.none)
    assert sizes == [(MAX_NAMED, False), (MAX_NAMED, False), (1, True), (0, True)]


def test_without_a_session_everything_is_named_every_time() -> None:
    """A leader may refuse a session; then requests wait all the same."""
    session = following(*range(MAX_NAMED + 1))
    plan = session.next_request(0)
    assert plan is not None
    session.answered(plan.number, 0, ErrorCode.none)
    for _ in range(2):
        plan = session.next_request(0)
        assert plan is not None
        assert (len(plan.named), plan.may_wait, plan.session_epoch) == (MAX_NAMED + 1, True, 0)
        session.answered(plan.number, 0, ErrorCode.none)


def test_a_session_error_begins_anew_once() -> None:
    """Answers to requests of the lost session change nothing any more."""
    session = following(0)
    first = session.next_request(0)
    assert first is not None
    session.answered(first.number, 77, ErrorCode.none)
    second, third = session.next_request(0), session.next_request(0)
    assert second is not None
    assert third is not None
    assert not session.answered(second.number, 77, ErrorCode.invalid_fetch_session_epoch)
    anew = session.next_request(0)
    assert anew is not None
    assert (names(anew), anew.session_id, anew.session_epoch) == (["t0"], 77, 0)
    assert not session.answered(third.number, 77, ErrorCode.invalid_fetch_session_epoch)
    session.answered(anew.number, 78, ErrorCode.none)
    plan = session.next_request(0)
    assert plan is not None
    assert (plan.session_id, plan.session_epoch) == (78, 1)


class Pair:
    """A leader with real logs, and a follower that keeps only how far it has come."""

    def __init__(self, count: int) -> None:
        self.broker = FetchBroker(count)
        self.have = dict.fromkeys(range(count), 0)
        self.epochs = dict.fromkeys(range(count), int(EPOCH))
        self.following = following(*range(count))
        self.answers: deque[tuple[Plan, Any]] = deque()
        self.now_ms = 0.0

    def send(self) -> None:
        plan = self.following.next_request(self.now_ms)
        if plan is None:
            return
        wanted = {}
        parts: dict[int, Followed] = {}
        for followed in plan.named:
            number = followed.topic_id.int - 1
            wanted[number], parts[number] = self.have[number], followed
        request = self.broker.request(
            wanted,
            node=FOLLOWER,
            session=(plan.session_id, plan.session_epoch),
            forgotten=tuple(topic.int - 1 for topic, _ in plan.forgotten),
            part_of=lambda number: {"current_leader_epoch": parts[number].leader_epoch},
            max_bytes=2 * len(BATCH),
        )
        self.answers.append((plan, self.broker.answer(request)))

    def receive(self) -> None:
        if not self.answers:
            return
        plan, response = self.answers.popleft()
        if not self.following.answered(plan.number, response.session_id, response.error_code):
            return
        for topic in response.responses:
            (part,) = topic.partitions
            number = topic.topic_id.int - 1
            followed = self.following.accept(plan.number, partition(number))
            if followed is None or followed.leader_epoch != self.epochs[number]:
                continue
            if part.error_code is not ErrorCode.none:
                self.following.failed(followed, self.now_ms)
            elif part.records:
                for _, header in iter_batches(part.records):
                    assert header.base_offset == self.have[number], "a gap, or a repetition"
                    self.have[number] += header.record_count
                self.following.moved(followed)

    def new_epoch(self, number: int, follower_first: bool) -> None:
        """The leader stays; who hears of it first differs."""
        self.epochs[number] += 1
        if follower_first:
            self.receive()
        self.broker.assign(number, epoch=self.epochs[number])
        self.following.follow(partition(number), topic_id(number), Epoch(self.epochs[number]))


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
def test_a_follower_gets_everything_once_whatever_happens(history: list[tuple[str, int]]) -> None:
    """Requests overtake answers, sessions are lost, epochs change, partitions come and go."""
    pair = Pair(4)
    for what, number in history:
        pair.now_ms += 1
        match what:
            case "append":
                pair.broker.replica(number).append(BATCH)
            case "send" if len(pair.answers) < 2:
                if not pair.answers or pair.following.in_session:
                    pair.send()
            case "receive":
                pair.receive()
            case "epoch":
                pair.new_epoch(number, follower_first=bool(number % 2))
            case "drop":
                pair.following.drop(partition(number))
                pair.following.follow(
                    partition(number), topic_id(number), Epoch(pair.epochs[number])
                )
            case "lose":
                pair.answers.clear()
                pair.following.lost_session()
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
