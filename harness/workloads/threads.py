"""The clients of one topic, each in a thread, for libraries with blocking calls.

The process runs until SIGTERM, or until its standard input closes, so that a dead harness leaves no
clients behind. Then producers wait for outstanding outcomes (`drain_ms`), the other sends are
recorded as `info`, every client gets its `end` row, and the process exits 0. One JSON line of
counters per second goes to standard output.

The main thread flushes the history and prints. A producer that its library declares fatally broken
is ended and replaced under a new client number.
"""

import faulthandler
import os
import signal
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from harness.recording.history import FLUSH_INTERVAL_S
from harness.workloads.client_histories import ClientHistories, open_history
from harness.workloads.clients import access
from harness.workloads.clients.counts import Tally
from harness.workloads.clients.outcomes import NotConnected
from harness.workloads.clients.reads import Reads
from harness.workloads.clients.sends import Sends
from harness.workloads.config import ClientConfig
from harness.workloads.configs import AnyConfig, load
from harness.workloads.counters import STAT_INTERVAL_S, print_stat
from harness.workloads.librdkafka_passes import PassReader
from harness.workloads.pacing import CONNECT_RETRY_S, SENDS_PER_POLL, RoundRobin

if TYPE_CHECKING:  # the clients of topics do without it
    from harness.workloads.further_config import FurtherConfig

T = TypeVar("T")

IDLE_S: Final = 0.02
"""The longest wait for outcomes while a producer cannot send; it notices a stop as late."""

SWITCH_INTERVAL_S: Final = 0.001
"""How long one thread may keep the interpreter while others stamp completion times."""


class WorkloadProducer(Protocol):
    """A producer that records the outcomes of its sends; for one thread."""

    fatal: str | None

    def send(self, partition: int) -> None:
        """Start one send."""
        ...

    def poll(self, timeout_s: float) -> None:
        """Record outcomes; wait up to `timeout_s` for the first."""
        ...

    def close(self, timeout_s: float) -> None:
        """Wait up to `timeout_s` for outcomes, then end the client."""
        ...


class WorkloadConsumer(Protocol):
    """A consumer that records what it reads; for one thread."""

    def assign(self, offsets: dict[int, int]) -> None:
        """Read on from {partition: next offset}."""
        ...

    def poll(self, timeout_s: float) -> int:
        """Read what is there; wait up to `timeout_s` for the first record."""
        ...

    def close(self) -> None:
        """End the client."""
        ...


class Library(Protocol):
    """Makes the clients of one topic. Raises NotConnected."""

    def producer(self, sends: Sends) -> WorkloadProducer:
        """Make a producer that records its sends in `sends`."""
        ...

    def consumer(self, reads: Reads) -> WorkloadConsumer:
        """Make a consumer that records its reads in `reads`."""
        ...


class Clients(ABC):
    """The threads of one process and what they share."""

    def __init__(self, config: AnyConfig) -> None:
        self.config = config
        self.stop = threading.Event()
        self.tallies: list[Tally] = []
        self.failures: list[BaseException] = []
        self.writer = open_history(config)

    @abstractmethod
    def runs(self) -> list[tuple[str, Callable[[], None]]]:
        """Return what each thread does until the stop, with its name."""

    def threads(self) -> list[threading.Thread]:
        """Return one thread per client, not started."""
        return [
            threading.Thread(target=self._guarded, args=(run,), name=name, daemon=True)
            for name, run in self.runs()
        ]

    def _guarded(self, run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as error:
            self.failures.append(error)
            self.stop.set()
            raise

    def tally(self) -> Tally:
        """Return the counters of a new client."""
        tally = Tally()
        self.tallies.append(tally)
        return tally


class Workload(Clients):
    """The producers and consumers of one topic."""

    def __init__(self, config: ClientConfig, library: Callable[[ClientConfig], Library]) -> None:
        super().__init__(config)
        self._config = config
        self._histories = ClientHistories(config, self.writer)
        self._library = library(config)

    def runs(self) -> list[tuple[str, Callable[[], None]]]:
        """See `Clients`."""
        config = self._config
        producers = [(f"producer-{n}", partial(self._produce, n)) for n in range(config.producers)]
        consumers = [(f"consumer-{n}", self._consume) for n in range(config.consumers)]
        readers = [("passes", self._read_passes)] if config.passes_every_s else []
        return [*producers, *consumers, *readers]

    def _produce(self, index: int) -> None:
        tally = self.tally()
        while (made := self._connected(self._producer, tally)) is not None:
            producer, sends = made
            self._drive(producer, sends, first_partition=index)
            drain_s = self._config.drain_ms / 1000 if producer.fatal is None else 0.0
            producer.close(drain_s)

    def _producer(self, tally: Tally) -> tuple[WorkloadProducer, Sends]:
        sends = self._histories.sends(tally)
        return self._library.producer(sends), sends

    def _consumer(self, tally: Tally) -> WorkloadConsumer:
        return self._library.consumer(self._histories.reads(tally))

    def _connected(self, make: Callable[[Tally], T], tally: Tally) -> T | None:
        """Return what `make` makes, under the next number; None when the stop comes first."""
        while not self.stop.is_set():
            try:
                return make(tally)
            except NotConnected as error:
                tally.last_error = str(error)
                self.stop.wait(CONNECT_RETRY_S)
        return None

    def _drive(self, producer: WorkloadProducer, sends: Sends, first_partition: int) -> None:
        """Send until the stop, or until the producer has made its sends or cannot go on."""
        turns = RoundRobin(self._config, time.monotonic, first_partition)
        while not (self.stop.is_set() or sends.complete) and producer.fatal is None:
            if turns.send_due(producer, sends) == SENDS_PER_POLL:
                producer.poll(0)
            else:  # no send is due or possible: outcomes are the next event either way
                producer.poll(min(IDLE_S, turns.wait_s() or IDLE_S))

    def _consume(self) -> None:
        consumer = self._connected(self._consumer, self.tally())
        if consumer is None:
            return
        consumer.assign(dict.fromkeys(range(self._config.partitions), 0))
        while not self.stop.is_set():
            consumer.poll(0.1)
        consumer.close()

    def _read_passes(self) -> None:
        passes = self._histories.passes(self.tally())
        PassReader(self._config, passes, access.of_this_process()).run(self.stop)


def run(workload: Clients) -> int:
    """Run the clients until the stop; return the exit code: 1 when a client thread failed."""
    config = workload.config
    threads = workload.threads()
    for thread in threads:
        thread.start()
    next_stat_s = time.monotonic()
    # After the stop a thread needs its drain and one poll. A thread that takes longer hangs.
    limit_s = config.drain_ms / 1000 + 15
    deadline_s: float | None = None
    while any(thread.is_alive() for thread in threads):
        now_s = time.monotonic()
        if workload.stop.wait(FLUSH_INTERVAL_S) and deadline_s is None:
            deadline_s = now_s + limit_s
        if deadline_s is not None:
            if now_s > deadline_s:
                faulthandler.dump_traceback()  # says in the process's log what hangs
                break
            time.sleep(0.02)
        workload.writer.flush()
        if now_s >= next_stat_s:
            next_stat_s = max(next_stat_s + STAT_INTERVAL_S, now_s)
            print_stat(config, workload.tallies, workload.writer)
    print_stat(config, workload.tallies, workload.writer)
    workload.writer.close()
    return 1 if workload.failures or any(thread.is_alive() for thread in threads) else 0


def main(
    argv: list[str],
    library: Callable[[ClientConfig], Library],
    further: "Callable[[FurtherConfig], Clients] | None" = None,
) -> int:
    """Run the process; `argv` has the path of its configuration. Return the exit code."""
    config = load(Path(argv[1]))
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    workload: Clients
    if isinstance(config, ClientConfig):
        workload = Workload(config, library)
    else:
        assert further is not None, "the plan names only clients that run the workload"
        workload = further(config)
    # In another thread: the handler may interrupt this thread inside the event's own lock.
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=workload.stop.set).start())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the harness handles Ctrl-C and stops its clients

    def watch_stdin() -> None:
        # Not with sys.stdin: a blocked read holds its lock, and the interpreter could not exit.
        while os.read(sys.stdin.fileno(), 4096):
            pass
        workload.stop.set()

    threading.Thread(target=watch_stdin, name="stdin", daemon=True).start()
    return run(workload)
