"""The clients of one topic, each in a thread of its own: the process, whatever library they are of.

It runs until SIGTERM, or until its standard input closes: a harness that died must not leave
clients behind. Then producers wait for outstanding outcomes (`drain_ms`), what remains is recorded
as `info`, every client gets its `end` row, and the process exits 0. One JSON line of counters per
second goes to standard output.

The main thread flushes the history and prints. A producer that its library declares fatally broken
is ended and replaced under a new client number.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, TypeVar

from harness.recording.history import FLUSH_INTERVAL_S
from harness.workloads.client_histories import Ledgers, open_history
from harness.workloads.clients.counts import Tally
from harness.workloads.clients.outcomes import NotConnected
from harness.workloads.clients.reads import Reads
from harness.workloads.clients.sends import Sends
from harness.workloads.config import ClientConfig
from harness.workloads.counters import STAT_INTERVAL_S, print_stat
from harness.workloads.pacing import CONNECT_RETRY_S, SENDS_PER_POLL, Pace, free_partition

T = TypeVar("T")

IDLE_S: Final = 0.02
"""The longest wait for outcomes while a producer is full; also how late it notices a stop."""

SWITCH_INTERVAL_S: Final = 0.001
"""How long one thread may keep the interpreter: others stamp completion times meanwhile."""


class Producing(Protocol):
    """A producer that records what becomes of its sends; for one thread."""

    fatal: str | None

    def send(self, partition: int) -> None:
        """Start one send."""
        ...

    def poll(self, timeout_s: float) -> None:
        """Record outcomes; waits so long for the first."""
        ...

    def close(self, timeout_s: float) -> None:
        """Wait so long for outcomes, then end the client."""
        ...


class Consuming(Protocol):
    """A consumer that records what it reads; for one thread."""

    def assign(self, offsets: dict[int, int]) -> None:
        """Read on from {partition: next offset}."""
        ...

    def poll(self, timeout_s: float) -> int:
        """Read what is there, waiting so long for the first."""
        ...

    def close(self) -> None:
        """End the client."""
        ...


class Library(Protocol):
    """Makes the clients of one topic. Raises NotConnected."""

    def producer(self, sends: Sends) -> Producing:
        """A producer that records its sends there."""
        ...

    def consumer(self, reads: Reads) -> Consuming:
        """A consumer that records its reads there."""
        ...


class Workload:
    """The threads of one process and what they share."""

    def __init__(self, config: ClientConfig, library: Callable[[ClientConfig], Library]) -> None:
        self.config = config
        self.stop = threading.Event()
        self.tallies: list[Tally] = []
        self.failures: list[BaseException] = []
        self.writer = open_history(config)
        self._ledgers = Ledgers(config, self.writer)
        self._library = library(config)

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
        while (made := self._connected(self._producer, tally)) is not None:
            producer, sends = made
            self._drive(producer, sends, first_partition=index)
            drain_s = self.config.drain_ms / 1000 if producer.fatal is None else 0.0
            producer.close(drain_s)

    def _producer(self, tally: Tally) -> tuple[Producing, Sends]:
        sends = self._ledgers.sends(tally)
        return self._library.producer(sends), sends

    def _consumer(self, tally: Tally) -> Consuming:
        return self._library.consumer(self._ledgers.reads(tally))

    def _connected(self, make: Callable[[Tally], T], tally: Tally) -> T | None:
        """What `make` makes, under the next number; None when there is a stop first."""
        while not self.stop.is_set():
            try:
                return make(tally)
            except NotConnected as error:
                tally.last_error = str(error)
                self.stop.wait(CONNECT_RETRY_S)
        return None

    def _drive(self, producer: Producing, sends: Sends, first_partition: int) -> None:
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
            sent = 0
            while sent < SENDS_PER_POLL and pace.wait_s(time.monotonic()) == 0:
                target = free_partition(sends.in_flight, position, partitions, share)
                if target is None or sends.pending >= limit or producer.fatal is not None:
                    break
                producer.send(target)
                pace.sent(time.monotonic())
                position = target + 1
                sent += 1
            if sent == SENDS_PER_POLL:
                producer.poll(0)
            else:  # not due yet, or full: outcomes are the next event either way
                producer.poll(min(IDLE_S, pace.wait_s(time.monotonic()) or IDLE_S))

    def _consume(self) -> None:
        consumer = self._connected(self._consumer, self._tally())
        if consumer is None:
            return
        consumer.assign(dict.fromkeys(range(self.config.partitions), 0))
        while not self.stop.is_set():
            consumer.poll(0.1)
        consumer.close()


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
            print_stat(config, workload.tallies, workload.writer)
    print_stat(config, workload.tallies, workload.writer)
    workload.writer.close()
    return 1 if workload.failures or any(thread.is_alive() for thread in threads) else 0


def main(argv: list[str], library: Callable[[ClientConfig], Library]) -> int:
    """Entry point of the process: `argv` has the configuration's path; returns its exit code."""
    config = ClientConfig.load(Path(argv[1]))
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    workload = Workload(config, library)
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
