"""Producers of unusual batches, some of which are wrong, each with a partition of its own.

They are judged by `harness.simulation.invariants.sent_batches`, and nothing of them is recorded.
"""

import asyncio
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode

from harness.plans.plan import Topic
from harness.simulation.batch_forms import (
    CODECS,
    GAP,
    GAP_RECORDS,
    MAX_BYTES,
    OLD_EPOCH,
    WRONG,
    Stamp,
    Wrong,
    encoded,
    unusual_records,
)
from harness.simulation.committed_reads import read_committed
from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.sent_batches import SentBatches, check_refusal
from harness.simulation.lookups import check_lookups
from harness.simulation.raw_produce import RETRIABLE, RawProducer
from harness.simulation.transaction_work import until_answered
from harness.workloads.clients.own.answer_codes import OnAnswer
from harness.workloads.clients.own.cluster import Cluster
from harness.workloads.clients.own.coordinator import Unavailable
from nodes.log.batch import Record

TOPIC: Final = "highwater.unusual"
CONFIGS: Final = {
    "max.message.bytes": str(MAX_BYTES),
    "message.timestamp.type": "CreateTime",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "segment.bytes": "200000",
}
"""Nothing is removed or changed, whatever the brokers' defaults are."""
PAUSE_S: Final = (0.0, 0.2)
RETRY_S: Final = 0.05
WRONG_SHARE, NEW_EPOCHS, OF_STATE = 0.5, 0.1, 0.2
"""Shares of all batches, of valid ones, and of wrong ones."""
STEPS: Final = (5, 60)
"""The batches of one producer id."""

Report = Callable[[InvariantBroken], None]


def topic(producers: int) -> Topic:
    """Return the topic of so many producers."""
    return Topic(name=TOPIC, partitions=producers, acks=-1, configs=CONFIGS)


class _Refused(Exception):
    """A valid batch is refused, so the producer begins anew."""


class BatchProducer:
    """Sends one batch after the other to one partition.

    `report` takes what is wrong unless records were lost with permission, `surely` what is wrong in
    any case, and `on_answer` the answers to valid requests.
    """

    def __init__(
        self,
        cluster: Cluster,
        sent: SentBatches,
        *,
        rng: random.Random,
        wall_clock_ms: Callable[[], int],
        stop: asyncio.Event,
        on_answer: OnAnswer,
        report: Report,
        surely: Report,
    ) -> None:
        self._producer = RawProducer(cluster, sent.partition)
        self._sent = sent
        self._rng = rng
        self._wall_clock_ms = wall_clock_ms
        self._stop = stop
        self._on_answer = on_answer
        self._report = report
        self._surely = surely
        self._stamp = Stamp(-1, -1, 0)

    async def run(self) -> None:
        """Send until the stop. A producer that is refused, or has no answer, begins anew."""
        while not self._stop.is_set():
            try:
                await until_answered(self._begin, self._stop)
                for _ in range(self._rng.randint(*STEPS)):
                    if self._stop.is_set():
                        return
                    await self._step()
                    await asyncio.sleep(self._rng.uniform(*PAUSE_S))
            except (Unavailable, _Refused):
                await asyncio.sleep(RETRY_S)

    async def _begin(self) -> None:
        """Get a producer id."""
        api = "init_producer_id"
        values = {"transactional_id": None, "transaction_timeout": timedelta(minutes=1)}
        connection, answer = await self._producer.ask(api, **values)
        self._on_answer(connection.peer, api, answer)
        if answer.error_code is not ErrorCode.none:
            raise Unavailable(answer.error_code.name.upper())
        self._stamp = Stamp(int(answer.producer_id), int(answer.producer_epoch), 0)

    async def _step(self) -> None:
        rng = self._rng
        if rng.random() >= WRONG_SHARE:
            await self._send_valid()
        elif rng.random() >= OF_STATE:
            await self._send_wrong(rng.choice(WRONG), self._stamp)
        elif self._stamp.epoch and self._stamp.sequence:  # the log knows of this epoch
            old = self._stamp._replace(epoch=self._stamp.epoch - 1)
            await self._send_wrong(OLD_EPOCH, old, self._report)
        elif self._stamp.sequence:
            later = self._stamp._replace(sequence=self._stamp.sequence + GAP_RECORDS)
            await self._send_wrong(GAP, later, self._report)

    async def _send_valid(self) -> None:
        """Send a batch until it has an answer. Raises _Refused, Unavailable."""
        rng, sent = self._rng, self._sent
        if rng.random() < NEW_EPOCHS:  # a producer may do this by itself (KIP-360)
            self._stamp = self._stamp._replace(epoch=self._stamp.epoch + 1, sequence=0)
        records = unusual_records(sent.next_number, self._wall_clock_ms(), rng)
        batch, data = sent.begin(records), encoded(records, self._stamp, rng.choice(CODECS))

        async def attempt() -> Any:
            connection, answer, row = await self._producer.produce(data)
            self._on_answer(connection.peer, "produce", answer)
            if row.error_code in RETRIABLE:
                raise Unavailable(row.error_code.name.upper())
            return row

        row = await until_answered(attempt, self._stop)
        if row.error_code not in (ErrorCode.none, ErrorCode.duplicate_sequence_number):
            raise _Refused(row.error_code.name.upper())
        batch.acknowledged = True
        batch.offset = int(row.base_offset) if row.base_offset >= 0 else None
        self._stamp = self._stamp._replace(sequence=self._stamp.sequence + len(records))

    async def _send_wrong(self, wrong: Wrong, stamp: Stamp, report: Report | None = None) -> None:
        """Send a wrong batch, once. Raises Unavailable."""
        now_ms = self._wall_clock_ms()
        records = [Record(timestamp=now_ms, value=b"wrong %d" % number) for number in range(3)]
        _, _, row = await self._producer.produce(wrong.make(encoded(records, stamp)))
        try:
            check_refusal(wrong, row.error_code)
        except InvariantBroken as broken:
            (report or self._surely)(broken)


async def check_batches(cluster: Cluster, sent: SentBatches, rng: random.Random) -> None:
    """Read the whole partition, look for records by time, and judge. Raises InvariantBroken."""
    records = await read_committed(cluster, sent.partition)
    sent.check(records)
    await check_lookups(cluster, sent.partition, records, rng)
