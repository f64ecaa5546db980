"""Our own producer and consumer, recording every operation as the librdkafka clients do.

The rows are those of `harness.clients.librdkafka`: a send and its outcome, polls, assignments,
`start` and `end`. Beyond them the broker that answered is named, and `fail` is known for more
sends: of every attempt it is known whether it can have reached a log. A new producer epoch is a row
too; it excuses nothing, because this client writes nothing under two epochs.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from checkers.history import PRODUCER_EPOCH
from harness.admin.client import parse_bootstrap
from harness.clients.base import Outcome
from harness.clients.own.cluster import Cluster, Timing
from harness.clients.own.consumer import Consumer, ConsumerSettings
from harness.clients.own.line import Bump, End, Ended
from harness.clients.own.producer import Producer, ProducerSettings
from harness.clients.own.records import Fetched
from harness.clients.own.waiting import Signal
from harness.clients.tally import REWIND_RECORDS, Tally
from harness.history import Operations
from harness.payload import MAX_SEQUENCE, PayloadCodec, value_of
from nodes.wire.security import PLAINTEXT_CLIENT, ClientSecurity

LEFT: Final = "left its epoch"
"""How the error of an epoch's row begins: none of the beginnings that excuse duplicates."""

_OUTCOMES: Final = {End.OK: Outcome.OK, End.FAIL: Outcome.FAIL, End.INFO: Outcome.INFO}


def connect(
    bootstrap: str,
    topic: str,
    *,
    client: int,
    rng: random.Random,
    timing: Timing,
    security: ClientSecurity = PLAINTEXT_CLIENT,
) -> Cluster:
    """A client's own view of the cluster, with randomness of its own."""
    return Cluster(
        parse_bootstrap(bootstrap),
        topic,
        client_id=f"highwater-{client}",
        rng=random.Random(rng.getrandbits(64)),
        timing=timing,
        security=security,
    )


class RecordingProducer:
    """Sends values of its own to the partitions of one topic and records what became of each."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ProducerSettings,
        *,
        client: int,
        writer: Operations,
        codec: PayloadCodec,
        tally: Tally,
        wall_clock_ms: Callable[[], int],
    ) -> None:
        self.client = client
        self.topic = cluster.topic
        self.tally = tally
        self.in_flight: dict[int, int] = {}
        """Sends without an outcome, by partition."""
        self.progress = Signal()
        """Set by outcomes, for the one who sends."""
        self._acks = settings.acks
        self._writer = writer
        self._codec = codec
        self._sequence = 0
        self._pending: dict[int, tuple[int, int]] = {}  # value -> op, invoke_ns
        self._producer = Producer(
            cluster,
            settings,
            wall_clock_ms=wall_clock_ms,
            on_ended=self._ended,
            on_bump=self._bumped,
        )
        writer.start(client)

    @property
    def pending(self) -> int:
        """Sends without an outcome."""
        return len(self._pending)

    @property
    def fatal(self) -> str | None:
        """Why this instance cannot send any more."""
        if self._sequence + 1 >= MAX_SEQUENCE:
            return "the client's sequence numbers are used up"
        return self._producer.fatal

    def send(self, partition: int) -> None:
        """Start one send; its outcome is recorded later."""
        self._sequence += 1
        value = value_of(self.client, self._sequence)
        payload = self._codec.encode(self.client, self._sequence)
        self._pending[value] = (self._writer.next_op(), self._writer.now_ns())
        self.in_flight[partition] = self.in_flight.get(partition, 0) + 1
        self.tally.sent += 1
        self._producer.send(partition, value, payload)

    async def close(self, timeout_s: float) -> None:
        """Wait up to `timeout_s` for outcomes, record what has none as `info`, end the client."""
        await self._producer.close(timeout_s)
        self._writer.end(self.client)

    def _ended(self, partition: int, ended: Ended, node: int | None) -> None:
        complete_ns: int | None = self._writer.now_ns()
        outcome = _OUTCOMES[ended.end]
        error = ended.error
        if outcome is Outcome.INFO and error is None:
            error, complete_ns = "unfinished", None
        offset = None if self._acks == 0 else ended.offset
        for index, message in enumerate(ended.messages):
            op, invoke_ns = self._pending.pop(message.tag)
            self._count(outcome, invoke_ns, complete_ns)
            self._writer.record(
                op, self.client, "send", outcome.value, invoke_ns, complete_ns, self.topic,
                partition, message.tag, None if offset is None else offset + index, None,
                self._acks, node, error,
            )  # fmt: skip
        self.in_flight[partition] -= len(ended.messages)
        if error is not None:
            self.tally.last_error = error
        self.progress.set()

    def _count(self, outcome: Outcome, invoke_ns: int, complete_ns: int | None) -> None:
        tally = self.tally
        match outcome:
            case Outcome.OK:
                tally.acked += 1
                assert complete_ns is not None
                tally.latencies_ns.append(complete_ns - invoke_ns)
            case Outcome.FAIL:
                tally.failed += 1
            case Outcome.INFO:
                tally.info += 1

    def _bumped(self, partition: int, bump: Bump) -> None:
        now_ns = self._writer.now_ns()
        self._writer.record(
            self._writer.next_op(), self.client, PRODUCER_EPOCH, Outcome.OK.value, now_ns, now_ns,
            self.topic, partition, bump.tag,
            error=f"{LEFT} in this partition: {bump.reason}; {bump.given_up} given up that may be "
            "there",
        )  # fmt: skip


class RecordingConsumer:
    """Reads partitions of one topic from given offsets on and records every record and jump."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        offsets: Mapping[int, int],
        *,
        client: int,
        writer: Operations,
        codec: PayloadCodec,
        tally: Tally,
    ) -> None:
        self.client = client
        self.topic = cluster.topic
        self.tally = tally
        self._writer = writer
        self._codec = codec
        writer.start(client)
        op, now_ns = writer.next_op(), writer.now_ns()
        for partition, offset in offsets.items():
            self._assigned(op, now_ns, partition, offset, None)
        self._consumer = Consumer(cluster, settings, offsets, self, now_ns=writer.now_ns)
        self._consumer.look()

    @property
    def fatal(self) -> str | None:
        """Why this instance cannot read any more."""
        return self._consumer.fatal

    async def close(self) -> None:
        """End the client."""
        self._writer.end(self.client)
        await self._consumer.close()

    def polled(self, invoke_ns: int, node: int, read: Sequence[tuple[int, Fetched]]) -> None:
        """See `harness.clients.own.consumer.Reader`."""
        op, complete_ns = self._writer.next_op(), self._writer.now_ns()
        for partition, fetched in read:
            self.tally.read += len(fetched.records)
            for record in fetched.records:
                value, error = self._codec.decode(record.value)
                self._writer.record(
                    op, self.client, "poll", "ok", invoke_ns, complete_ns, self.topic, partition,
                    value, record.offset, record.leader_epoch, None, node, error,
                )  # fmt: skip

    def cut(self, partition: int, reason: str) -> bool:
        """Go back, and read what is there now."""
        self.tally.last_error = reason
        return True

    def moved(self, invoke_ns: int, partition: int, offset: int, reason: str) -> None:
        """A jump is an assignment with a reason."""
        self._assigned(self._writer.next_op(), invoke_ns, partition, offset, reason)

    def failed(self, partition: int, error: str) -> None:
        """Only counted among the errors."""
        self.tally.last_error = error

    def _assigned(
        self, op: int, invoke_ns: int, partition: int, offset: int, reason: str | None
    ) -> None:
        self._writer.record(
            op, self.client, "assign", "ok", invoke_ns, self._writer.now_ns(), self.topic,
            partition, None, offset, error=reason,
        )  # fmt: skip


WORKLOAD_CONSUMER: Final = ConsumerSettings(max_wait_s=1.0, rewind_records=REWIND_RECORDS)
