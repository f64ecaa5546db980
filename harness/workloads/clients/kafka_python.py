"""Producers and consumers on kafka-python that record every operation in the history.

Rows and interface are those of `harness.workloads.clients.librdkafka`. kafka-python calls back in a
thread of its own: results get their time there, and the thread that polls records them.

Differences: a producer has no separate time limit for connections (`request_timeout_ms` is also how
long a leader waits for its followers). An idempotent producer reports its epochs only to brokers.
It may leave an epoch (KIP-360), but writes nothing under two: messages in flight are given up, or
repeated unchanged. So there are no producer-epoch rows, and no duplicate is excused.
"""

import contextlib
import logging
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

with warnings.catch_warnings():
    # It reads its schemas with a function that is deprecated in Python 3.11, but not in 3.13.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.errors import (
        KafkaError,
        KafkaTimeoutError,
        LogTruncationError,
        MessageSizeTooLargeError,
        OffsetOutOfRangeError,
    )

from harness.workloads.clients.access import OPEN, Access
from harness.workloads.clients.librdkafka import POLL_RECORDS, SOCKET_TIMEOUT_MS
from harness.workloads.clients.options import ProducerOptions
from harness.workloads.clients.outcomes import NotConnected, Outcome, failed_delivery
from harness.workloads.clients.reads import Read, Reads
from harness.workloads.clients.sends import USED_UP, Sends, wait_for_outcomes

T = TypeVar("T")

CONNECT_TIMEOUT_MS: Final = 5_000
STOP_S: Final = 2.0
"""How long the library's threads may take to end. Then connections without answers are dropped."""
ERROR_PAUSE_S: Final = 0.1
"""The pause between two polls of a consumer that only gets errors."""

COMMON: Final[Mapping[str, Any]] = {
    "bootstrap_timeout_ms": CONNECT_TIMEOUT_MS,
    "metadata_max_age_ms": 500,
    "retry_backoff_ms": 100,
    "reconnect_backoff_ms": 50,
    "reconnect_backoff_max_ms": 500,
    "allow_auto_create_topics": False,
    "metrics_enabled": False,
}

logging.getLogger("kafka").setLevel(logging.CRITICAL)  # faults make it warn all the time


def producer_config(options: ProducerOptions) -> dict[str, Any]:
    """kafka-python's configuration of a workload's producer.

    A message is given up after its time-out, which cannot be less than that of a request.
    """
    request_timeout_ms = min(SOCKET_TIMEOUT_MS, options.message_timeout_ms)
    return {
        **options.access.python(),
        **COMMON,
        "bootstrap_servers": options.bootstrap.split(","),
        "acks": options.acks,
        "enable_idempotence": options.idempotence,
        "max_in_flight_requests_per_connection": 5,
        "linger_ms": options.linger_ms,
        "request_timeout_ms": request_timeout_ms,
        "delivery_timeout_ms": max(
            options.message_timeout_ms, request_timeout_ms + options.linger_ms
        ),
        "max_block_ms": request_timeout_ms,
    }


def _connected(make: Callable[..., T], config: Mapping[str, Any]) -> T:
    """Make a client. Raises NotConnected."""
    try:
        return make(**config)
    except KafkaError as error:
        raise NotConnected(f"{type(error).__name__}: {error}") from error


class RecordingProducer:
    """Sends unique values to the partitions of one topic, and records the outcome of each.

    Raises NotConnected.
    """

    def __init__(self, config: Mapping[str, Any], sends: Sends) -> None:
        self.fatal: str | None = None
        """Set when this instance cannot send any more."""
        self._sends = sends
        self._ended: SimpleQueue[tuple[int, int, Any]] = SimpleQueue()  # value, when, result
        self._producer: Any = _connected(KafkaProducer, config)
        sends.open()

    def send(self, partition: int) -> None:
        """Start one send. Its outcome is recorded by a later `poll`, or now if it is refused."""
        if self._sends.used_up:
            self.fatal = USED_UP
            return
        value, payload = self._sends.begin(partition)
        try:
            key = self._sends.key(value, partition)
            sending = self._producer.send(self._sends.topic, payload, key, partition=partition)
        except (MessageSizeTooLargeError, KafkaTimeoutError) as error:
            # The message is too large, or the topic is unknown: it was not queued.
            now_ns = self._sends.now_ns()
            self._sends.end(value, Outcome.FAIL, at_ns=now_ns, error=failed_delivery(error)[1])
            return
        sending.add_both(partial(self._delivered, value))

    def _delivered(self, value: int, result: Any) -> None:
        self._ended.put((value, self._sends.now_ns(), result))

    def poll(self, timeout_s: float) -> None:
        """Record outcomes; wait up to `timeout_s` for the first."""
        with contextlib.suppress(Empty):
            self._finish(
                *self._ended.get(timeout=timeout_s) if timeout_s else self._ended.get_nowait()
            )
            while True:
                self._finish(*self._ended.get_nowait())

    def close(self, timeout_s: float) -> None:
        """Wait up to `timeout_s` for outcomes, record the others as `info`, end the client."""
        wait_for_outcomes(self._sends, self.poll, timeout_s)
        if self._sends.pending:
            # `close` alone would wait for these sends first, fail, and go on sending.
            self._sends.abandon()
            self._producer._sender.force_close()
        with contextlib.suppress(KafkaError):
            self._producer.close(STOP_S)
        self._sends.close()

    def _finish(self, value: int, at_ns: int, result: Any) -> None:
        if not isinstance(result, BaseException):
            self._sends.end(value, Outcome.OK, at_ns=at_ns, offset=result.offset)
            return
        outcome, name = failed_delivery(result)
        self._sends.end(value, outcome, at_ns=at_ns, error=name)
        state = self._producer._transaction_manager
        if state is not None and state.has_fatal_error():  # kafka-python has no callback for it
            self.fatal = name


def consumer_config(*, bootstrap: str, access: Access = OPEN) -> dict[str, Any]:
    """kafka-python's configuration of a consumer that assigns itself partitions."""
    return {
        **access.python(),
        **COMMON,
        "bootstrap_servers": bootstrap.split(","),
        "group_id": None,
        "enable_auto_commit": False,
        # A reset must be an error, so that it is recorded instead of happening silently.
        "auto_offset_reset": "none",
        "check_crcs": True,
        # As librdkafka by default; without transactions it makes no difference.
        "isolation_level": "read_committed",
        "request_timeout_ms": SOCKET_TIMEOUT_MS,
        "fetch_max_wait_ms": 100,
    }


class RecordingConsumer:
    """Reads partitions of one topic from given offsets on, and records every record and jump.

    Raises NotConnected.
    """

    def __init__(self, config: Mapping[str, Any], reads: Reads) -> None:
        self._reads = reads
        self._consumer: Any = _connected(KafkaConsumer, config)
        reads.open()

    def assign(self, offsets: Mapping[int, int], *, reason: str | None = None) -> None:
        """Read these partitions only, from {partition: next offset} on."""
        invoke_ns = self._reads.now_ns()
        where = {TopicPartition(self._reads.topic, each): offsets[each] for each in offsets}
        self._consumer.assign(list(where))
        for place, offset in where.items():
            self._consumer.seek(place, offset)
        self._reads.assigned(offsets, invoke_ns, reason=reason)

    def poll(self, timeout_s: float) -> int:
        """Read what is there; wait up to `timeout_s` for the first record. Return how many."""
        invoke_ns = self._reads.now_ns()
        try:
            found = self._consumer.poll(timeout_s * 1000, max_records=POLL_RECORDS)
        except OffsetOutOfRangeError as error:
            self._rewind(error.args[0], error)
        except LogTruncationError as error:  # KIP-320
            self._rewind(error.divergent_offsets, error)
        except KafkaError as error:
            self._reads.note(failed_delivery(error)[1])
            time.sleep(ERROR_PAUSE_S)
        else:
            records = [record for batch in found.values() for record in batch]
            return self._reads.polled(map(_read, records), invoke_ns) if records else 0
        return 0

    def close(self) -> None:
        """End the client and leave the cluster."""
        self._reads.close()
        self._consumer.close(autocommit=False, timeout_ms=STOP_S * 1000)

    def _rewind(self, truncated: Iterable[Any], error: KafkaError) -> None:
        """Go on from offsets that exist, because logs were truncated below the positions."""
        name = failed_delivery(error)[1]
        self._reads.note(name)
        bounds = {each.partition: self._bounds(each) for each in truncated}
        self.assign(self._reads.rewound(bounds), reason=name)

    def _bounds(self, where: Any) -> tuple[int, int] | None:
        """Return the partition's first and last offset; None when no leader answers."""
        try:
            low = self._consumer.beginning_offsets([where], timeout_ms=SOCKET_TIMEOUT_MS)
            high = self._consumer.end_offsets([where], timeout_ms=SOCKET_TIMEOUT_MS)
        except KafkaError:
            return None
        return low[where], high[where]


def _read(record: Any) -> Read:
    return Read(record.partition, record.offset, record.leader_epoch, record.value)
