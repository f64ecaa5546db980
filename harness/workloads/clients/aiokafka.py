"""Producers and consumers on aiokafka that record every operation in the history.

The rows are those of `harness.workloads.clients.librdkafka`. The interface is that of
`harness.workloads.clients.own`, for one event loop.

Differences: messages have no time-out. Without idempotence a message is given up at the first error
after `request_timeout_ms`. With idempotence it is never given up while a leader is known, so an
outcome may come as late as the end of the run. A producer never leaves its epoch: after a batch was
refused for good, all later batches of the partition are out of order. Then the producer is ended
and replaced, and pending sends are `info`.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import (
    KafkaError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    UnknownProducerId,
)

from harness.workloads.clients.access import OPEN, Access
from harness.workloads.clients.librdkafka import POLL_RECORDS, SOCKET_TIMEOUT_MS
from harness.workloads.clients.options import ProducerOptions
from harness.workloads.clients.outcomes import NotConnected, Outcome, failed_delivery
from harness.workloads.clients.own.waiting import Signal
from harness.workloads.clients.reads import Read, Reads
from harness.workloads.clients.sends import USED_UP, Sends

CONNECT_S: Final = 5.0
STOP_S: Final = 2.0
"""How long the library may take to end. Then connections to brokers without answers are dropped."""
POLL_MS: Final = 100
ERROR_PAUSE_S: Final = 0.1
"""The pause between two polls of a consumer that only gets errors."""

COMMON: Final[Mapping[str, Any]] = {
    "metadata_max_age_ms": 500,
    "retry_backoff_ms": 100,
    "request_timeout_ms": SOCKET_TIMEOUT_MS,
}
_FATAL: Final = (OutOfOrderSequenceNumber, ProducerFenced, UnknownProducerId)
"""Errors from which an idempotent producer does not recover."""

logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # faults make it warn all the time


def producer_config(options: ProducerOptions) -> dict[str, Any]:
    """aiokafka's configuration of a workload's producer."""
    return {
        **options.access.python(),
        **COMMON,
        "bootstrap_servers": options.bootstrap,
        "acks": options.acks,
        "enable_idempotence": options.idempotence,
        "linger_ms": options.linger_ms,
        "request_timeout_ms": min(SOCKET_TIMEOUT_MS, options.message_timeout_ms),
    }


async def _started(library: Any) -> Any:
    """Connect a producer or consumer. Raises NotConnected."""
    try:
        async with asyncio.timeout(CONNECT_S):
            await library.start()
    except (KafkaError, TimeoutError) as error:
        with suppress(KafkaError, TimeoutError):
            async with asyncio.timeout(STOP_S):
                await library.stop()
        raise NotConnected(f"{type(error).__name__}: {error}") from error
    return library


class RecordingProducer:
    """Sends unique values to the partitions of one topic, and records the outcome of each."""

    def __init__(self, producer: Any, sends: Sends) -> None:
        """`producer` is started."""
        self.fatal: str | None = None
        """Set when this instance cannot send any more."""
        self.progress = Signal()
        """Set by outcomes, for the task that sends."""
        self._sends = sends
        self._producer = producer
        self._queues: dict[int, asyncio.Queue[tuple[int, bytes | None]]] = {}
        self._senders: list[asyncio.Task[None]] = []
        sends.open()

    @classmethod
    async def connect(cls, config: Mapping[str, Any], sends: Sends) -> "RecordingProducer":
        """Make a connected producer. Raises NotConnected."""
        return cls(await _started(AIOKafkaProducer(**config)), sends)

    def send(self, partition: int) -> None:
        """Start one send; its outcome is recorded later."""
        if self._sends.used_up:
            self.fatal = USED_UP
            return
        self._queue(partition).put_nowait(self._sends.begin(partition))

    def _queue(self, partition: int) -> asyncio.Queue[tuple[int, bytes | None]]:
        """Return the queue of a partition's messages.

        While a partition's batch is full, the library's `send` blocks, and other partitions must
        not wait for it. So every partition has a queue and a task of its own.
        """
        if partition not in self._queues:
            self._queues[partition] = asyncio.Queue()
            sending = self._send_queued(partition, self._queues[partition])
            self._senders.append(asyncio.get_running_loop().create_task(sending))
        return self._queues[partition]

    async def _send_queued(
        self, partition: int, queue: asyncio.Queue[tuple[int, bytes | None]]
    ) -> None:
        while True:
            value, payload = await queue.get()
            try:
                key = self._sends.key(value, partition)
                sending = await self._producer.send(
                    self._sends.topic, payload, key=key, partition=partition
                )
            except Exception as error:
                # The message is too large, the partition is unknown, or an earlier batch stayed
                # full and its error is raised here. `send` queues the message as its last step, so
                # it was not queued.
                self._end(value, Outcome.FAIL, error=failed_delivery(error)[1])
            else:
                sending.add_done_callback(partial(self._delivered, value))

    def _delivered(self, value: int, sending: "asyncio.Future[Any]") -> None:
        if sending.cancelled():
            return
        error = sending.exception()
        if error is None:
            metadata = sending.result()  # None for acks=0
            self._end(value, Outcome.OK, offset=None if metadata is None else metadata.offset)
            return
        if isinstance(error, _FATAL) or type(error) is KafkaError:  # its sending task ended
            self.fatal = str(error)
        outcome, name = failed_delivery(error)
        self._end(value, outcome, error=name)

    def _end(
        self, value: int, outcome: Outcome, *, offset: int | None = None, error: str | None = None
    ) -> None:
        now_ns = self._sends.now_ns()
        self._sends.end(value, outcome, at_ns=now_ns, offset=offset, error=error)
        self.progress.set()

    async def close(self, timeout_s: float) -> None:
        """Wait up to `timeout_s` for outcomes, record the others as `info`, end the client."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        while self._sends.pending and (left_s := deadline_s - loop.time()) > 0:
            await self.progress.wait(left_s)
        for sender in self._senders:
            sender.cancel()
        left = self._sends.pending
        self._sends.abandon()
        with suppress(KafkaError, TimeoutError):
            async with asyncio.timeout(STOP_S):
                if left:  # `stop` alone would wait for these sends without a time limit
                    await self._producer._sender.close()
                await self._producer.stop()
        await self._producer.client.close()
        self._sends.close()


def consumer_config(*, bootstrap: str, access: Access = OPEN) -> dict[str, Any]:
    """aiokafka's configuration of a consumer that assigns itself partitions."""
    return {
        **access.python(),
        **COMMON,
        "bootstrap_servers": bootstrap,
        "group_id": None,
        "enable_auto_commit": False,
        # A reset must be an error, so that it is recorded instead of happening silently.
        "auto_offset_reset": "none",
        "check_crcs": True,
        # As librdkafka by default; without transactions it makes no difference.
        "isolation_level": "read_committed",
        "fetch_max_wait_ms": 100,
    }


class RecordingConsumer:
    """Reads partitions of one topic from given offsets on, and records every record and jump."""

    def __init__(self, consumer: Any, reads: Reads, offsets: Mapping[int, int]) -> None:
        """`consumer` is started; `offsets` are {partition: next offset}."""
        self._reads = reads
        self._consumer = consumer
        reads.open()
        self._assign(offsets)
        self._polling = asyncio.get_running_loop().create_task(self._poll_forever())

    @classmethod
    async def connect(
        cls, config: Mapping[str, Any], reads: Reads, offsets: Mapping[int, int]
    ) -> "RecordingConsumer":
        """Make a connected consumer. Raises NotConnected."""
        return cls(await _started(AIOKafkaConsumer(**config)), reads, offsets)

    @property
    def fatal(self) -> str | None:
        """Why this instance cannot read any more."""
        if not self._polling.done() or self._polling.cancelled():
            return None
        return repr(self._polling.exception())

    async def close(self) -> None:
        """End the client."""
        self._polling.cancel()
        await asyncio.wait([self._polling])
        self._reads.close()
        with suppress(KafkaError, TimeoutError):
            async with asyncio.timeout(STOP_S):
                await self._consumer.stop()

    def _assign(self, offsets: Mapping[int, int], *, reason: str | None = None) -> None:
        invoke_ns = self._reads.now_ns()
        self._consumer.assign([self._where(partition) for partition in offsets])
        for partition, offset in offsets.items():
            self._consumer.seek(self._where(partition), offset)
        self._reads.assigned(offsets, invoke_ns, reason=reason)

    def _where(self, partition: int) -> TopicPartition:
        return TopicPartition(self._reads.topic, partition)

    async def _poll_forever(self) -> None:
        while True:
            try:
                await self._poll()
            except OffsetOutOfRangeError as error:
                await self._rewind(error.args[0], failed_delivery(error)[1])
            except KafkaError as error:
                self._reads.note(failed_delivery(error)[1])
                await asyncio.sleep(ERROR_PAUSE_S)

    async def _poll(self) -> None:
        invoke_ns = self._reads.now_ns()
        found = await self._consumer.getmany(timeout_ms=POLL_MS, max_records=POLL_RECORDS)
        if records := [record for batch in found.values() for record in batch]:
            self._reads.polled(map(_read, records), invoke_ns)

    async def _rewind(self, truncated: Iterable[TopicPartition], error: str) -> None:
        """Go on from offsets that exist, because logs were truncated below the positions."""
        self._reads.note(error)
        bounds = {where.partition: await self._bounds(where) for where in truncated}
        self._assign(self._reads.rewound(bounds), reason=error)

    async def _bounds(self, where: TopicPartition) -> tuple[int, int] | None:
        """Return the partition's first and last offset; None when no leader answers."""
        try:
            low = await self._consumer.beginning_offsets([where])
            high = await self._consumer.end_offsets([where])
        except KafkaError:
            return None
        return low[where], high[where]


def _read(record: Any) -> Read:
    # aiokafka does not give the leader epoch of a record.
    return Read(record.partition, record.offset, None, record.value)
