"""Reads every partition from its beginning to its end, once the cluster has settled.

    python -m harness.workloads.final_reads CONFIG.json

The truth that acknowledged sends are held against. Runs as a process on the clients' machine:
one consumer reads all partitions at once. Each record is a `final-read` row; each partition ends
with a `final-read-end` row: ok with the end offset that was reached, or info with the reason when
it was not. A partition that cannot be read is given up when nothing has come of any for a while.
Exit code 0 when every partition was read to its end, 2 otherwise.
"""

import json
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from harness.plans.plan import Plan
from harness.recording.history import FLUSH_INTERVAL_S, FLUSH_ROWS, HistoryWriter
from harness.recording.store import Run
from harness.targets.base import Target
from harness.workloads.clients import access
from harness.workloads.clients.access import OPEN, Access
from harness.workloads.clients.librdkafka import SOCKET_TIMEOUT_MS, consumer_config
from harness.workloads.clients.payload import PayloadCodec

CLIENT: Final = 2
"""Client number, and writer id, of the final reads."""

PATIENCE_S: Final = 60.0
"""For how long nothing may come of what is left to read."""
TIMEOUT_S: Final = 600.0
"""How long all of it may take, whatever comes."""

CHUNK_RECORDS: Final = 5_000
POLL_S: Final = 0.25
LOOK_S: Final = 0.5
"""How often a partition is asked for whose leader has not said yet where it begins and ends."""
KILL_AFTER_S: Final = 15.0

COMPLETE: Final = 0
INCOMPLETE: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalReadConfig:
    """What the process is told; `topics` has the number of partitions of each topic."""

    run_id: str
    base_ns: int
    history_dir: str
    bootstrap: str
    topics: Mapping[str, int]
    value_bytes: int
    patience_s: float = PATIENCE_S
    timeout_s: float = TIMEOUT_S


class Patience:
    """How long final reads may still go on; times are seconds of one monotonic clock."""

    def __init__(self, config: FinalReadConfig, now_s: float) -> None:
        self._patience_s = config.patience_s
        self._end_s = now_s + config.timeout_s
        self.renew(now_s)

    def renew(self, now_s: float) -> None:
        """Something came."""
        self._until_s = min(self._end_s, now_s + self._patience_s)

    def left_s(self, now_s: float) -> float:
        """From now on; 0 when it is over."""
        return max(0.0, self._until_s - now_s)


class FinalReader:
    """One pass over all partitions."""

    def __init__(self, config: FinalReadConfig, writer: HistoryWriter) -> None:
        self._config = config
        self._writer = writer
        self._codec = PayloadCodec(config.run_id, config.value_bytes)
        self._patience = Patience(config, time.monotonic())
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
        self._consumer = Consumer({**settings, "queued.max.messages.kbytes": 65_536})

    def run(self) -> bool:
        """Read until every partition's end or the end of patience; whether all were read."""
        wanted = [(topic, p) for topic, count in self._config.topics.items() for p in range(count)]
        unknown = deque(wanted)
        flush_at_s = look_at_s = 0.0
        while (unknown or self._unfinished()) and self._left_s():
            if time.monotonic() >= look_at_s:
                self._begin_all(unknown)
                look_at_s = time.monotonic() + LOOK_S
            self._poll()
            if len(self._writer) >= FLUSH_ROWS or time.monotonic() >= flush_at_s:
                self._writer.flush()
                flush_at_s = time.monotonic() + FLUSH_INTERVAL_S
        ends = [self._conclude(partition) for partition in wanted]
        self._consumer.close()
        return all(ends)

    def _left_s(self) -> float:
        return self._patience.left_s(time.monotonic())

    def _begin_all(self, unknown: deque[tuple[str, int]]) -> None:
        """Up to the first whose leader does not answer, which waits until the others had a turn:
        each such question may take seconds, in which others are to be read.
        """
        while unknown and self._begin(unknown[0]):
            unknown.popleft()
        unknown.rotate(-1)

    def _begin(self, partition: tuple[str, int]) -> bool:
        """Ask the leader where the partition begins and ends now; read it if it says."""
        where = TopicPartition(*partition)
        try:
            low, high = self._consumer.get_watermark_offsets(
                where, timeout=SOCKET_TIMEOUT_MS / 1000
            )
        except KafkaException as error:
            self._why[partition] = error.args[0].name()
            return False
        self._patience.renew(time.monotonic())
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
            self._take(message, invoke_ns, complete_ns)

    def _take(self, message: Message, invoke_ns: int, complete_ns: int) -> None:
        error = message.error()
        partition = (message.topic(), message.partition())
        if error is not None:
            self._why[partition] = error.name()
            if error.code() == KafkaError._AUTO_OFFSET_RESET:
                # Cut below its own end while being read: what was read is no truth any more.
                self._end.pop(partition, None)
            return
        self._patience.renew(time.monotonic())
        value, problem = self._codec.decode(message.value())
        self._next[partition] = message.offset() + 1
        self._writer.record(
            self._op, CLIENT, "final-read", "ok", invoke_ns, complete_ns, partition[0],
            partition[1], value, message.offset(), message.leader_epoch(), error=problem,
        )  # fmt: skip

    def _conclude(self, partition: tuple[str, int]) -> bool:
        end = self._end.get(partition)
        reached = self._next.get(partition)
        complete = end is not None and reached is not None and reached >= end
        self._writer.record(
            self._op, CLIENT, "final-read-end", "ok" if complete else "info", self._begun_ns,
            self._writer.now_ns(), partition[0], partition[1], None, reached,
            error=None if complete else self._why.get(partition, "timeout"),
        )  # fmt: skip
        return complete


def read_all(config: FinalReadConfig) -> bool:
    """Read everything into history/final-reads.arrows; returns whether every end was reached."""
    writer = HistoryWriter(
        Path(config.history_dir) / "final-reads.arrows", writer_id=CLIENT, base_ns=config.base_ns
    )
    writer.start(CLIENT)
    complete = FinalReader(config, writer).run()
    writer.end(CLIENT)
    writer.close()
    return complete


def run_final_reads(
    plan: Plan,
    target: Target,
    bootstrap: str,
    run: Run,
    *,
    into: Access = OPEN,
) -> bool:
    """Run the process on the clients' machine and wait for it; returns whether all was read."""
    config = FinalReadConfig(
        run_id=run.run_id,
        base_ns=run.base_ns,
        history_dir=str(run.history_dir),
        bootstrap=bootstrap,
        topics={topic.name: topic.partitions for topic in plan.topics},
        value_bytes=plan.workload.value_bytes,
    )
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
    """Entry point of the process."""
    config = FinalReadConfig(**json.loads(Path(argv[1]).read_text()))
    return COMPLETE if read_all(config) else INCOMPLETE


if __name__ == "__main__":
    sys.exit(main(sys.argv))
