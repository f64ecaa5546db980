"""Outcomes and jumps of the kafka-python clients, with a scripted library."""

from typing import Any

import pytest

from harness.workloads.clients import kafka_python
from harness.workloads.clients.kafka_python import (
    RecordingConsumer,
    RecordingProducer,
    consumer_config,
    producer_config,
)
from harness.workloads.clients.options import ProducerOptions
from harness.workloads.clients.outcomes import NotConnected
from harness.workloads.clients.sends import Sends
from tests.support.clients.kafka_python import CLOSING, TopicPartition
from tests.support.clients.recorded import CODEC, Recorded

with kafka_python.warnings.catch_warnings():
    from kafka import errors
    from kafka.future import Future

ACKED = type("Metadata", (), {"offset": 7})()


class Threads:
    """The sending thread of a library."""

    forced = False

    def force_close(self) -> None:
        """No more."""
        self.forced = True


class State:
    """The state of an idempotent library."""

    fatal = False

    def has_fatal_error(self) -> bool:
        """Whether it will never send again."""
        return self.fatal


class Library:
    """A KafkaProducer whose sends end when a test says so."""

    def __init__(self, **_: Any) -> None:
        self.sent: list[Future] = []
        self.refuses: Exception | None = None
        self._sender, self._transaction_manager = Threads(), State()

    def send(self, topic: str, payload: bytes, key: bytes | None, partition: int) -> Future:
        """One more, unless it refuses."""
        if self.refuses is not None:
            raise self.refuses
        self.sent.append(Future())
        return self.sent[-1]

    def close(self, timeout: float) -> None:
        """As kafka-python does: it waits for what is pending, and fails of that."""
        if not self._sender.forced and not all(each.is_done for each in self.sent):
            raise errors.KafkaTimeoutError("Timeout waiting for future")


@pytest.fixture
def seen() -> Recorded:
    """What is recorded."""
    return Recorded()


@pytest.fixture
def sends(seen: Recorded) -> Sends:
    """Where the producer records."""
    return seen.sends()


@pytest.fixture
def producer(sends: Sends, monkeypatch: pytest.MonkeyPatch) -> RecordingProducer:
    """On the library above."""
    monkeypatch.setattr(kafka_python, "KafkaProducer", Library)
    return RecordingProducer(config(), sends)


def config(message_timeout_ms: int = 10_000) -> dict[str, Any]:
    return producer_config(
        ProducerOptions(
            bootstrap="a:1,b:2",
            acks=-1,
            idempotence=True,
            linger_ms=2,
            message_timeout_ms=message_timeout_ms,
        )
    )


@pytest.mark.parametrize(
    ("result", "row"),
    [
        (ACKED, ("ok", 7, None)),
        (errors.KafkaTimeoutError("Expiring 3 record(s)"), ("info", None, "KafkaTimeoutError")),
        (errors.NotEnoughReplicasError(), ("info", None, "NOT_ENOUGH_REPLICAS")),
        (errors.NotLeaderForPartitionError(), ("info", None, "NOT_LEADER_FOR_PARTITION")),
        (errors.OutOfOrderSequenceNumberError(), ("info", None, "OUT_OF_ORDER_SEQUENCE_NUMBER")),
        (errors.MessageSizeTooLargeError(), ("info", None, "MSG_SIZE_TOO_LARGE")),
        (errors.KafkaConnectionError(), ("info", None, "KafkaConnectionError")),
        (errors.InvalidRecordError(), ("fail", None, "INVALID_RECORD")),
        (errors.TopicAuthorizationFailedError(), ("fail", None, "TOPIC_AUTHORIZATION_FAILED")),
    ],
)
def test_last_error_decides_the_outcome_of_a_send(
    producer: RecordingProducer, sends: Sends, seen: Recorded, result: Any, row: tuple[Any, ...]
) -> None:
    """Hardly any error says that no attempt was appended."""
    producer.send(2)
    (sent,) = producer._producer.sent
    sent.failure(result) if isinstance(result, Exception) else sent.success(result)
    assert sends.pending == 1, "it is recorded by whoever polls"
    producer.poll(0)
    assert (sends.pending, sends.in_flight) == (0, {2: 0})
    assert seen.writer.of("send", "type", "offset", "error") == [row]


@pytest.mark.parametrize(
    "error", [errors.MessageSizeTooLargeError("too large"), errors.KafkaTimeoutError("no metadata")]
)
def test_send_that_was_never_queued_has_failed(
    producer: RecordingProducer, seen: Recorded, error: Exception
) -> None:
    """The library raises before it queues the message."""
    producer._producer.refuses = error
    producer.send(0)
    assert seen.writer.of("send", "type") == [("fail",)]


def test_broken_producer_is_reported_as_fatal(producer: RecordingProducer) -> None:
    """It accepts messages and fails all of them, so another producer must replace it."""
    producer.send(0)
    producer._producer._transaction_manager.fatal = True
    producer._producer.sent[0].failure(errors.CorruptRecordError())
    producer.poll(0)
    assert producer.fatal == "INVALID_MSG"


def test_pending_sends_at_the_end_are_unfinished_and_not_sent_any_more(
    producer: RecordingProducer, seen: Recorded
) -> None:
    """kafka-python would refuse to close and go on sending."""
    producer.send(0)
    producer.close(0)
    assert producer._producer._sender.forced
    assert seen.writer.of("send", "type", "complete_ns", "error") == [("info", None, "unfinished")]
    assert len(seen.writer.of("end")) == 1


def test_short_message_time_out_shortens_the_request() -> None:
    """kafka-python refuses a delivery time-out below linger and request together."""
    short = config(message_timeout_ms=200)
    assert short["request_timeout_ms"] + short["linger_ms"] <= short["delivery_timeout_ms"]
    assert config()["delivery_timeout_ms"] == 10_000
    assert config()["bootstrap_servers"] == ["a:1", "b:2"]


def test_without_brokers_no_client_is_made(seen: Recorded) -> None:
    """It is tried again later, and the history has nothing of it."""
    with pytest.raises(NotConnected, match="KafkaTimeoutError"):
        RecordingConsumer(
            {**consumer_config(bootstrap="127.0.0.1:1"), "bootstrap_timeout_ms": 10, **CLOSING},
            seen.reads(),
        )
    assert seen.writer.rows == []


class Polled:
    """A KafkaConsumer whose polls a test has thought of."""

    def __init__(self, **_: Any) -> None:
        self.polls: list[Any] = []

    def assign(self, partitions: Any) -> None:
        """Anything goes."""

    def seek(self, where: Any, offset: int) -> None:
        """Anything goes."""

    def poll(self, timeout_ms: float, max_records: int) -> Any:
        """The next poll."""
        found = self.polls.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def beginning_offsets(self, partitions: Any, timeout_ms: float) -> Any:
        """Nothing was deleted."""
        return dict.fromkeys(partitions, 0)

    def end_offsets(self, partitions: Any, timeout_ms: float) -> Any:
        """The log was cut."""
        return dict.fromkeys(partitions, 30)


WHERE = TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (errors.OffsetOutOfRangeError({WHERE: 50}), "OFFSET_OUT_OF_RANGE"),
        (errors.LogTruncationError({WHERE: None}), "LogTruncationError"),
    ],
)
def test_truncation_below_the_position_is_a_recorded_jump(
    seen: Recorded, monkeypatch: pytest.MonkeyPatch, error: Exception, name: str
) -> None:
    """The position is beyond the end, or the log there has changed (KIP-320)."""
    monkeypatch.setattr(kafka_python, "KafkaConsumer", Polled)
    consumer = RecordingConsumer({}, seen.reads())
    consumer.assign({1: 50, 2: 60})
    record = type("Record", (), {
        "partition": 1, "offset": 0, "leader_epoch": 3, "value": CODEC.encode(1, 1)
    })()  # fmt: skip
    consumer._consumer.polls = [error, errors.KafkaConnectionError(), {WHERE: [record]}]
    assert [consumer.poll(0.1) for _ in range(3)] == [0, 0, 1]
    assigned = seen.writer.of("assign", "partition", "offset", "error")
    assert assigned == [(1, 50, None), (2, 60, None), (1, 0, name), (2, 60, name)]
    assert seen.writer.of("poll", "partition", "offset", "leader_epoch") == [(1, 0, 3)]
    assert seen.tally.last_error == "KafkaConnectionError"
