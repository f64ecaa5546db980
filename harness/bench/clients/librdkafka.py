"""The measurements through librdkafka, as applications use it. They include Python's own time.

"Messages per send" is the number of messages in one Produce request to the only partition.
librdkafka closes a batch when it holds `batch.num.messages`; `linger.ms` never expires, so that no
batch is closed before. A message counts as acknowledged when it has left librdkafka's queue; there
is no callback for a successful message.
"""

import time
from array import array
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from harness.bench.clients.loops import MAX_LATENCIES, SILENCE_S, ClientError, Counted, Window

QUEUE_MESSAGES: Final = 20_000
NEVER_MS: Final = 5_000
"""linger.ms: longer than any batch takes to fill, and shorter than the message timeout."""
FULL_S: Final = 0.02
"""How long to wait for room in a full queue; a full queue lasts much longer."""
CONSUME_MESSAGES: Final = 1_000
MESSAGE_MAX_BYTES: Final = 16 << 20

COMMON: Final[Mapping[str, Any]] = {
    "broker.address.family": "v4",
    "allow.auto.create.topics": True,  # librdkafka's mock cluster starts without topics
    "log_level": 2,
}


def producer_config(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of librdkafka with which every send has exactly `messages_per_send`."""
    messages = int(job["messages_per_send"])
    return {
        **COMMON,
        **_bootstrap(job),
        "acks": job["acks"],
        "enable.idempotence": False,
        "max.in.flight.requests.per.connection": job["in_flight"],
        "batch.num.messages": messages,
        "batch.size": MESSAGE_MAX_BYTES,
        "message.max.bytes": MESSAGE_MAX_BYTES,
        "linger.ms": 0 if messages == 1 else NEVER_MS,
        "queue.buffering.max.messages": max(QUEUE_MESSAGES, 10 * messages),
        "queue.buffering.max.kbytes": 256 << 10,
        "message.timeout.ms": int(SILENCE_S * 1000),
        "delivery.report.only.error": True,
    }


class MeasuringProducer:
    """A producer on one partition."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        self._job = job
        self._failure: KafkaError | None = None
        self._producer = Producer({**producer_config(job), "error_cb": self._on_error})
        self._value = b"x" * int(job["size"])
        # One whole send before the measurement: it connects, and finds the leader.
        self._sent = int(job["messages_per_send"])
        for _ in range(self._sent):
            self._send()
        if self._producer.flush(SILENCE_S):
            raise ClientError(f"no answer for {SILENCE_S:.0f} s")

    def latencies(self, window: Window) -> "array[int]":
        """Return the ns from send to acknowledgement (acks=0: to the socket) of each send."""
        taken = array("q")
        producer, now_ns = self._producer, time.monotonic_ns
        while len(taken) < MAX_LATENCIES:
            before = now_ns()
            self._send()
            if producer.flush(SILENCE_S):
                raise ClientError(f"no answer for {SILENCE_S:.0f} s")
            after = now_ns()
            self._check()
            if before >= window.warm_ns:
                taken.append(after - before)
            if after >= window.end_ns:
                break
        return taken

    def throughput(self, window: Window) -> Counted:
        """Return what was counted at full speed."""
        start, start_ns = self._until(window.warm_ns)
        end, end_ns = self._until(window.end_ns)
        return Counted(end - start, (end_ns - start_ns) / 1e9)

    def close(self) -> None:
        """Discard the queued messages."""
        self._producer.purge()

    def _until(self, until_ns: int) -> tuple[int, int]:
        producer, topic, value = self._producer, self._job["topic"], self._value
        while (now_ns := time.monotonic_ns()) < until_ns:
            try:
                for _ in range(200):
                    producer.produce(topic, value, partition=0)
                    self._sent += 1
            except BufferError:
                producer.poll(FULL_S)
            producer.poll(0)
            self._check()
        return self._sent - len(producer), now_ns

    def _send(self) -> None:
        self._producer.produce(
            self._job["topic"], self._value, partition=0, on_delivery=self._delivered
        )

    def _delivered(self, error: KafkaError | None, _message: object) -> None:
        self._failure = error or self._failure

    def _on_error(self, error: KafkaError) -> None:
        if error.code() in (KafkaError._ALL_BROKERS_DOWN, KafkaError._FATAL):
            self._failure = error

    def _check(self) -> None:
        if self._failure is not None:
            raise ClientError(f"librdkafka: {self._failure.str()}")


class MeasuringConsumer:
    """A consumer of one partition. It starts again at the beginning when it reaches the end."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        size = int(job["fetch_bytes"])
        self._consumer = Consumer(
            {
                **COMMON,
                **_bootstrap(job),
                "group.id": "highwater-bench",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "check.crcs": bool(job["check_crcs"]),
                "fetch.message.max.bytes": size,
                "fetch.max.bytes": max(size, 1 << 20),
                "message.max.bytes": 1 << 20,
                "queued.max.messages.kbytes": 64 << 10,
                "fetch.queue.backoff.ms": 1,  # the default of 1 s would dominate the measurement
                "fetch.wait.max.ms": 1,  # so would the wait at the end of the partition
            }
        )
        self._start = TopicPartition(job["topic"], 0, 0)
        self._consumer.assign([self._start])
        # One message before the measurement: it connects, and finds the leader.
        if not self._consumer.consume(1, SILENCE_S):
            raise ClientError(f"no message for {SILENCE_S:.0f} s")

    def throughput(self, window: Window) -> Counted:
        """Return what was counted at full speed: one message at least, however late it comes."""
        _, start_ns = self._until(window.warm_ns)
        read, end_ns = self._until(window.end_ns, least=1)
        return Counted(read, (end_ns - start_ns) / 1e9)

    def close(self) -> None:
        """Leave the cluster."""
        self._consumer.close()

    def _until(self, until_ns: int, least: int = 0) -> tuple[int, int]:
        read = 0
        last_read_ns = time.monotonic_ns()
        while (now_ns := time.monotonic_ns()) < until_ns or read < least:
            messages = self._consumer.consume(CONSUME_MESSAGES, 0.1)
            if messages:
                last_read_ns = now_ns
                read += len(messages)
            elif now_ns - last_read_ns > SILENCE_S * 1e9:
                raise ClientError(f"no message for {SILENCE_S:.0f} s")
            for message in messages[-1:]:
                error = message.error()
                if error is None:
                    continue
                read -= 1
                if error.code() != KafkaError._PARTITION_EOF:
                    raise ClientError(f"librdkafka: {error.str()}")
                try:
                    self._consumer.seek(self._start)
                except KafkaException as failed:
                    raise ClientError(f"librdkafka: {failed}") from failed
        return read, now_ns


def _bootstrap(job: Mapping[str, Any]) -> dict[str, Any]:
    if job["bootstrap"] is None:
        return {"bootstrap.servers": "unused:1", "test.mock.num.brokers": 3}
    return {"bootstrap.servers": job["bootstrap"]}
