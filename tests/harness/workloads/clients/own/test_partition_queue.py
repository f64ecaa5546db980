"""A producer's queue for one partition: order, repetition and epochs, with a model broker."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from harness.workloads.clients.own.partition_queue import (
    IN_FLIGHT,
    AttemptResult,
    Batch,
    EndedMessages,
    Limits,
    Message,
    MessageOutcome,
    PartitionQueue,
)
from harness.workloads.clients.own.produce_errors import attempt_result

LIMITS = Limits(messages=3, bytes=100, linger_s=0.0, timeout_s=10.0)
NODE = 1
REMEMBERED = 5
"""Batches of a producer that every broker remembers."""


def message(tag: int, at_s: float = 0.0) -> Message:
    return Message(tag, b"x" * 10, at_s)


def queue_of(*tags: int, idempotent: bool = True, limits: Limits = LIMITS) -> PartitionQueue:
    made = PartitionQueue(limits, idempotent=idempotent)
    for tag in tags:
        made.add(message(tag))
    return made


def took(queue: PartitionQueue, now_s: float = 0.0, node: int = NODE) -> Batch:
    batch = queue.next_batch(node, now_s)
    assert batch is not None
    return batch


def tags(batch: Batch | EndedMessages) -> list[int]:
    return [each.tag for each in batch.messages]


# -- examples


def test_batch_is_limited_by_messages_and_bytes() -> None:
    """A batch always holds at least one message."""
    by_count = queue_of(1, 2, 3, 4)
    assert (tags(took(by_count)), tags(took(by_count))) == ([1, 2, 3], [4])
    by_size = queue_of(limits=Limits(messages=10, bytes=25))
    for tag, size in ((1, 20), (2, 20), (3, 99), (4, 5)):
        by_size.add(Message(tag, b"x" * size, 0.0))
    assert [tags(took(by_size)) for _ in range(4)] == [[1], [2], [3], [4]]


def test_batch_lingers_until_it_is_full() -> None:
    """A batch that is not full waits for the linger time of its first message."""
    lingering = queue_of(1, limits=Limits(messages=2, linger_s=0.5))
    assert lingering.due_s() == 0.5
    assert lingering.next_batch(NODE, 0.4) is None
    lingering.add(message(2, 0.4))
    assert tags(took(lingering, 0.4)) == [1, 2]


def test_batches_in_flight_are_bounded_and_go_to_one_broker() -> None:
    """Brokers remember five batches, and a second broker could overtake the first."""
    many = queue_of(*range(3 * IN_FLIGHT + 1))
    first = took(many)
    assert many.next_batch(NODE + 1, 0.0) is None
    for _ in range(IN_FLIGHT - 1):
        took(many)
    assert many.next_batch(NODE, 0.0) is None
    many.record_attempt(first, AttemptResult.APPENDED, again_s=0.0)
    assert many.next_batch(NODE, 0.0) is not None


def test_failed_batch_is_sent_again_before_all_later_ones() -> None:
    """It waits until all batches in flight have answers."""
    moving = queue_of(*range(9))
    batches = [took(moving), took(moving)]
    moving.record_attempt(batches[0], AttemptResult.UNKNOWN, again_s=1.0, error="NOT_LEADER")
    assert moving.next_batch(NODE, 5.0) is None
    moving.record_attempt(batches[1], AttemptResult.OUT_OF_SEQUENCE, again_s=0.5)
    assert moving.next_batch(NODE + 1, 0.9) is None
    again = [took(moving, 1.0, NODE + 1) for _ in range(3)]
    assert again[:2] == batches
    assert [each.sequence for each in again] == [0, 3, 6]
    assert {each.epoch for each in again} == {0}


def test_repeated_batches_keep_the_order_of_the_queue() -> None:
    """The order of failures does not matter."""
    moving = queue_of(*range(9))
    batches = [took(moving) for _ in range(3)]
    for batch in batches:
        moving.record_attempt(batch, AttemptResult.UNKNOWN, again_s=0.0)
    assert took(moving) is batches[0]
    moving.record_attempt(batches[0], AttemptResult.UNKNOWN, again_s=0.0)
    assert [took(moving) for _ in range(3)] == batches


def test_duplicate_of_an_appended_batch_is_a_success() -> None:
    """The broker knows it, whatever the result of the first attempt was."""
    assert attempt_result(ErrorCode.duplicate_sequence_number) is AttemptResult.APPENDED
    repeated = queue_of(1)
    repeated.record_attempt(took(repeated), AttemptResult.UNKNOWN, again_s=0.0)
    [ended] = repeated.record_attempt(took(repeated), AttemptResult.APPENDED, again_s=0.0)
    assert (ended.end, repeated.bumps) == (MessageOutcome.OK, [])


def test_refused_first_batch_begins_an_epoch_without_uncertain_batches() -> None:
    """KIP-360: batches that surely were not appended go on in a new epoch, others end."""
    broken = queue_of(*range(9))
    landed, second, third = took(broken), took(broken), took(broken)
    broken.record_attempt(landed, AttemptResult.APPENDED, again_s=0.0)
    assert (
        broken.record_attempt(second, AttemptResult.OUT_OF_SEQUENCE, again_s=0.0, error="OUT") == []
    )
    [ended] = broken.record_attempt(third, AttemptResult.UNKNOWN, again_s=0.0, error="Disconnected")
    assert (ended.end, tags(ended)) == (MessageOutcome.INFO, [6, 7, 8])
    [bump] = broken.bumps
    assert (bump.tag, bump.given_up, bump.refused, broken.epoch) == (3, 3, True, 1)
    again = took(broken)
    assert (again.epoch, again.sequence, tags(again)) == (1, 0, [3, 4, 5])


def test_refusal_after_a_failed_batch_begins_no_epoch() -> None:
    """The broker had to refuse it, and it is only sent again."""
    moving = queue_of(*range(6))
    first, second = took(moving), took(moving)
    moving.record_attempt(first, AttemptResult.NOT_APPENDED, again_s=0.0)
    moving.record_attempt(second, AttemptResult.OUT_OF_SEQUENCE, again_s=0.0)
    assert (moving.epoch, moving.bumps) == (0, [])


def test_timed_out_message_is_fail_or_info() -> None:
    """It is `fail` if it surely was not appended, else `info`."""
    slow = queue_of(*range(4))
    refused = took(slow)
    slow.record_attempt(refused, AttemptResult.NOT_APPENDED, again_s=0.0)
    assert slow.expires_s() == 10.0
    outcomes = slow.expire(10.0)
    assert [(each.end, tags(each)) for each in outcomes] == [
        (MessageOutcome.FAIL, [0, 1, 2]),
        (MessageOutcome.FAIL, [3]),
    ]
    unsure = queue_of(1)
    unsure.record_attempt(took(unsure), AttemptResult.UNKNOWN, again_s=0.0)
    unsure.record_attempt(took(unsure), AttemptResult.NOT_APPENDED, again_s=0.0)
    assert [each.end for each in unsure.expire(10.0)] == [MessageOutcome.INFO]


def test_batch_that_can_never_be_appended_fails_at_once() -> None:
    """Its sequence is missing then, so a new epoch begins."""
    large = queue_of(1, 2, 3, 4)
    [ended] = large.record_attempt(
        took(large), AttemptResult.NEVER_APPENDED, again_s=0.0, error="TOO_LARGE"
    )
    assert (ended.end, ended.error, large.epoch) == (MessageOutcome.FAIL, "TOO_LARGE", 1)


def test_without_idempotence_there_are_no_sequences_and_no_epochs() -> None:
    """A failed batch is only sent again, and given up after its time."""
    plain = queue_of(1, idempotent=False)
    batch = took(plain)
    assert batch.sequence == -1
    plain.record_attempt(batch, AttemptResult.UNKNOWN, again_s=0.0)
    assert [each.end for each in plain.expire(10.0)] == [MessageOutcome.INFO]
    assert (plain.epoch, plain.bumps) == (0, [])


def test_close_gives_every_message_an_outcome() -> None:
    """Batches in flight are `info`, and waiting messages `fail`."""
    ending = queue_of(*range(7))
    took(ending)
    refused = took(ending)
    ending.record_attempt(refused, AttemptResult.NOT_APPENDED, again_s=0.0)
    ends = {tag: each.end for each in ending.close() for tag in tags(each)}
    assert ends == {
        **dict.fromkeys(range(3), MessageOutcome.INFO),
        **dict.fromkeys(range(3, 7), MessageOutcome.FAIL),
    }


@pytest.mark.parametrize(
    ("code", "result"),
    [
        (ErrorCode.none, AttemptResult.APPENDED),
        (ErrorCode.not_enough_replicas, AttemptResult.NOT_APPENDED),
        (ErrorCode.not_enough_replicas_after_append, AttemptResult.UNKNOWN),
        (ErrorCode.not_leader_or_follower, AttemptResult.UNKNOWN),
        (ErrorCode.unknown_topic_or_partition, AttemptResult.UNKNOWN),
        (ErrorCode.request_timed_out, AttemptResult.UNKNOWN),
        (ErrorCode.kafka_storage_error, AttemptResult.UNKNOWN),
        (ErrorCode.unknown_producer_id, AttemptResult.OUT_OF_SEQUENCE),
        (ErrorCode.message_too_large, AttemptResult.NEVER_APPENDED),
    ],
)
def test_error_codes_have_attempt_results(code: ErrorCode, result: AttemptResult) -> None:
    """Only codes that are sent before the append are certain."""
    assert attempt_result(code) is result


def test_insisting_queue_sends_a_refused_batch_again_in_the_new_epoch() -> None:
    """It does not do that for batches that the client itself gave up."""
    insistent = PartitionQueue(LIMITS, idempotent=True, insists=True)
    for tag in range(2):
        insistent.add(message(tag, 0.0))
    first = insistent.next_batch(NODE, 0.0)
    assert first is not None
    assert insistent.record_attempt(first, AttemptResult.UNKNOWN, again_s=0.0) == []
    again = insistent.next_batch(NODE, 0.0)
    assert again is first
    assert (
        insistent.record_attempt(again, AttemptResult.OUT_OF_SEQUENCE, again_s=0.0, error="E") == []
    )
    once_more = insistent.next_batch(NODE, 0.0)
    assert once_more is first
    assert (once_more.epoch, once_more.sequence) == (1, 0)
    assert insistent.record_attempt(once_more, AttemptResult.UNKNOWN, again_s=0.0) == []
    (ended,) = insistent.expire(LIMITS.timeout_s)
    assert ended.end is MessageOutcome.INFO


# -- any interleaving


@dataclass(slots=True)
class Broker:
    """One partition's log by the rules of KIP-98: five batches remembered, sequences in order."""

    log: list[tuple[int, int]] = field(default_factory=list)
    """(tag, epoch)"""
    epoch: int = -1
    next_sequence: int = 0
    known: list[tuple[int, int]] = field(default_factory=list)

    def append(self, epoch: int, sequence: int, written: Sequence[int]) -> AttemptResult:
        if epoch < self.epoch:
            return AttemptResult.OUT_OF_SEQUENCE
        if epoch > self.epoch:
            if sequence != 0:
                return AttemptResult.OUT_OF_SEQUENCE
            self.epoch, self.next_sequence, self.known = epoch, 0, []
        if (sequence, len(written)) in self.known:
            return AttemptResult.APPENDED
        if sequence != self.next_sequence:
            return AttemptResult.OUT_OF_SEQUENCE
        self.next_sequence += len(written)
        self.known = [*self.known, (sequence, len(written))][-REMEMBERED:]
        self.log += [(tag, epoch) for tag in written]
        return AttemptResult.APPENDED

    def forget(self) -> None:
        """What a broker must not do."""
        self.next_sequence, self.known = 0, []


Copy = tuple[Batch, int, int, tuple[int, ...]]


class Story:
    """A line and a broker under any course of events: requests and answers are lost, late ones
    arrive after all, the broker refuses, and forgets if it is a bad one."""

    def __init__(self, rng: random.Random, *, forgetful: bool, insists: bool) -> None:
        self.rng = rng
        self.forgetful = forgetful
        self.queue = PartitionQueue(LIMITS, idempotent=True, insists=insists)
        self.broker = Broker()
        self.wire: list[Copy] = []
        """Sent, in order, on the connection to the broker."""
        self.stray: list[Copy] = []
        """Of connections that were given up: they may still arrive."""
        self.outcomes: dict[int, MessageOutcome] = {}
        self.sent: dict[int, set[int]] = {}
        """Every epoch under which a value went out and can have been appended."""
        self.written = 0
        self.now_s = 0.0

    def step(self) -> None:
        self.now_s += self.rng.choice([0.0, 0.1, 1.0])
        for _ in range(self.rng.randint(0, 4)):
            self.queue.add(message(self.written, self.now_s))
            self.written += 1
        if self.rng.random() < 0.1:
            self.end(self.queue.expire(self.now_s))
        self.send()
        if self.stray and self.rng.random() < 0.5:
            _, epoch, sequence, written = self.stray.pop(0)
            self.broker.append(epoch, sequence, written)
        if self.forgetful and self.rng.random() < 0.02:
            self.broker.forget()
        for _ in range(self.rng.randint(0, 3)):
            self.answer()
        if self.rng.random() < 0.05:
            self.disconnect()

    def send(self) -> None:
        while self.rng.random() < 0.8:
            batch = self.queue.next_batch(NODE, self.now_s)
            if batch is None:
                return
            written = tuple(tags(batch))
            self.wire.append((batch, batch.epoch, batch.sequence, written))
            assert len(self.wire) <= REMEMBERED

    def answer(self) -> None:
        """The broker handles the oldest request and answers it, truly or vaguely."""
        if not self.wire:
            return
        batch, epoch, sequence, written = self.wire.pop(0)
        course = self.rng.random()
        if course < 0.1:  # refused before the append
            result = AttemptResult.NOT_APPENDED
        else:
            result = self.broker.append(epoch, sequence, written)
            if (
                course < 0.2 and result is AttemptResult.APPENDED
            ):  # appended, but the answer does not say so
                result = AttemptResult.UNKNOWN
        if result in (AttemptResult.APPENDED, AttemptResult.UNKNOWN):
            for tag in written:
                self.sent.setdefault(tag, set()).add(epoch)
        self.record_attempt(batch, result)

    def disconnect(self) -> None:
        """Nobody answers; what was on its way may arrive, in order, or not."""
        lost, self.wire = self.wire, []
        self.stray += lost[: self.rng.randint(0, len(lost))]
        for batch, epoch, _, written in lost:
            for tag in written:
                self.sent.setdefault(tag, set()).add(epoch)
            self.record_attempt(batch, AttemptResult.UNKNOWN)

    def record_attempt(self, batch: Batch, result: AttemptResult) -> None:
        pause_s = self.rng.choice([0.0, 0.2])
        self.end(self.queue.record_attempt(batch, result, again_s=self.now_s + pause_s, error="E"))

    def end(self, outcomes: Sequence[EndedMessages]) -> None:
        for each in outcomes:
            for tag in tags(each):
                assert tag not in self.outcomes, "two outcomes"
                self.outcomes[tag] = each.end

    def finish(self) -> None:
        """All that is on its way arrives, or not; then everything is given up."""
        for _ in range(60):
            self.step_without_faults()
        self.end(self.queue.close())
        for _, epoch, sequence, written in [*self.stray, *self.wire]:
            self.broker.append(epoch, sequence, written)

    def step_without_faults(self) -> None:
        self.now_s += 0.3
        self.send()
        while self.wire:
            self.answer()


@given(seed=st.integers(0, 2**32), forgetful=st.booleans(), insists=st.booleans())
@settings(max_examples=120)
def test_random_events_keep_order_and_write_nothing_under_two_epochs(
    seed: int, forgetful: bool, insists: bool
) -> None:
    """Each value is written once and in order, and its reported outcome is true; a broker that
    forgets producers is the exception."""
    story = Story(random.Random(seed), forgetful=forgetful, insists=insists)
    for _ in range(80):
        story.step()
    story.finish()
    logged = [tag for tag, _ in story.broker.log]
    assert sorted(story.outcomes) == list(range(story.written))
    epochs: dict[int, set[int]] = {}
    for tag, epoch in story.broker.log:
        epochs.setdefault(tag, set()).add(epoch)
    for tag, under in story.sent.items() if not (forgetful and insists) else ():
        assert len(under | epochs.get(tag, set())) == 1, f"{tag} under {under}"
    present = set(logged)
    for tag, end in story.outcomes.items():
        assert end is not MessageOutcome.OK or tag in present
        assert end is not MessageOutcome.FAIL or tag not in present
    if not forgetful:
        assert not any(bump.refused for bump in story.queue.bumps), "only who forgets refuses"
        assert logged == sorted(present), "twice, or out of order"
