"""Producers and consumers on librdkafka that record every operation in the history.

Each instance belongs to one thread and has a client number of its own. It writes `start` before its
first operation and `end` after its last. An instance whose process died has no `end`.

The settings are for quick failover: metadata is refreshed four times a second and at once after an
error, a reconnect waits half a second at most, and a request that an isolated broker never answers
is given up after SOCKET_TIMEOUT_MS. The workload decides what is sent when, and on which thread.

The debug log of an idempotent producer is read for the producer epochs that it leaves (see
`producer_epochs`), which are operations of the history. The log itself is not kept.
"""

import contextlib
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from checkers.history.history import PRODUCER_EPOCH
from harness.workloads.clients.access import OPEN, Access
from harness.workloads.clients.options import ProducerOptions
from harness.workloads.clients.outcomes import Outcome, delivery_outcome
from harness.workloads.clients.producer_epochs import EpochBump, EpochLogReader, RefusedBatch
from harness.workloads.clients.reads import Read, Reads
from harness.workloads.clients.sends import USED_UP, Sends, wait_for_outcomes

SOCKET_TIMEOUT_MS: Final = 3_000
REQUEST_TIMEOUT_MS: Final = 2_000
"""How long a leader waits for its followers. It answers before the socket's time-out."""

BATCH_MESSAGES: Final = 1_000
"""librdkafka counts the offsets of a batch upwards from its base offset, even if that is "unknown"
(-1001). With more than 1,001 messages the reported offsets would become non-negative and wrong."""

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
    "log_level": 2,  # a cluster under faults would log errors all the time
}


def producer_config(options: ProducerOptions) -> dict[str, Any]:
    """librdkafka's configuration of a workload's producer."""
    return {
        **options.access.librdkafka(),
        **COMMON,
        "bootstrap.servers": options.bootstrap,
        "acks": options.acks,
        "enable.idempotence": options.idempotence,
        "max.in.flight.requests.per.connection": 5,
        "linger.ms": options.linger_ms,
        "batch.num.messages": BATCH_MESSAGES,
        "message.timeout.ms": options.message_timeout_ms,
        "request.timeout.ms": min(REQUEST_TIMEOUT_MS, options.message_timeout_ms),
        "retry.backoff.ms": 50,
        "retry.backoff.max.ms": 250,
    }


class LibrdkafkaLogHandler(logging.Handler):
    """Passes librdkafka's log lines on, as (facility, text), and prints critical ones.

    librdkafka delivers its log in `poll`, before the delivery reports that are waiting.
    """

    def __init__(self, read: Callable[[str, str], None]) -> None:
        super().__init__()
        self._read = read

    def emit(self, record: logging.LogRecord) -> None:
        """Handle a line; confluent_kafka logs as ("%s [%s] %s", facility, client, text)."""
        assert isinstance(record.args, tuple)
        facility, _, text = record.args
        self._read(str(facility), str(text))
        if record.levelno >= logging.CRITICAL:  # the lines that log_level in COMMON lets through
            with contextlib.suppress(OSError):
                sys.stderr.write(f"{record.getMessage()}\n")


class RecordingProducer:
    """Sends unique values to the partitions of one topic, and records the outcome of each."""

    def __init__(self, config: Mapping[str, Any], sends: Sends) -> None:
        self.fatal: str | None = None
        """Set when librdkafka gave up for good, so that this instance cannot send any more."""
        self._sends = sends
        # How many messages each partition has, as librdkafka counts them, and the number of each
        # pending value.
        self._accepted: dict[int, int] = {}
        self._numbers: dict[int, tuple[int, int]] = {}
        self._epochs = EpochLogReader()
        settings = {**config, "on_delivery": self._delivered, "error_cb": self._on_error}
        if config.get("enable.idempotence"):
            # Not a registered logger, so that it ends with the client.
            log = logging.Logger(f"client {sends.client}")
            log.addHandler(LibrdkafkaLogHandler(self._logged))
            settings |= {"debug": "eos", "log_level": 7, "logger": log}
        self._producer = Producer(settings)
        sends.open()

    def send(self, partition: int, *, copies: int | None = None) -> None:
        """Start one send, maybe of a copy. Its outcome is recorded by a later `poll`, or now if it
        is refused."""
        self.start(partition, copies=copies)

    def start(
        self, partition: int, *, copies: int | None = None, key: bytes | None = None
    ) -> int | None:
        """Send as `send` does, maybe with a key in place of the payload's. Return the value; None:
        the producer has no values left."""
        if self._sends.used_up:
            self.fatal = USED_UP
            return None
        value, payload = self._sends.begin(partition, copies=copies)
        number = self._accepted.get(partition, 0) + 1
        self._numbers[value] = (partition, number)
        try:
            if key is None:
                key = self._sends.key(value, partition)
            # Nothing of a tombstone's delivery report names its value.
            said = {} if payload is not None else {"on_delivery": partial(self._ended, value)}
            topic = self._sends.topic
            self._producer.produce(topic, payload, key=key, partition=partition, **said)
            self._accepted[partition] = number
        except (KafkaException, BufferError) as error:
            # Refused before it was queued: it never left this process.
            kafka_error: KafkaError | None = None
            if error.args and isinstance(error.args[0], KafkaError):
                kafka_error = error.args[0]
            name = kafka_error.name() if kafka_error is not None else type(error).__name__
            if kafka_error is not None and kafka_error.code() == KafkaError._FATAL:
                self.fatal = str(kafka_error)
            self._finish(value, Outcome.FAIL, error=name)
        return value

    def poll(self, timeout_s: float) -> None:
        """Record outcomes; wait up to `timeout_s` for the first."""
        try:
            self._producer.poll(timeout_s)
        except KafkaException as error:
            # Raised once when librdkafka declares the producer broken, after its outcomes.
            self._on_error(error.args[0])

    def close(self, timeout_s: float) -> None:
        """Wait up to `timeout_s` for outcomes, record the others as `info`, end the client."""
        wait_for_outcomes(self._sends, self.poll, timeout_s)
        self.poll(0)  # for the rest of the log
        self._left_epoch(self._epochs.close())
        self._sends.abandon()
        self._producer.purge()  # nothing is sent after the end row
        self._sends.close()

    def _logged(self, facility: str, text: str) -> None:
        self._left_epoch(self._epochs.read(facility, text, self._sends.now_ns()))

    def _left_epoch(self, bump: EpochBump | None) -> None:
        if bump is None:
            return
        client, writer = self._sends.client, self._sends.writer
        op = writer.next_op()
        type_ = Outcome.INFO if bump.begun_ns is None else Outcome.OK
        for cause in bump.causes:
            writer.record(
                op, client, PRODUCER_EPOCH, type_.value, bump.began_ns, bump.begun_ns,
                cause.topic, cause.partition, self._failed_value(cause), error=cause.error,
            )  # fmt: skip

    def _failed_value(self, cause: RefusedBatch) -> int | None:
        """Return the value of the message that failed before the refused batch."""
        wanted = (cause.partition, cause.failed_message)
        return next((value for value, which in self._numbers.items() if which == wanted), None)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        self._ended(self._sends.codec.peek(message.value()), error, message)

    def _ended(self, value: int, error: KafkaError | None, message: Message) -> None:
        if value not in self._sends:
            return  # close() recorded it as unfinished and purged it
        if error is None:
            self._finish(value, Outcome.OK, offset=message.offset())
        else:
            self._finish(value, delivery_outcome(error.code()), error=error.name())

    def _finish(
        self, value: int, outcome: Outcome, *, offset: int | None = None, error: str | None = None
    ) -> None:
        del self._numbers[value]
        self._sends.end(value, outcome, at_ns=self._sends.now_ns(), offset=offset, error=error)

    def _on_error(self, error: KafkaError) -> None:
        self._sends.note(error.name())
        if error.fatal():
            self.fatal = str(error)


def consumer_config(*, bootstrap: str, group: str, access: Access = OPEN) -> dict[str, Any]:
    """librdkafka's configuration of a consumer that assigns itself partitions."""
    return {
        **access.librdkafka(),
        **COMMON,
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        # A reset must be an error, so that it is recorded instead of happening silently.
        "auto.offset.reset": "error",
        "check.crcs": True,
        "fetch.wait.max.ms": 100,
        "fetch.error.backoff.ms": 50,
        "queued.max.messages.kbytes": 8_192,
    }


class RecordingConsumer:
    """Reads partitions of one topic from given offsets on, and records every record and jump."""

    def __init__(self, config: Mapping[str, Any], reads: Reads) -> None:
        self._reads = reads
        self._consumer = Consumer({**config, "error_cb": self._on_error})
        reads.open()

    def assign(self, offsets: Mapping[int, int], *, reason: str | None = None) -> None:
        """Read these partitions only, from {partition: next offset} on."""
        invoke_ns = self._reads.now_ns()
        topic = self._reads.topic
        self._consumer.assign([TopicPartition(topic, *place) for place in offsets.items()])
        self._reads.assigned(offsets, invoke_ns, reason=reason)

    def poll(self, timeout_s: float) -> int:
        """Read what is there; wait up to `timeout_s` for the first record. Return how many."""
        return len(self.read(timeout_s))

    def read(self, timeout_s: float) -> Sequence[Read]:
        """Read as `poll` does, and return the records."""
        invoke_ns = self._reads.now_ns()
        messages = self._consumer.consume(POLL_RECORDS, timeout_s)
        if not messages:
            return ()
        truncated: list[int] = []
        records: list[Read] = []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(read_of(message))
                continue
            self._reads.note(error.name())
            if error.code() == KafkaError._AUTO_OFFSET_RESET:
                truncated.append(message.partition())
        self._reads.polled(records, invoke_ns)
        if truncated:
            self._rewind(truncated)
        return records

    def close(self) -> None:
        """End the client and leave the cluster."""
        self._reads.close()
        self._consumer.close()

    def _rewind(self, partitions: Sequence[int]) -> None:
        """Go on from offsets that exist, because logs were truncated below the positions."""
        bounds = {partition: self._bounds(partition) for partition in partitions}
        self.assign(self._reads.rewound(bounds), reason="_AUTO_OFFSET_RESET")

    def _bounds(self, partition: int) -> tuple[int, int] | None:
        """Return the partition's first and last offset; None when no leader answers."""
        where = TopicPartition(self._reads.topic, partition)
        try:
            low, high = self._consumer.get_watermark_offsets(
                where, timeout=SOCKET_TIMEOUT_MS / 1000
            )
        except KafkaException:
            return None
        return low, high

    def _on_error(self, error: KafkaError) -> None:
        self._reads.note(error.name())


def read_of(message: Message) -> Read:
    """Return a message that is a record."""
    return Read(
        message.partition(),
        message.offset(),
        message.leader_epoch(),
        message.value(),
        message.key(),
    )
