"""The final reads with our own client, on any event loop.

The rows are those of `harness.workloads.final_reads`, which does the same with librdkafka in a
process.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from harness.recording.history import OperationWriter
from harness.workloads.clients.own.cluster import Cluster
from harness.workloads.clients.own.consumer import OUT_OF_RANGE, Consumer, ConsumerSettings
from harness.workloads.clients.own.offsets import BoundsUnknown, bounds
from harness.workloads.clients.own.records import Fetched
from harness.workloads.clients.own.waiting import Signal
from harness.workloads.clients.payload import PayloadCodec
from harness.workloads.environment import ClientEnvironment
from harness.workloads.final_commits import record_committed
from harness.workloads.final_reads import (
    CLIENT,
    FinalReadConfig,
    ProgressDeadline,
    read_row,
    record_end,
)

SETTINGS: Final = ConsumerSettings(max_wait_s=0.1)
RETRY_S: Final = 0.1
CHECK_S: Final = 1.0


async def read_everything(
    config: FinalReadConfig, writer: OperationWriter, world: ClientEnvironment
) -> bool:
    """Read all topics until every partition's end or the deadline, and ask for the committed
    offsets; return whether all was answered."""
    writer.start(CLIENT)
    codec = PayloadCodec(config.run_id, config.value_bytes)
    op, begun_ns = writer.next_op(), writer.now_ns()
    deadline = ProgressDeadline(config, asyncio.get_running_loop().time())
    async with asyncio.TaskGroup() as group:
        readers = []
        for topic, partitions in config.topics.items():
            reader = _TopicReader(topic, partitions, op, writer, codec, deadline, config)
            readers.append(reader)
            group.create_task(reader.run(config.bootstrap, world))
    complete = [reader.record_ends(begun_ns) for reader in readers]
    complete.append(
        await record_committed(
            config.bootstrap,
            config.partitions_of_groups(),
            client=CLIENT,
            writer=writer,
            world=world,
            patience_s=config.patience_s,
        )
    )
    writer.end(CLIENT)
    return all(complete)


class _TopicReader:
    """Reads one topic. Implements `harness.workloads.clients.own.consumer.Reader`."""

    def __init__(
        self,
        topic: str,
        partitions: int,
        op: int,
        writer: OperationWriter,
        codec: PayloadCodec,
        deadline: ProgressDeadline,
        config: FinalReadConfig,
    ) -> None:
        self._isolation = config.isolation(topic)
        self._keyed = topic in config.compacted
        self._topic = topic
        self._partitions = range(partitions)
        self._op = op
        self._writer = writer
        self._codec = codec
        self._deadline = deadline
        self._end: dict[int, int] = {}
        self._next: dict[int, int] = {}
        self._read: dict[int, int] = {}
        """The offset behind the last record that was read."""
        self._truncated: set[int] = set()
        self._why: dict[int, str] = {}
        self._progress = Signal()

    async def run(self, bootstrap: str, world: ClientEnvironment) -> None:
        """Read until every end or the deadline, in the loop's time."""
        cluster = world.connect(bootstrap, self._topic, CLIENT)
        settings = replace(SETTINGS, read_committed=self._isolation is not None)
        reading = Consumer(cluster, settings, {}, self, now_ns=self._writer.now_ns)
        loop = asyncio.get_running_loop()
        begins = [loop.create_task(self._begin(cluster, reading, p)) for p in self._partitions]
        while (left_s := self._deadline.left_s(loop.time())) and any(
            self._unread(reading, partition) for partition in self._partitions
        ):
            await self._progress.wait(min(left_s, CHECK_S))
        for begin in begins:
            begin.cancel()
        await asyncio.gather(*begins, return_exceptions=True)
        self._next = {partition: reading.position(partition) for partition in self._next}
        await reading.close()

    async def _begin(self, cluster: Cluster, reading: Consumer, partition: int) -> None:
        """Ask for the partition's bounds until there is an answer, and begin to read it."""
        while True:
            try:
                begin, end = await bounds(cluster, partition)
                break
            except BoundsUnknown as error:
                self._why[partition] = str(error)
                await asyncio.sleep(RETRY_S)
        self._why.pop(partition, None)
        self._next[partition], self._end[partition] = begin, end
        reading.add(partition, begin)
        self._progressed()

    def _unread(self, reading: Consumer, partition: int) -> bool:
        if partition in self._truncated:
            return False
        return partition not in self._end or reading.position(partition) < self._end[partition]

    def _progressed(self) -> None:
        self._deadline.extend(asyncio.get_running_loop().time())
        self._progress.set()

    def record_ends(self, begun_ns: int) -> bool:
        """Record a row for every partition's end; return whether all were reached."""
        complete = [
            record_end(
                self._writer,
                self._op,
                begun_ns,
                (self._topic, partition),
                end=None if partition in self._truncated else self._end.get(partition),
                reached=self._next.get(partition),
                why=self._why.get(partition),
                isolation=self._isolation,
            )
            for partition in self._partitions
        ]
        return all(complete)

    # -- as a reader

    def polled(self, invoke_ns: int, node: int, read: Sequence[tuple[int, Fetched]]) -> None:
        """Record the records of a fetch."""
        complete_ns = self._writer.now_ns()
        for partition, fetched in read:
            for record in fetched.records:
                found = read_row(self._codec, record.value, record.key, keyed=self._keyed)
                self._writer.record(
                    self._op, CLIENT, found.f, "ok", invoke_ns, complete_ns, self._topic,
                    partition, found.value, record.offset, record.leader_epoch, None, node,
                    found.error, isolation=self._isolation, key=found.key,
                )  # fmt: skip
            self._read[partition] = fetched.next_offset
        self._progressed()

    def truncated(self, partition: int, reason: str) -> bool:
        """Stop: the log was truncated while it was read, so the records may not exist any more.

        An offset out of range may also mean that retention has removed it: then go on.
        """
        if reason == OUT_OF_RANGE:
            return True
        self._stop(partition, reason)
        return False

    def moved(self, invoke_ns: int, partition: int, offset: int, reason: str) -> None:
        """Go on behind what retention has removed, and record where. To go back means that the log
        was truncated."""
        if offset < self._read.get(partition, 0):
            self._stop(partition, reason)
        else:
            self._writer.record(
                self._op, CLIENT, "assign", "ok", invoke_ns, self._writer.now_ns(), self._topic,
                partition, None, offset, None, None, None, reason,
            )  # fmt: skip
        self._progressed()

    def _stop(self, partition: int, reason: str) -> None:
        self._why[partition] = reason
        self._truncated.add(partition)
        self._progress.set()

    def failed(self, partition: int, error: str) -> None:
        """Remember the reason."""
        self._why[partition] = error
