"""Producers and consumers on librdkafka that record every operation in the history.

Each instance belongs to one thread, has a client number of its own and writes `start` before its
first operation and `end` after its last; an instance whose process died has no `end`.

The settings aim at quick failover: metadata is refreshed four times a second and at once after an
error, reconnects back off for half a second at most, a request that a cut-off broker never answers
is given up after SOCKET_TIMEOUT_MS. What to send when, and on which thread, is the workload's.

An idempotent producer's debug log is read for the producer epochs that it leaves (see
`producer_epochs`), which are operations of the history; the log itself is kept no more than before.
"""

import contextlib
import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from checkers.history import PRODUCER_EPOCH
from harness.clients.base import Outcome, delivery_outcome
from harness.clients.producer_epochs import Bump, EpochWatch, Refused
from harness.clients.tally import REWIND_RECORDS, Tally
from harness.history import HistoryWriter
from harness.payload import MAX_SEQUENCE, PayloadCodec, peek_value, value_of

SOCKET_TIMEOUT_MS: Final = 3_000
REQUEST_TIMEOUT_MS: Final = 2_000
"""How long a leader waits for its followers; it answers before the socket's timeout."""

BATCH_MESSAGES: Final = 1_000
"""librdkafka numbers a batch's reports upwards from its base offset even when that is "unknown"
(-1001): beyond 1,001 messages the reported offsets would turn non-negative, and false."""

POLL_RECORDS: Final = 1_000
COMMON: Final[Mapping[str, Any]] = {
    "socket.timeout.ms": SOCKET_TIMEOUT_MS,
    "socket.connection.setup.timeout.ms": 1_000,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "topic.metadata.refresh.interval.ms": 250,
    "topic.metadata.refresh.fast.interval.ms": 100,
    "allow.auto.create.topics": False,
    "broker.address.family": "v4",
    "log.connection.close": False,
    "log_level": 2,  # a cluster under faults has nothing but errors to log
}


def producer_config(
    *, bootstrap: str, acks: int, idempotence: bool, linger_ms: float, message_timeout_ms: int
) -> dict[str, Any]:
    """librdkafka's configuration of a workload's producer."""
    return {
        **COMMON,
        "bootstrap.servers": bootstrap,
        "acks": acks,
        "enable.idempotence": idempotence,
        "max.in.flight.requests.per.connection": 5,
        "linger.ms": linger_ms,
        "batch.num.messages": BATCH_MESSAGES,
        "message.timeout.ms": message_timeout_ms,
        "request.timeout.ms": min(REQUEST_TIMEOUT_MS, message_timeout_ms),
        "retry.backoff.ms": 50,
        "retry.backoff.max.ms": 250,
    }


class LogLines(logging.Handler):
    """Hands librdkafka's log lines on, as (facility, text), and keeps what is an emergency.

    librdkafka serves its log from `poll`, ahead of the delivery reports that wait beside it.
    """

    def __init__(self, read: Callable[[str, str], None]) -> None:
        super().__init__()
        self._read = read

    def emit(self, record: logging.LogRecord) -> None:
        """One line; confluent_kafka logs as ("%s [%s] %s", facility, client, text)."""
        assert isinstance(record.args, tuple)
        facility, _, text = record.args
        self._read(str(facility), str(text))
        if record.levelno >= logging.CRITICAL:  # what COMMON's log_level lets through
            with contextlib.suppress(OSError):
                sys.stderr.write(f"{record.getMessage()}\n")


class RecordingProducer:
    """Sends values of its own to the partitions of one topic and records what became of each."""

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        client: int,
        topic: str,
        writer: HistoryWriter,
        codec: PayloadCodec,
        tally: Tally,
    ) -> None:
        self.client = client
        self.topic = topic
        self.tally = tally
        self.fatal: str | None = None
        """Set when librdkafka gave up for good: this instance cannot send any more."""
        self.in_flight: dict[int, int] = {}
        """Sends without an outcome, by partition."""
        self._acks = int(config["acks"])
        self._writer = writer
        self._codec = codec
        self._sequence = 0
        # value -> op, invoke_ns, partition, which message to the partition
        self._pending: dict[int, tuple[int, int, int, int]] = {}
        self._accepted: dict[int, int] = {}  # messages to each partition, as librdkafka counts them
        self._epochs = EpochWatch()
        settings = {**config, "on_delivery": self._delivered, "error_cb": self._on_error}
        if config.get("enable.idempotence"):
            log = logging.Logger(f"client {client}")  # not registered: it ends with the client
            log.addHandler(LogLines(self._logged))
            settings |= {"debug": "eos", "log_level": 7, "logger": log}
        self._producer = Producer(settings)
        writer.start(client)

    @property
    def pending(self) -> int:
        """Sends without an outcome."""
        return len(self._pending)

    def send(self, partition: int) -> None:
        """Start one send; its outcome is recorded by a later `poll`, or now if it is refused."""
        self._sequence += 1
        if self._sequence >= MAX_SEQUENCE:
            self.fatal = "the client's sequence numbers are used up"
            return
        value = value_of(self.client, self._sequence)
        payload = self._codec.encode(self.client, self._sequence)
        op = self._writer.next_op()
        invoke_ns = self._writer.now_ns()
        number = self._accepted.get(partition, 0) + 1
        self._pending[value] = (op, invoke_ns, partition, number)
        self.in_flight[partition] = self.in_flight.get(partition, 0) + 1
        self.tally.sent += 1
        try:
            self._producer.produce(self.topic, payload, partition=partition)
            self._accepted[partition] = number
        except (KafkaException, BufferError) as error:
            # Refused before anything was queued: it never left this process.
            kafka_error: KafkaError | None = None
            if error.args and isinstance(error.args[0], KafkaError):
                kafka_error = error.args[0]
            name = kafka_error.name() if kafka_error is not None else type(error).__name__
            if kafka_error is not None and kafka_error.code() == KafkaError._FATAL:
                self.fatal = str(kafka_error)
            self._finish(value, Outcome.FAIL, error=name)

    def poll(self, timeout_s: float) -> None:
        """Record outcomes; waits up to `timeout_s` for the first."""
        try:
            self._producer.poll(timeout_s)
        except KafkaException as error:
            # Raised once librdkafka declares the producer broken; its outcomes were delivered.
            self._on_error(error.args[0])

    def close(self, timeout_s: float) -> None:
        """Wait up to `timeout_s` for outcomes, record what has none as `info`, end the client."""
        deadline = time.monotonic() + timeout_s
        while self._pending and (left := deadline - time.monotonic()) > 0:
            self.poll(min(left, 0.1))
        self.poll(0)  # the rest of the log
        self._left_epoch(self._epochs.close())
        for value in list(self._pending):
            self._finish(value, Outcome.INFO, error="unfinished")
        self._producer.purge()  # nothing is sent after the end row
        self._writer.end(self.client)

    def _logged(self, facility: str, text: str) -> None:
        self._left_epoch(self._epochs.read(facility, text, self._writer.now_ns()))

    def _left_epoch(self, bump: Bump | None) -> None:
        if bump is None:
            return
        op = self._writer.next_op()
        type_ = Outcome.INFO if bump.begun_ns is None else Outcome.OK
        for cause in bump.causes:
            self._writer.record(
                op, self.client, PRODUCER_EPOCH, type_.value, bump.began_ns, bump.begun_ns,
                cause.topic, cause.partition, self._failed_value(cause), error=cause.error,
            )  # fmt: skip

    def _failed_value(self, cause: Refused) -> int | None:
        """The value of the message that had failed before the batch that was refused."""
        wanted = (cause.partition, cause.failed_message)
        return next((v for v, (_, _, *where) in self._pending.items() if (*where,) == wanted), None)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        value = peek_value(message.value())
        if value not in self._pending:
            return  # purged after close() recorded it as unfinished
        if error is None:
            self._finish(value, Outcome.OK, offset=message.offset())
        else:
            self._finish(value, delivery_outcome(error.code()), error=error.name())

    def _finish(
        self, value: int, outcome: Outcome, *, offset: int | None = None, error: str | None = None
    ) -> None:
        op, invoke_ns, partition, _ = self._pending.pop(value)
        self.in_flight[partition] -= 1
        complete_ns: int | None = self._writer.now_ns()
        assert complete_ns is not None
        tally = self.tally
        if outcome is Outcome.OK:
            tally.acked += 1
            tally.latencies_ns.append(complete_ns - invoke_ns)
        elif outcome is Outcome.FAIL:
            tally.failed += 1
        else:
            tally.info += 1
            if error == "unfinished":
                complete_ns = None
        if error is not None:
            tally.last_error = error
        if self._acks == 0:
            offset = None  # no broker answered; whatever is reported is no offset
        self._writer.record(
            op, self.client, "send", outcome.value, invoke_ns, complete_ns, self.topic, partition,
            value, offset, None, self._acks, None, error,
        )  # fmt: skip

    def _on_error(self, error: KafkaError) -> None:
        self.tally.last_error = error.name()
        if error.fatal():
            self.fatal = str(error)


def consumer_config(*, bootstrap: str, group: str) -> dict[str, Any]:
    """librdkafka's configuration of a consumer that assigns itself partitions."""
    return {
        **COMMON,
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        # A reset must come to us, to be recorded, instead of happening silently.
        "auto.offset.reset": "error",
        "check.crcs": True,
        "fetch.wait.max.ms": 100,
        "fetch.error.backoff.ms": 50,
        "queued.max.messages.kbytes": 8_192,
    }


class RecordingConsumer:
    """Reads partitions of one topic from given offsets on and records every record and jump."""

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        client: int,
        topic: str,
        writer: HistoryWriter,
        codec: PayloadCodec,
        tally: Tally,
    ) -> None:
        self.client = client
        self.topic = topic
        self.tally = tally
        self._writer = writer
        self._codec = codec
        self._next: dict[int, int] = {}
        self._consumer = Consumer({**config, "error_cb": self._on_error})
        writer.start(client)

    def assign(self, offsets: Mapping[int, int], *, reason: str | None = None) -> None:
        """(Re)position on partitions: {partition: next offset}; everything else is given up."""
        self._next = dict(offsets)
        op = self._writer.next_op()
        invoke_ns = self._writer.now_ns()
        self._consumer.assign(
            [TopicPartition(self.topic, partition, offset) for partition, offset in offsets.items()]
        )
        complete_ns = self._writer.now_ns()
        for partition, offset in offsets.items():
            self._writer.record(
                op, self.client, "assign", "ok", invoke_ns, complete_ns, self.topic, partition,
                None, offset, error=reason,
            )  # fmt: skip

    def poll(self, timeout_s: float) -> int:
        """Read what is there, waiting up to `timeout_s` for the first; returns records read."""
        invoke_ns = self._writer.now_ns()
        messages = self._consumer.consume(POLL_RECORDS, timeout_s)
        if not messages:
            return 0
        complete_ns = self._writer.now_ns()
        op = self._writer.next_op()
        read = 0
        cut: list[int] = []
        for message in messages:
            error = message.error()
            if error is not None:
                self.tally.last_error = error.name()
                if error.code() == KafkaError._AUTO_OFFSET_RESET:
                    cut.append(message.partition())
                continue
            read += 1
            if message.offset() < self._next.get(message.partition(), 0):
                op = self._writer.next_op()  # rows of one poll have no order but their offsets'
            self._record(op, invoke_ns, complete_ns, message)
        self.tally.read += read
        if cut:
            self._rewind(cut)
        return read

    def close(self) -> None:
        """End the client and leave the cluster."""
        self._writer.end(self.client)
        self._consumer.close()

    def _record(self, op: int, invoke_ns: int, complete_ns: int, message: Message) -> None:
        value, error = self._codec.decode(message.value())
        partition, offset = message.partition(), message.offset()
        self._next[partition] = offset + 1
        self._writer.record(
            op, self.client, "poll", "ok", invoke_ns, complete_ns, self.topic, partition, value,
            offset, message.leader_epoch(), error=error,
        )  # fmt: skip

    def _rewind(self, partitions: Sequence[int]) -> None:
        """The log was cut below our position there: go on from a place that exists, and say so."""
        offsets = dict(self._next)
        for partition in partitions:
            try:
                low, high = self._consumer.get_watermark_offsets(
                    TopicPartition(self.topic, partition), timeout=SOCKET_TIMEOUT_MS / 1000
                )
            except KafkaException:
                low, high = 0, offsets[partition]  # no leader answers: ask again from further back
            offsets[partition] = max(low, min(high, offsets[partition]) - REWIND_RECORDS)
        self.assign(offsets, reason="_AUTO_OFFSET_RESET")

    def _on_error(self, error: KafkaError) -> None:
        self.tally.last_error = error.name()
