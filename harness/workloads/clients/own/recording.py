"""Our own producer and consumer; they record every operation as the librdkafka clients do.

The rows are those of `harness.workloads.clients.librdkafka`: a send and its outcome, polls,
assignments, `start` and `end`. In addition they name the broker that answered, and more sends end
as `fail`, because this client knows of every attempt whether it can have reached a log. A new
producer epoch is a row too. It excuses no duplicate: this client writes a value under two epochs
only if a broker refused it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from checkers.history.history import PRODUCER_EPOCH, REFUSED_HEAD
from harness.workloads.clients.counts import REWIND_RECORDS
from harness.workloads.clients.outcomes import Outcome
from harness.workloads.clients.own.cluster import Cluster
from harness.workloads.clients.own.consumer import Consumer, ConsumerSettings
from harness.workloads.clients.own.partition_queue import (
    EndedMessages,
    MessageOutcome,
    PartitionEpochBump,
)
from harness.workloads.clients.own.producer import Producer, ProducerSettings
from harness.workloads.clients.own.records import Fetched
from harness.workloads.clients.own.waiting import Signal
from harness.workloads.clients.reads import Read, Reads
from harness.workloads.clients.sends import UNFINISHED, USED_UP, Sends

LEFT: Final = "left its epoch"
"""The beginning of the error of an epoch's row, if the client itself caused the new epoch."""

_OUTCOMES: Final = {
    MessageOutcome.OK: Outcome.OK,
    MessageOutcome.FAIL: Outcome.FAIL,
    MessageOutcome.INFO: Outcome.INFO,
}


class RecordingProducer:
    """Sends unique values to the partitions of one topic, and records the outcome of each."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ProducerSettings,
        sends: Sends,
        wall_clock_ms: Callable[[], int],
    ) -> None:
        self.progress = Signal()
        """Set by outcomes, for the task that sends."""
        self._sends = sends
        self._producer = Producer(
            cluster,
            settings,
            wall_clock_ms=wall_clock_ms,
            on_ended=self._ended,
            on_bump=self._bumped,
        )
        sends.open()

    @property
    def fatal(self) -> str | None:
        """Why this instance cannot send any more."""
        return USED_UP if self._sends.used_up else self._producer.fatal

    def send(self, partition: int, *, copies: int | None = None) -> None:
        """Start one send; its outcome is recorded later."""
        value, payload = self._sends.begin(partition, copies=copies)
        self._producer.send(partition, value, payload, self._sends.key(value, partition))

    async def close(self, timeout_s: float) -> None:
        """Wait up to `timeout_s` for outcomes, record the others as `info`, end the client."""
        await self._producer.close(timeout_s)
        self._sends.close()

    def _ended(self, partition: int, ended: EndedMessages, node: int | None) -> None:
        at_ns: int | None = self._sends.now_ns()
        outcome, error = _OUTCOMES[ended.end], ended.error
        if outcome is Outcome.INFO and error is None:
            error, at_ns = UNFINISHED, None
        for index, message in enumerate(ended.messages):
            offset = None if ended.offset is None else ended.offset + index
            self._sends.end(
                message.tag, outcome, at_ns=at_ns, offset=offset, node=node, error=error
            )
        self.progress.set()

    def _bumped(self, partition: int, bump: PartitionEpochBump) -> None:
        sends, now_ns = self._sends, self._sends.now_ns()
        how = REFUSED_HEAD if bump.refused else f"{LEFT} in this partition"
        sends.writer.record(
            sends.writer.next_op(), sends.client, PRODUCER_EPOCH, Outcome.OK.value, now_ns, now_ns,
            sends.topic, partition, bump.tag,
            error=f"{how}: {bump.reason}; {bump.given_up} given up that may be there",
        )  # fmt: skip


class RecordingConsumer:
    """Reads partitions of one topic from given offsets on, and records every record and jump."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        reads: Reads,
        offsets: Mapping[int, int],
    ) -> None:
        """`offsets` are {partition: next offset}."""
        self._reads = reads
        reads.open()
        reads.assigned(offsets, reads.now_ns())
        self._consumer = Consumer(cluster, settings, offsets, self, now_ns=reads.now_ns)
        self._consumer.fetch_due()

    @property
    def fatal(self) -> str | None:
        """Why this instance cannot read any more."""
        return self._consumer.fatal

    async def close(self) -> None:
        """End the client."""
        self._reads.close()
        await self._consumer.close()

    def polled(self, invoke_ns: int, node: int, read: Sequence[tuple[int, Fetched]]) -> None:
        """Record the records of a fetch."""
        records = (Read(partition, *each[:3]) for partition, got in read for each in got.records)
        self._reads.polled(records, invoke_ns, node=node)

    def truncated(self, partition: int, reason: str) -> bool:
        """Go back, and read what the log has now."""
        self._reads.note(reason)
        return True

    def moved(self, invoke_ns: int, partition: int, offset: int, reason: str) -> None:
        """Record the jump as an assignment with a reason."""
        self._reads.moved({partition: offset}, invoke_ns, reason=reason)

    def failed(self, partition: int, error: str) -> None:
        """Show the error among the counters."""
        self._reads.note(error)


WORKLOAD_CONSUMER: Final = ConsumerSettings(max_wait_s=1.0, rewind_records=REWIND_RECORDS)
