"""The final reads on our own client: every partition from its beginning to its end, on any loop.

The rows are those of `harness.final_reads`, which does the same with librdkafka in a process.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from harness.clients.own.consumer import Consumer, ConsumerSettings
from harness.clients.own.offsets import NoAnswer, bounds
from harness.clients.own.recording import connect
from harness.clients.own.records import Fetched
from harness.clients.own.waiting import Signal
from harness.clients.payload import PayloadCodec
from harness.final_reads import CLIENT, FinalReadConfig
from harness.record.history import Operations
from harness.workloads.own import World

SETTINGS: Final = ConsumerSettings(max_wait_s=0.1)
RETRY_S: Final = 0.1
LOOK_S: Final = 1.0


async def read_everything(config: FinalReadConfig, writer: Operations, world: World) -> bool:
    """Read all topics until every partition's end or the time-out; whether all were read."""
    writer.start(CLIENT)
    codec = PayloadCodec(config.run_id, config.value_bytes)
    op, begun_ns = writer.next_op(), writer.now_ns()
    deadline_s = asyncio.get_running_loop().time() + config.timeout_s
    async with asyncio.TaskGroup() as group:
        readers = []
        for topic, partitions in config.topics.items():
            reader = _TopicReader(topic, partitions, op, writer, codec)
            readers.append(reader)
            group.create_task(reader.run(config.bootstrap, world, deadline_s))
    complete = [reader.conclude(begun_ns) for reader in readers]
    writer.end(CLIENT)
    return all(complete)


class _TopicReader:
    """One pass over a topic. A `harness.clients.own.consumer.Reader`."""

    def __init__(
        self, topic: str, partitions: int, op: int, writer: Operations, codec: PayloadCodec
    ) -> None:
        self._topic = topic
        self._partitions = range(partitions)
        self._op = op
        self._writer = writer
        self._codec = codec
        self._end: dict[int, int] = {}
        self._next: dict[int, int] = {}
        self._why: dict[int, str] = {}
        self._progress = Signal()

    async def run(self, bootstrap: str, world: World, deadline_s: float) -> None:
        """Read until every end or the deadline, in the loop's time."""
        loop = asyncio.get_running_loop()
        cluster = connect(bootstrap, self._topic, client=CLIENT, rng=world.rng, timing=world.timing)
        for partition in self._partitions:
            while loop.time() < deadline_s and partition not in self._end:
                try:
                    self._next[partition], self._end[partition] = await bounds(cluster, partition)
                    self._why.pop(partition, None)
                except NoAnswer as error:
                    self._why[partition] = str(error)
                    await asyncio.sleep(min(RETRY_S, max(0.0, deadline_s - loop.time())))
        reading = Consumer(cluster, SETTINGS, self._next, self, now_ns=self._writer.now_ns)
        reading.look()
        while (left_s := deadline_s - loop.time()) > 0 and any(
            reading.position(partition) < end for partition, end in self._end.items()
        ):
            await self._progress.wait(min(left_s, LOOK_S))
        self._next = {partition: reading.position(partition) for partition in self._next}
        await reading.close()

    def conclude(self, begun_ns: int) -> bool:
        """A row for every partition's end; whether all were reached."""
        complete = [self._concluded(partition, begun_ns) for partition in self._partitions]
        return all(complete)

    def _concluded(self, partition: int, begun_ns: int) -> bool:
        end, reached = self._end.get(partition), self._next.get(partition)
        complete = end is not None and reached is not None and reached >= end
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
        self._progress.set()

    def cut(self, partition: int, reason: str) -> bool:
        """Cut below its own end while being read: what was read is no truth any more."""
        self._why[partition] = reason
        self._end.pop(partition, None)
        self._progress.set()
        return False

    def moved(self, invoke_ns: int, partition: int, offset: int, reason: str) -> None:
        """Never: a final read does not go back."""

    def failed(self, partition: int, error: str) -> None:
        """Remember why."""
        self._why[partition] = error
