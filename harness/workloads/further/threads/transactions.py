"""Producers that write transactions, and consumers that read them, each in a thread.

They do the same as our own clients (`harness.workloads.further.own.transactions`): some producers
leave a transaction open, and come back when another one has taken over their transactional id.
"""

import random
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from harness.plans.workloads import TransactionWorkload
from harness.workloads.client_histories import FurtherHistories
from harness.workloads.clients.counts import Tally
from harness.workloads.clients.outcomes import NotConnected
from harness.workloads.clients.reads import Reads
from harness.workloads.clients.transaction_sends import TransactionSends
from harness.workloads.further.rules import Patience, places_of
from harness.workloads.further.threads.library import (
    Broken,
    Library,
    NotWritten,
    TransactionalProducer,
    Written,
)
from harness.workloads.further_config import FurtherConfig
from harness.workloads.pacing import CONNECT_RETRY_S, Pace
from harness.workloads.threads import WorkloadConsumer

RETRY_S: Final = 0.1
ZOMBIE_S: Final = 2.0
"""How long after its vanishing a zombie comes back."""
POLL_S: Final = 0.1


class Writers:
    """The producers and consumers of each topic; `tally` makes the counters of one."""

    def __init__(
        self,
        config: FurtherConfig,
        wanted: TransactionWorkload,
        library: Library,
        histories: FurtherHistories,
        stop: threading.Event,
        tally: Callable[[], Tally],
    ) -> None:
        self._config = config
        self._wanted = wanted
        self._histories = histories
        self._stop = stop
        self._tally = tally
        self._library = library

    def runs(self) -> list[tuple[str, Callable[[], None]]]:
        """Return what each thread does until the stop, with its name."""
        found: list[tuple[str, Callable[[], None]]] = []
        for topic, partitions in self._config.partitions.items():
            for number in range(self._wanted.producers):
                transactional_id = f"{self._config.name}-{topic}-{number}"
                run = partial(self._write, topic, transactional_id)
                found.append((transactional_id, run))
            reads = partial(self._read, topic, partitions)
            found += [(f"{topic}-{number}", reads) for number in range(self._wanted.consumers)]
        return found

    def _read(self, topic: str, partitions: int) -> None:
        """Read all partitions of a topic until the stop."""
        reads = self._histories.reads(self._histories.next_client(), topic, self._tally())
        consumer = self._consumer(reads)
        if consumer is None:
            return
        consumer.assign(dict.fromkeys(range(partitions), 0))
        while not self._stop.is_set():
            consumer.poll(POLL_S)
        consumer.close()

    def _consumer(self, reads: Reads) -> WorkloadConsumer | None:
        """Return a consumer; None when the stop comes first."""
        while not self._stop.is_set():
            try:
                return self._library.consumer(reads)
            except NotConnected as error:
                reads.note(str(error))
                self._stop.wait(CONNECT_RETRY_S)
        return None

    def _write(self, topic: str, transactional_id: str) -> None:
        """Be one producer after the other until the stop."""
        tally, pace = self._tally(), Pace(self._wanted.rate_per_s, time.monotonic())
        patience = Patience(self._stop, self._config.drain_ms / 1000, time.monotonic)
        zombies: list[threading.Thread] = []
        while not self._stop.is_set():
            client = self._histories.next_client()
            sends = self._histories.transactions(client, topic, transactional_id, tally)
            timeout_ms = self._wanted.transaction_timeout_ms
            producer = self._library.transactional(sends, timeout_ms, patience)
            writer = _Writer(self._wanted, producer, sends, self._config.partitions)
            may_vanish = self._histories.is_replaceable(client)
            if producer.begin_producer() and writer.write(self._stop, pace, may_vanish=may_vanish):
                zombie = threading.Thread(target=writer.come_back, args=(self._stop,))
                zombie.start()
                zombies.append(zombie)
                continue
            producer.close()
            self._stop.wait(RETRY_S)
        for zombie in zombies:
            zombie.join()


class _Writer:
    """The transactions of one producer."""

    def __init__(
        self,
        wanted: TransactionWorkload,
        producer: TransactionalProducer,
        sends: TransactionSends,
        partitions: Mapping[str, int],
    ) -> None:
        self._wanted = wanted
        self._producer = producer
        self._sends = sends
        self._partitions = partitions

    def write(self, stop: threading.Event, pace: Pace, *, may_vanish: bool) -> bool:
        """Write transactions until the stop, or until the producer cannot go on; return whether it
        vanished in a transaction."""
        wanted, producer, sends = self._wanted, self._producer, self._sends
        while not (stop.is_set() or sends.used_up):
            if stop.wait(pace.wait_s(time.monotonic())):
                return False
            pace.sent(time.monotonic())
            try:
                producer.begin()
                self._write_records()
            except Broken as error:
                sends.left_open(error=str(error))
                return False
            except NotWritten as error:
                sends.note(str(error))
                if not producer.abort():
                    return False
                continue
            if may_vanish and random.random() < wanted.open_share:
                return True
            commit = random.random() >= wanted.abort_share
            if not (producer.commit() if commit else producer.abort()):
                return False
        return False

    def _write_records(self) -> None:
        sends = self._sends
        places = places_of(self._wanted, sends.topic, self._partitions, random.Random())
        records = []
        for topic, partition, count in sorted(places):
            payloads = (sends.send(partition, topic=topic)[1] for _ in range(count))
            records += [Written(topic, partition, payload) for payload in payloads]
        self._producer.write(records)

    def come_back(self, stop: threading.Event) -> None:
        """Be a zombie: go on with a transaction after another producer has taken over."""
        stop.wait(random.uniform(0, ZOMBIE_S))
        try:
            self._write_records()
            self._producer.commit()
        except (Broken, NotWritten) as error:
            self._sends.left_open(error=str(error))
        self._producer.close()
