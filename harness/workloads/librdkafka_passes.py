"""The reader of a compacted topic with librdkafka, in a thread: see `clients.passes`.

It reads one partition after the other.
"""

import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from harness.workloads.clients.access import Access
from harness.workloads.clients.librdkafka import (
    POLL_RECORDS,
    SOCKET_TIMEOUT_MS,
    consumer_config,
    read_of,
)
from harness.workloads.clients.passes import PASS_S, RETRY_S, Pass, Passes
from harness.workloads.config import ClientConfig

POLL_S = 0.02
"""A poll takes so long unless it is full, and a pass should be short."""


class PassReader:
    """Reads the partitions of one topic in passes."""

    def __init__(self, config: ClientConfig, passes: Passes, access: Access) -> None:
        self._config = config
        self._passes = passes
        settings = consumer_config(
            bootstrap=config.bootstrap, group=f"highwater-{passes.client}", access=access
        )
        # An end without records to read is only seen as the end of a partition.
        ends = {"enable.partition.eof": True}
        self._consumer = Consumer({**settings, **ends, "error_cb": self._on_error})

    def run(self, stop: threading.Event) -> None:
        """Read until the stop, then end the client."""
        self._passes.open()
        while not stop.is_set():
            whole = [self._pass(partition, stop) for partition in range(self._config.partitions)]
            stop.wait(self._config.passes_every_s if any(whole) else RETRY_S)
        self._passes.close()
        self._consumer.close()

    def _pass(self, partition: int, stop: threading.Event) -> bool:
        """Read a partition once; return whether a leader said where its log ends."""
        where = TopicPartition(self._config.topic, partition)
        began_ns = self._passes.now_ns()
        try:
            low, end = self._consumer.get_watermark_offsets(where, timeout=SOCKET_TIMEOUT_MS / 1000)
        except KafkaException as error:
            self._passes.note(error.args[0].name())
            return False
        reading = self._passes.begin(partition, began_ns, low, end)
        deadline_s = time.monotonic() + PASS_S
        self._consumer.assign([TopicPartition(self._config.topic, partition, low)])
        while not (reading.over or stop.is_set()) and time.monotonic() < deadline_s:
            self._poll(reading)
        self._consumer.unassign()
        self._passes.ended(partition)
        return True

    def _poll(self, reading: Pass) -> None:
        invoke_ns = self._passes.now_ns()
        messages = self._consumer.consume(POLL_RECORDS, POLL_S)
        messages = [each for each in messages if each.partition() == reading.partition]
        records = [read_of(each) for each in messages if each.error() is None]
        self._passes.polled(records, invoke_ns)
        for message in messages:
            self._take_error(reading, message)

    def _take_error(self, reading: Pass, message: Message) -> None:
        error = message.error()
        if error is None:
            return
        if error.code() == KafkaError._PARTITION_EOF:
            reading.next = max(reading.next, message.offset())
            return
        self._passes.note(error.name())
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            # The log was truncated: what was read of it may be of another log.
            reading.why = error.name()

    def _on_error(self, error: KafkaError) -> None:
        self._passes.note(error.name())
