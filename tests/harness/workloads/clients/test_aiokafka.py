"""Outcomes and jumps of the aiokafka clients, with a scripted library."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiokafka import TopicPartition, errors

from harness.workloads.clients import aiokafka
from harness.workloads.clients.aiokafka import RecordingConsumer, RecordingProducer, consumer_config
from harness.workloads.clients.outcomes import NotConnected
from tests.support.clients.recorded import CODEC, Recorded

ACKED = type("Metadata", (), {"offset": 7})()


class Closing:
    """Whatever is closed."""

    closed = False

    async def close(self) -> None:
        """No more."""
        self.closed = True


class Library:
    """An AIOKafkaProducer whose sends end when a test says so."""

    def __init__(self) -> None:
        self.sent: list[asyncio.Future[Any]] = []
        self.partitions: list[int] = []
        self.full: set[int] = set()
        self.room = asyncio.Event()
        self.refuses: Exception | None = None
        self.client, self._sender = Closing(), Closing()

    async def send(
        self, topic: str, payload: bytes, key: bytes | None, partition: int
    ) -> "asyncio.Future[Any]":
        """One more, unless it refuses, or waits for room."""
        if partition in self.full:
            await self.room.wait()
        if self.refuses is not None:
            raise self.refuses
        self.sent.append(asyncio.get_running_loop().create_future())
        self.partitions.append(partition)
        return self.sent[-1]

    async def stop(self) -> None:
        """As aiokafka does: it waits for what is pending, however long."""
        if not self._sender.closed and self.sent:
            await asyncio.wait(self.sent)


def producing(work: Callable[[RecordingProducer, Library], Awaitable[None]]) -> Recorded:
    """Run `work`, then close; returns what was recorded."""
    seen = Recorded()

    async def run() -> None:
        library = Library()
        producer = RecordingProducer(library, seen.sends())
        await work(producer, library)
        await producer.close(0)
        assert library.client.closed

    asyncio.run(run())
    return seen


async def turns() -> None:
    """Let the loop do what can be done."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("result", "row"),
    [
        (ACKED, ("ok", 7, None)),
        (None, ("ok", None, None)),
        (errors.RequestTimedOutError(), ("info", None, "REQUEST_TIMED_OUT")),
        (errors.NodeNotReadyError(), ("info", None, "NodeNotReadyError")),
        (errors.NotEnoughReplicasError(), ("info", None, "NOT_ENOUGH_REPLICAS")),
        (errors.NotLeaderForPartitionError(), ("info", None, "NOT_LEADER_FOR_PARTITION")),
        (errors.InvalidTimestampError(), ("fail", None, "INVALID_TIMESTAMP")),
    ],
)
def test_last_error_decides_the_outcome_of_a_send(result: Any, row: tuple[Any, ...]) -> None:
    """Hardly any error says that no attempt was appended."""

    async def work(producer: RecordingProducer, library: Library) -> None:
        producer.send(2)
        await turns()
        if isinstance(result, Exception):
            library.sent[0].set_exception(result)
        else:
            library.sent[0].set_result(result)
        await turns()
        assert (producer._sends.pending, producer._sends.in_flight) == (0, {2: 0})
        assert producer.fatal is None

    seen = producing(work)
    assert seen.writer.of("send", "type", "offset", "error") == [row]


@pytest.mark.parametrize(
    "error",
    [
        errors.MessageSizeTooLargeError("too large"),
        errors.KafkaTimeoutError(),
        errors.NotLeaderForPartitionError(),
        AssertionError("Unrecognized partition"),
    ],
)
def test_send_that_was_never_queued_has_failed(error: Exception) -> None:
    """The library raises before it queues the message; the error may be another batch's."""

    async def work(producer: RecordingProducer, library: Library) -> None:
        library.refuses = error
        producer.send(0)
        await turns()

    assert producing(work).writer.of("send", "type") == [("fail",)]


@pytest.mark.parametrize(
    "error", [errors.OutOfOrderSequenceNumber(), errors.ProducerFenced(), errors.KafkaError("gone")]
)
def test_broken_producer_is_reported_as_fatal(error: Exception) -> None:
    """It would refuse everything later, so another producer must replace it."""

    async def work(producer: RecordingProducer, library: Library) -> None:
        producer.send(0)
        await turns()
        library.sent[0].set_exception(error)
        await turns()
        assert producer.fatal is not None

    assert producing(work).writer.of("send", "type") == [("info",)]


def test_full_partition_delays_no_other_and_keeps_its_order() -> None:
    """The library's `send` waits for room; each partition waits by itself."""

    async def work(producer: RecordingProducer, library: Library) -> None:
        library.full = {0}
        for partition in (0, 0, 1, 1):
            producer.send(partition)
        await turns()
        assert library.partitions == [1, 1]
        library.room.set()
        await turns()
        assert library.partitions == [1, 1, 0, 0]

    producing(work)


def test_pending_sends_at_the_end_are_unfinished_and_not_sent_any_more() -> None:
    """aiokafka would wait for them without a time limit."""

    async def work(producer: RecordingProducer, library: Library) -> None:
        producer.send(0)
        await turns()

    seen = producing(work)
    assert seen.writer.of("send", "type", "complete_ns", "error") == [("info", None, "unfinished")]
    assert len(seen.writer.of("end")) == 1


class Polled:
    """An AIOKafkaConsumer whose polls a test has thought of."""

    def __init__(self, polls: list[Any]) -> None:
        self._polls = polls
        self.over = asyncio.Event()

    def assign(self, partitions: Any) -> None:
        """Anything goes."""

    def seek(self, where: Any, offset: int) -> None:
        """Anything goes."""

    async def getmany(self, timeout_ms: int, max_records: int) -> Any:
        """The next poll; at the end, nothing."""
        if not self._polls:
            self.over.set()
            await asyncio.Event().wait()
        found = self._polls.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    async def beginning_offsets(self, partitions: Any) -> Any:
        """Nothing was deleted."""
        return dict.fromkeys(partitions, 0)

    async def end_offsets(self, partitions: Any) -> Any:
        """The log was cut."""
        return dict.fromkeys(partitions, 30)

    async def stop(self) -> None:
        """At once."""


WHERE = TopicPartition("t", 1)


def test_truncation_below_the_position_is_a_recorded_jump() -> None:
    """Other errors are tried again."""
    seen = Recorded()
    record = type("Record", (), {"partition": 1, "offset": 0, "value": CODEC.encode(1, 1)})()
    polls = [
        errors.OffsetOutOfRangeError({WHERE: 50}), errors.CorruptRecordException(),
        {WHERE: [record]},
    ]  # fmt: skip

    async def run() -> None:
        polled = Polled(polls)
        consumer = RecordingConsumer(polled, seen.reads(), {1: 50, 2: 60})
        await asyncio.wait_for(polled.over.wait(), 30)
        assert consumer.fatal is None
        await consumer.close()

    asyncio.run(run())
    name = "OFFSET_OUT_OF_RANGE"
    assigned = seen.writer.of("assign", "partition", "offset", "error")
    assert assigned == [(1, 50, None), (2, 60, None), (1, 0, name), (2, 60, name)]
    assert seen.writer.of("poll", "partition", "offset", "leader_epoch") == [(1, 0, None)]


def test_broken_consumer_is_reported_as_fatal() -> None:
    """An error that is no Kafka error is not tried again."""
    seen = Recorded()

    async def run() -> None:
        consumer = RecordingConsumer(Polled([AssertionError("a bug")]), seen.reads(), {1: 0})
        await turns()
        assert consumer.fatal == "AssertionError('a bug')"
        await consumer.close()

    asyncio.run(run())


def test_without_brokers_no_client_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried again later, and the history has nothing of it."""
    seen = Recorded()
    monkeypatch.setattr(aiokafka, "CONNECT_S", 1.0)

    async def run() -> None:
        config = consumer_config(bootstrap="127.0.0.1:1")
        with pytest.raises(NotConnected):
            await RecordingConsumer.connect(config, seen.reads(), {1: 0})

    asyncio.run(run())
    assert seen.writer.rows == []
