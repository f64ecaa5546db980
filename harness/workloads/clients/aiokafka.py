"""Producers and consumers on aiokafka that record every operation in the history.

The rows are those of `harness.workloads.clients.librdkafka`, the interface that of
`harness.workloads.clients.own`, for one event loop.

Where it differs: there is no time-out of a message. Without idempotence one is given up at the
first error after `request_timeout_ms`; with idempotence never (but where no leader is known), so
that an outcome may be as late as the end of the run. A producer never leaves its epoch: once a
batch of it was refused for good, all that follow in the partition are out of order. It is ended
then and replaced, and what was pending is `info`.
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
"""How long the library may take to end; connections to silent brokers are given up then."""
POLL_MS: Final = 100
BROKEN_S: Final = 0.1
"""Between two polls of a consumer that only gets errors."""

COMMON: Final[Mapping[str, Any]] = {
    "metadata_max_age_ms": 500,
    "retry_backoff_ms": 100,
    "request_timeout_ms": SOCKET_TIMEOUT_MS,
}
_DEAD: Final = (OutOfOrderSequenceNumber, ProducerFenced, UnknownProducerId)
"""What an idempotent producer does not recover from."""

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
    """A producer or consumer that is connected. Raises NotConnected."""
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
    """Sends values of its own to the partitions of one topic and records what became of each."""

    def __init__(self, producer: Any, sends: Sends) -> None:
        """`producer` is started."""
        self.fatal: str | None = None
        """Set when this instance cannot send any more."""
        self.progress = Signal()
        """Set by outcomes, for the one who sends."""
        self._sends = sends
        self._producer = producer
        self._lanes: dict[int, asyncio.Queue[tuple[int, bytes]]] = {}
        self._feeders: list[asyncio.Task[None]] = []
        sends.open()

    @classmethod
    async def connect(cls, config: Mapping[str, Any], sends: Sends) -> "RecordingProducer":
        """Raises NotConnected."""
        return cls(await _started(AIOKafkaProducer(**config)), sends)

    def send(self, partition: int) -> None:
        """Start one send; its outcome is recorded later."""
        if self._sends.used_up:
            self.fatal = USED_UP
            return
        self._lane(partition).put_nowait(self._sends.begin(partition))

    def _lane(self, partition: int) -> asyncio.Queue[tuple[int, bytes]]:
        """Where a partition's messages wait their turn: while its batch is full, so does the
        library's `send`, and others must not wait for that one."""
        if partition not in self._lanes:
            self._lanes[partition] = asyncio.Queue()
            feeding = self._feed(partition, self._lanes[partition])
            self._feeders.append(asyncio.get_running_loop().create_task(feeding))
        return self._lanes[partition]

    async def _feed(self, partition: int, lane: asyncio.Queue[tuple[int, bytes]]) -> None:
        while True:
            value, payload = await lane.get()
            try:
                sending = await self._producer.send(self._sends.topic, payload, partition=partition)
            except Exception as error:
                # Too large, an unknown partition, or a batch ahead of it that stayed full, whose
                # error may be what is raised: queueing is the last thing that `send` does.
                self._end(value, Outcome.FAIL, error=failed_delivery(error)[1])
            else:
                sending.add_done_callback(partial(self._heard, value))

    def _heard(self, value: int, sending: "asyncio.Future[Any]") -> None:
        if sending.cancelled():
            return
        error = sending.exception()
        if error is None:
            told = sending.result()  # None for acks=0
            self._end(value, Outcome.OK, offset=None if told is None else told.offset)
            return
        if isinstance(error, _DEAD) or type(error) is KafkaError:  # its sending task ended
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
        """Wait up to `timeout_s` for outcomes, record what has none as `info`, end the client."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        while self._sends.pending and (left_s := deadline_s - loop.time()) > 0:
            await self.progress.wait(left_s)
        for feeder in self._feeders:
            feeder.cancel()
        left = self._sends.pending
        self._sends.abandon()
        with suppress(KafkaError, TimeoutError):
            async with asyncio.timeout(STOP_S):
                if left:  # `stop` alone would wait for them, without a bound
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
        # A reset must come to us, to be recorded, instead of happening silently.
        "auto_offset_reset": "none",
        "check_crcs": True,
        "fetch_max_wait_ms": 100,
    }


class RecordingConsumer:
    """Reads partitions of one topic from given offsets on and records every record and jump."""

    def __init__(self, consumer: Any, reads: Reads, offsets: Mapping[int, int]) -> None:
        """`consumer` is started; `offsets` are {partition: next offset}."""
        self._reads = reads
        self._consumer = consumer
        reads.open()
        self._assign(offsets)
        self._polling = asyncio.get_running_loop().create_task(self._poll_on())

    @classmethod
    async def connect(
        cls, config: Mapping[str, Any], reads: Reads, offsets: Mapping[int, int]
    ) -> "RecordingConsumer":
        """Raises NotConnected."""
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

    async def _poll_on(self) -> None:
        while True:
            try:
                await self._poll()
            except OffsetOutOfRangeError as error:
                await self._rewind(error.args[0], failed_delivery(error)[1])
            except KafkaError as error:
                self._reads.note(failed_delivery(error)[1])
                await asyncio.sleep(BROKEN_S)

    async def _poll(self) -> None:
        invoke_ns = self._reads.now_ns()
        found = await self._consumer.getmany(timeout_ms=POLL_MS, max_records=POLL_RECORDS)
        if records := [record for batch in found.values() for record in batch]:
            self._reads.polled(map(_read, records), invoke_ns)

    async def _rewind(self, cut: Iterable[TopicPartition], error: str) -> None:
        """The log was cut below our position there: go on from a place that exists, and say so."""
        self._reads.note(error)
        bounds = {where.partition: await self._bounds(where) for where in cut}
        self._assign(self._reads.rewound(bounds), reason=error)

    async def _bounds(self, where: TopicPartition) -> tuple[int, int] | None:
        """Where the partition begins and ends; None when no leader answers."""
        try:
            low = await self._consumer.beginning_offsets([where])
            high = await self._consumer.end_offsets([where])
        except KafkaError:
            return None
        return low[where], high[where]


def _read(record: Any) -> Read:
    # Its leader epoch is not handed on.
    return Read(record.partition, record.offset, None, record.value)
