"""The final reads on our own client: every partition from its beginning to its end, on any loop.

The rows are those of `harness.workloads.final_reads`, which does the same with librdkafka in a
process.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from harness.recording.history import OperationWriter
from harness.workloads.clients.own.cluster import Cluster
from harness.workloads.clients.own.consumer import Consumer, ConsumerSettings
from harness.workloads.clients.own.offsets import NoAnswer, bounds
from harness.workloads.clients.own.recording import connect
from harness.workloads.clients.own.records import Fetched
from harness.workloads.clients.own.waiting import Signal
from harness.workloads.clients.payload import PayloadCodec
from harness.workloads.final_reads import CLIENT, FinalReadConfig, Patience
from harness.workloads.own import World

SETTINGS: Final = ConsumerSettings(max_wait_s=0.1)
RETRY_S: Final = 0.1
LOOK_S: Final = 1.0


async def read_everything(config: FinalReadConfig, writer: OperationWriter, world: World) -> bool:
    """Read all topics until every partition's end or the end of patience; whether all were read."""
    writer.start(CLIENT)
    codec = PayloadCodec(config.run_id, config.value_bytes)
    op, begun_ns = writer.next_op(), writer.now_ns()
    patience = Patience(config, asyncio.get_running_loop().time())
    async with asyncio.TaskGroup() as group:
        readers = []
        for topic, partitions in config.topics.items():
            reader = _TopicReader(topic, partitions, op, writer, codec, patience)
            readers.append(reader)
            group.create_task(reader.run(config.bootstrap, world))
    complete = [reader.conclude(begun_ns) for reader in readers]
    writer.end(CLIENT)
    return all(complete)


class _TopicReader:
    """One pass over a topic. A `harness.workloads.clients.own.consumer.Reader`."""

    def __init__(
        self,
        topic: str,
        partitions: int,
        op: int,
        writer: OperationWriter,
        codec: PayloadCodec,
        patience: Patience,
    ) -> None:
        self._topic = topic
        self._partitions = range(partitions)
        self._op = op
        self._writer = writer
        self._codec = codec
        self._patience = patience
        self._end: dict[int, int] = {}
        self._next: dict[int, int] = {}
        self._cut: set[int] = set()
        self._why: dict[int, str] = {}
        self._progress = Signal()

    async def run(self, bootstrap: str, world: World) -> None:
        """Read until every end or the end of patience, in the loop's time."""
        cluster = connect(bootstrap, self._topic, client=CLIENT, rng=world.rng, timing=world.timing)
        reading = Consumer(cluster, SETTINGS, {}, self, now_ns=self._writer.now_ns)
        loop = asyncio.get_running_loop()
        begins = [loop.create_task(self._begin(cluster, reading, p)) for p in self._partitions]
        while (left_s := self._patience.left_s(loop.time())) and any(
            self._unread(reading, partition) for partition in self._partitions
        ):
            await self._progress.wait(min(left_s, LOOK_S))
        for begin in begins:
            begin.cancel()
        await asyncio.gather(*begins, return_exceptions=True)
        self._next = {partition: reading.position(partition) for partition in self._next}
        await reading.close()

    async def _begin(self, cluster: Cluster, reading: Consumer, partition: int) -> None:
        """Ask again and again where the partition begins and ends now, and read it."""
        while True:
            try:
                begin, end = await bounds(cluster, partition)
                break
            except NoAnswer as error:
                self._why[partition] = str(error)
                await asyncio.sleep(RETRY_S)
        self._why.pop(partition, None)
        self._next[partition], self._end[partition] = begin, end
        reading.add(partition, begin)
        self._came()

    def _unread(self, reading: Consumer, partition: int) -> bool:
        if partition in self._cut:
            return False
        return partition not in self._end or reading.position(partition) < self._end[partition]

    def _came(self) -> None:
        self._patience.renew(asyncio.get_running_loop().time())
        self._progress.set()

    def conclude(self, begun_ns: int) -> bool:
        """A row for every partition's end; whether all were reached."""
        complete = [self._concluded(partition, begun_ns) for partition in self._partitions]
        return all(complete)

    def _concluded(self, partition: int, begun_ns: int) -> bool:
        end, reached = self._end.get(partition), self._next.get(partition)
        complete = (
            partition not in self._cut
            and end is not None
            and reached is not None
            and reached >= end
        )
        self._writer.record(
            self._op, CLIENT, "final-read-end", "ok" if complete else "info", begun_ns,
            self._writer.now_ns(), self._topic, partition, None, reached,
            error=None if complete else self._why.get(partition, "timeout"),
        )  # fmt: skip
        return complete

    # -- as a reader

    def polled(self, invoke_ns: int, node: int, read: Sequence[tuple[int, Fetched]]) -> None:
        """Record what was read."""
        complete_ns = self._writer.now_ns()
        for partition, fetched in read:
            for record in fetched.records:
                value, error = self._codec.decode(record.value)
                self._writer.record(
                    self._op, CLIENT, "final-read", "ok", invoke_ns, complete_ns, self._topic,
                    partition, value, record.offset, record.leader_epoch, None, node, error,
                )  # fmt: skip
        self._came()

    def cut(self, partition: int, reason: str) -> bool:
        """Cut below its own end while being read: what was read is no truth any more."""
        self._why[partition] = reason
        self._cut.add(partition)
        self._progress.set()
        return False

    def moved(self, invoke_ns: int, partition: int, offset: int, reason: str) -> None:
        """Never: a final read does not go back."""

    def failed(self, partition: int, error: str) -> None:
        """Remember why."""
        self._why[partition] = error
