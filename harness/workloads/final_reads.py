"""Reads every partition from its beginning to its end, when the cluster has settled.

    python -m harness.workloads.final_reads CONFIG.json

Acknowledged sends are compared with these reads. They run as a process on the clients' machine: one
consumer reads all partitions at once. Each record is a `final-read` row. Each partition ends with a
`final-read-end` row: ok with the end offset that was reached, or info with the reason why it was
not. The reads end early when no partition made progress for a while. Exit code 0 when every
partition was read to its end, else 2.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from checkers.history.history import KEYED_READ
from harness.plans import workload_topics
from harness.plans.plan import Plan
from harness.recording.history import (
    FLUSH_INTERVAL_S,
    FLUSH_ROWS,
    HistoryWriter,
    OperationWriter,
)
from harness.recording.store import Run
from harness.targets.base import Target
from harness.workloads.clients import access
from harness.workloads.clients.access import OPEN, Access
from harness.workloads.clients.keyed_sends import read_keyed
from harness.workloads.clients.librdkafka import SOCKET_TIMEOUT_MS, consumer_config
from harness.workloads.clients.payload import PayloadCodec
from harness.workloads.clients.text_payload import MIN_BYTES, TextPayload, is_text
from harness.workloads.config import READ_COMMITTED
from harness.workloads.environment import ClientEnvironment
from harness.workloads.final_commits import record_committed
from nodes import ids

CLIENT: Final = 2
"""Client number, and writer id, of the final reads."""

PATIENCE_S: Final = 60.0
"""How long the reads may go on without any progress."""
TIMEOUT_S: Final = 600.0
"""How long all reads may take together."""

CHUNK_RECORDS: Final = 5_000
POLL_S: Final = 0.25
RETRY_S: Final = 0.5
"""The pause between two requests for the bounds of a partition whose leader did not answer."""
KILL_AFTER_S: Final = 15.0

COMPLETE: Final = 0
INCOMPLETE: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalReadConfig:
    """The configuration of the process; `topics` has the number of partitions of each topic.

    `transactional` are the topics that got records in transactions, `compacted` those whose keys
    were written and deleted, and `groups` has the topics of each group that commits offsets.
    """

    run_id: str
    base_ns: int
    history_dir: str
    bootstrap: str
    topics: Mapping[str, int]
    value_bytes: int
    transactional: Sequence[str] = ()
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    compacted: Sequence[str] = ()
    patience_s: float = PATIENCE_S
    timeout_s: float = TIMEOUT_S

    def isolation(self, topic: str) -> int | None:
        """Return the isolation level of the reads of a topic; None: nobody writes transactions to
        it."""
        return READ_COMMITTED if topic in self.transactional else None

    def partitions_of_groups(self) -> dict[str, list[ids.TopicPartition]]:
        """Return the partitions that each group reads."""
        return {
            group: [
                ids.TopicPartition(topic, p) for topic in names for p in range(self.topics[topic])
            ]
            for group, names in self.groups.items()
        }

    @classmethod
    def of(cls, plan: Plan, bootstrap: str, run: Run) -> "FinalReadConfig":
        """Return the configuration for a run of the plan."""
        return cls(
            run_id=run.run_id,
            base_ns=run.base_ns,
            history_dir=str(run.history_dir),
            bootstrap=bootstrap,
            topics={topic.name: topic.partitions for topic in plan.topics},
            value_bytes=plan.workload.value_bytes,
            transactional=sorted(workload_topics.transactional(plan)),
            groups=workload_topics.read_by_groups(plan),
            compacted=sorted(workload_topics.compacted(plan)),
        )


class ProgressDeadline:
    """The deadline of final reads, which progress extends. Times are seconds of a monotonic
    clock."""

    def __init__(self, config: FinalReadConfig, now_s: float) -> None:
        self._deadline_s = config.patience_s
        self._end_s = now_s + config.timeout_s
        self.extend(now_s)

    def extend(self, now_s: float) -> None:
        """Extend the deadline, because there was progress."""
        self._until_s = min(self._end_s, now_s + self._deadline_s)

    def left_s(self, now_s: float) -> float:
        """Return the time that is left; 0 after the deadline."""
        return max(0.0, self._until_s - now_s)


def record_end(
    writer: OperationWriter,
    op: int,
    begun_ns: int,
    partition: tuple[str, int],
    *,
    end: int | None,
    reached: int | None,
    why: str | None,
    isolation: int | None = None,
) -> bool:
    """Record the `final-read-end` row of a partition; return whether it was read to its end.

    `end` is None when the end is unknown or not valid any more; `why` is the reason, if known.
    """
    complete = end is not None and reached is not None and reached >= end
    writer.record(
        op, CLIENT, "final-read-end", "ok" if complete else "info", begun_ns, writer.now_ns(),
        *partition, None, reached, error=None if complete else why or "timeout",
        isolation=isolation,
    )  # fmt: skip
    return complete


class Found(NamedTuple):
    """What the row of a record says of it."""

    f: str
    value: int | None
    error: str | None
    key: int | None


def read_row(
    codec: PayloadCodec | TextPayload, payload: bytes | None, key: bytes | None, *, keyed: bool
) -> Found:
    """Return what the row of a record says of it; `keyed`: its topic is compacted."""
    if not keyed:
        return Found("final-read", *codec.decode(payload), None)
    return Found(KEYED_READ, *read_keyed(codec, payload, key))


class FinalReader:
    """One pass over all partitions."""

    def __init__(self, config: FinalReadConfig, writer: HistoryWriter) -> None:
        self._config = config
        self._writer = writer
        self._codec = PayloadCodec(config.run_id, config.value_bytes)
        self._text = TextPayload(config.run_id, MIN_BYTES)
        self._deadline = ProgressDeadline(config, time.monotonic())
        self._op = writer.next_op()
        self._begun_ns = writer.now_ns()
        self._end: dict[tuple[str, int], int] = {}
        self._next: dict[tuple[str, int], int] = {}
        self._why: dict[tuple[str, int], str] = {}
        settings = consumer_config(
            bootstrap=config.bootstrap,
            group="highwater-final-reads",
            access=access.of_this_process(),
        )
        # An end without records to read, such as a marker, is only seen as the end of a partition.
        reading = {"queued.max.messages.kbytes": 65_536, "enable.partition.eof": True}
        self._consumer = Consumer({**settings, **reading, "isolation.level": "read_committed"})
        # To a reader of committed records a log ends at the last stable offset.
        self._asking = Consumer({**settings, "isolation.level": "read_uncommitted"})

    def run(self) -> bool:
        """Read until every partition's end or the deadline; return whether all were read."""
        wanted = [(topic, p) for topic, count in self._config.topics.items() for p in range(count)]
        unknown = deque(wanted)
        flush_at_s = retry_at_s = 0.0
        while (unknown or self._unfinished()) and self._left_s():
            if time.monotonic() >= retry_at_s:
                self._begin_all(unknown)
                retry_at_s = time.monotonic() + RETRY_S
            self._poll()
            if len(self._writer) >= FLUSH_ROWS or time.monotonic() >= flush_at_s:
                self._writer.flush()
                flush_at_s = time.monotonic() + FLUSH_INTERVAL_S
        ends = [self._record_end(partition) for partition in wanted]
        self._consumer.close()
        self._asking.close()
        return all(ends)

    def _left_s(self) -> float:
        return self._deadline.left_s(time.monotonic())

    def _begin_all(self, unknown: deque[tuple[str, int]]) -> None:
        """Begin partitions up to the first whose leader does not answer, which becomes the last.

        Such a request may take seconds, in which the other partitions should be read.
        """
        while unknown and self._begin(unknown[0]):
            unknown.popleft()
        unknown.rotate(-1)

    def _begin(self, partition: tuple[str, int]) -> bool:
        """Ask the leader for the partition's bounds, and begin to read it if it answers."""
        where = TopicPartition(*partition)
        try:
            low, high = self._asking.get_watermark_offsets(where, timeout=SOCKET_TIMEOUT_MS / 1000)
        except KafkaException as error:
            self._why[partition] = error.args[0].name()
            return False
        self._deadline.extend(time.monotonic())
        self._next[partition], self._end[partition] = low, high
        self._why.pop(partition, None)
        self._consumer.incremental_assign([TopicPartition(*partition, low)])
        return True

    def _unfinished(self) -> bool:
        return any(self._next[partition] < end for partition, end in self._end.items())

    def _poll(self) -> None:
        invoke_ns = self._writer.now_ns()
        messages = self._consumer.consume(CHUNK_RECORDS, POLL_S)
        complete_ns = self._writer.now_ns()
        for message in messages:
            self._record(message, invoke_ns, complete_ns)

    def _record(self, message: Message, invoke_ns: int, complete_ns: int) -> None:
        error = message.error()
        partition = (message.topic(), message.partition())
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            if message.offset() > self._next[partition]:
                self._deadline.extend(time.monotonic())
                self._next[partition] = message.offset()
            return
        if error is not None:
            self._why[partition] = error.name()
            if error.code() == KafkaError._AUTO_OFFSET_RESET:
                # The log was truncated while it was read, so the records may not exist any more.
                self._end.pop(partition, None)
            return
        self._deadline.extend(time.monotonic())
        codec = self._text if is_text(message.value()) else self._codec
        keyed = partition[0] in self._config.compacted
        found = read_row(codec, message.value(), message.key(), keyed=keyed)
        self._next[partition] = message.offset() + 1
        self._writer.record(
            self._op, CLIENT, found.f, "ok", invoke_ns, complete_ns, partition[0],
            partition[1], found.value, message.offset(), message.leader_epoch(),
            error=found.error, isolation=self._config.isolation(partition[0]), key=found.key,
        )  # fmt: skip

    def _record_end(self, partition: tuple[str, int]) -> bool:
        return record_end(
            self._writer,
            self._op,
            self._begun_ns,
            partition,
            end=self._end.get(partition),
            reached=self._next.get(partition),
            why=self._why.get(partition),
            isolation=self._config.isolation(partition[0]),
        )


def read_all(config: FinalReadConfig) -> bool:
    """Read everything into history/final-reads.arrows, and ask for the committed offsets; return
    whether all was answered."""
    writer = HistoryWriter(
        Path(config.history_dir) / "final-reads.arrows", writer_id=CLIENT, base_ns=config.base_ns
    )
    writer.start(CLIENT)
    complete = FinalReader(config, writer).run()
    if config.groups:
        complete = asyncio.run(_committed(config, writer)) and complete
    writer.end(CLIENT)
    writer.close()
    return complete


async def _committed(config: FinalReadConfig, writer: HistoryWriter) -> bool:
    return await record_committed(
        config.bootstrap,
        config.partitions_of_groups(),
        client=CLIENT,
        writer=writer,
        world=ClientEnvironment.of_this_process(),
        patience_s=config.patience_s,
    )


def run_final_reads(
    plan: Plan,
    target: Target,
    bootstrap: str,
    run: Run,
    *,
    into: Access = OPEN,
) -> bool:
    """Run the process on the clients' machine and wait for it; return whether all was read."""
    config = FinalReadConfig.of(plan, bootstrap, run)
    path = run.path / "clients" / "final-reads.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(asdict(config), indent=2) + "\n")
    process = target.spawn_client(
        [sys.executable, "-m", "harness.workloads.final_reads", str(path)],
        env=into.environment(),
        log_path=path.with_suffix(".log"),
    )
    try:
        return process.wait(config.timeout_s + KILL_AFTER_S) == COMPLETE
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False


def main(argv: list[str]) -> int:
    """Run the process; return its exit code."""
    config = FinalReadConfig(**json.loads(Path(argv[1]).read_text()))
    return COMPLETE if read_all(config) else INCOMPLETE


if __name__ == "__main__":
    sys.exit(main(sys.argv))
