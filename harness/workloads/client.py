"""One client process: the producers and consumers of one topic.

    python -m harness.workloads.client CONFIG.json

Runs until SIGTERM, or until its standard input closes: a harness that died must not leave clients
behind. Then producers wait for outstanding outcomes (`drain_ms`), what remains is recorded as
`info`, every client gets its `end` row, and the process exits 0. One JSON line of counters per
second goes to standard output.

A thread per producer and per consumer; the main thread flushes the history and prints. A producer
that librdkafka declares fatally broken is ended and replaced under a new client number.
"""

import contextlib
import itertools
import json
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from harness.clients.librdkafka import (
    RecordingConsumer,
    RecordingProducer,
    consumer_config,
    producer_config,
)
from harness.clients.tally import Tally
from harness.history import FLUSH_INTERVAL_S, HistoryWriter
from harness.payload import PayloadCodec
from harness.workloads.config import ClientConfig
from harness.workloads.pacing import Pace

STAT_INTERVAL_S = 1.0
IDLE_S = 0.02
"""The longest wait for outcomes while a producer is full; also how late it notices a stop."""

SENDS_PER_POLL = 32
"""Sends in a row before outcomes are looked at."""

SWITCH_INTERVAL_S = 0.001
"""How long one thread may keep the interpreter: others stamp completion times meanwhile."""


class Workload:
    """The threads of one process and what they share."""

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self.stop = threading.Event()
        self.tallies: list[Tally] = []
        self.failures: list[BaseException] = []
        self.writer = HistoryWriter(
            Path(config.history_dir) / f"{config.topic}.{config.first_client}.arrows",
            writer_id=config.first_client,
            base_ns=config.base_ns,
            rotate_s=config.rotate_s,
        )
        self._codec = PayloadCodec(config.run_id, config.value_bytes)
        self._clients = itertools.count(config.first_client)

    def threads(self) -> list[threading.Thread]:
        """One thread per producer and consumer, not started."""
        runs: list[tuple[str, Callable[[], None]]] = [
            (f"producer-{index}", lambda index=index: self._produce(index))  # type: ignore[misc]
            for index in range(self.config.producers)
        ]
        runs += [(f"consumer-{index}", self._consume) for index in range(self.config.consumers)]
        return [
            threading.Thread(target=self._guarded, args=(run,), name=name, daemon=True)
            for name, run in runs
        ]

    def _guarded(self, run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as error:
            self.failures.append(error)
            self.stop.set()
            raise

    def _tally(self) -> Tally:
        tally = Tally()
        self.tallies.append(tally)
        return tally

    def _produce(self, index: int) -> None:
        tally = self._tally()
        while not self.stop.is_set():
            producer = self._new_producer(tally)
            self._drive(producer, first_partition=index)
            drain_s = self.config.drain_ms / 1000 if producer.fatal is None else 0.0
            producer.close(drain_s)

    def _new_producer(self, tally: Tally) -> RecordingProducer:
        config = self.config
        return RecordingProducer(
            producer_config(
                bootstrap=config.bootstrap,
                acks=config.acks,
                idempotence=config.idempotence,
                linger_ms=config.linger_ms,
                message_timeout_ms=config.message_timeout_ms,
            ),
            client=next(self._clients),
            topic=config.topic,
            writer=self.writer,
            codec=self._codec,
            tally=tally,
        )

    def _drive(self, producer: RecordingProducer, first_partition: int) -> None:
        """Send round-robin until told to stop or the producer broke.

        The bound of messages in flight is shared out evenly: a partition without a leader holds up
        its own share, not the others.
        """
        partitions = self.config.partitions
        share = max(1, self.config.max_in_flight // partitions)
        limit = max(1, self.config.max_in_flight)
        pace = Pace(self.config.rate_per_s, time.monotonic())
        position = first_partition
        while not self.stop.is_set() and producer.fatal is None:
            sends = 0
            while sends < SENDS_PER_POLL and pace.wait_s(time.monotonic()) == 0:
                target = free_partition(producer.in_flight, position, partitions, share)
                if target is None or producer.pending >= limit or producer.fatal is not None:
                    break
                producer.send(target)
                pace.sent(time.monotonic())
                position = target + 1
                sends += 1
            if sends == SENDS_PER_POLL:
                producer.poll(0)
            else:  # not due yet, or full: outcomes are the next event either way
                producer.poll(min(IDLE_S, pace.wait_s(time.monotonic()) or IDLE_S))

    def _consume(self) -> None:
        config = self.config
        client = next(self._clients)
        consumer = RecordingConsumer(
            consumer_config(bootstrap=config.bootstrap, group=f"highwater-{client}"),
            client=client,
            topic=config.topic,
            writer=self.writer,
            codec=self._codec,
            tally=self._tally(),
        )
        consumer.assign(dict.fromkeys(range(config.partitions), 0))
        while not self.stop.is_set():
            consumer.poll(0.1)
        consumer.close()


def free_partition(
    in_flight: dict[int, int], position: int, partitions: int, share: int
) -> int | None:
    """The next partition from `position` on, round-robin, with less than `share` in flight."""
    for step in range(partitions):
        partition = (position + step) % partitions
        if in_flight.get(partition, 0) < share:
            return partition
    return None


def stat_line(topic: str, acks: int, tallies: Iterable[Tally], at_ns: int) -> str:
    """The counters since the start, and latency quantiles of the recent sends, as one JSON line."""
    tallies = list(tallies)
    recent = sorted(latency for tally in tallies for latency in _drain(tally.latencies_ns))
    return json.dumps(
        {
            "at_ns": at_ns,
            "topic": topic,
            "acks": acks,
            "sent": sum(tally.sent for tally in tallies),
            "acked": sum(tally.acked for tally in tallies),
            "failed": sum(tally.failed for tally in tallies),
            "info": sum(tally.info for tally in tallies),
            "read": sum(tally.read for tally in tallies),
            "p50_ms": _quantile_ms(recent, 0.5),
            "p99_ms": _quantile_ms(recent, 0.99),
            "error": next((tally.last_error for tally in tallies if tally.last_error), None),
        }
    )


def _drain(latencies_ns: deque[int]) -> list[int]:
    # Its owner goes on appending meanwhile, so no iteration.
    return [latencies_ns.popleft() for _ in range(len(latencies_ns))]


def _quantile_ms(ordered_ns: list[int], q: float) -> float | None:
    return round(ordered_ns[int(q * (len(ordered_ns) - 1))] / 1e6, 3) if ordered_ns else None


def run(workload: Workload) -> int:
    """Run the workload until stopped; returns the exit code: 1 when a client thread failed."""
    config = workload.config
    threads = workload.threads()
    for thread in threads:
        thread.start()
    next_stat_s = time.monotonic()
    # After the stop a thread has its drain and one poll; more than that is a hang, and is cut.
    limit_s = config.drain_ms / 1000 + 15
    deadline_s: float | None = None
    while any(thread.is_alive() for thread in threads):
        now_s = time.monotonic()
        if workload.stop.wait(FLUSH_INTERVAL_S) and deadline_s is None:
            deadline_s = now_s + limit_s
        if deadline_s is not None:
            if now_s > deadline_s:
                break
            time.sleep(0.02)
        workload.writer.flush()
        if now_s >= next_stat_s:
            next_stat_s = max(next_stat_s + STAT_INTERVAL_S, now_s)
            _print_stat(workload)
    _print_stat(workload)
    workload.writer.close()
    return 1 if workload.failures or any(thread.is_alive() for thread in threads) else 0


def _print_stat(workload: Workload) -> None:
    config = workload.config
    line = stat_line(config.topic, config.acks, workload.tallies, workload.writer.now_ns())
    with contextlib.suppress(OSError):  # the reader died: the history matters, the line does not
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def main(argv: list[str]) -> int:
    """Entry point of the process."""
    config = ClientConfig.load(Path(argv[1]))
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    workload = Workload(config)
    # In a thread: the handler may interrupt this one inside the event's own lock.
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=workload.stop.set).start())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the harness, which ends us

    def watch_stdin() -> None:
        # Not by sys.stdin: its lock, held by a blocked read, would abort the interpreter's exit.
        while os.read(sys.stdin.fileno(), 4096):
            pass
        workload.stop.set()

    threading.Thread(target=watch_stdin, name="stdin", daemon=True).start()
    return run(workload)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
