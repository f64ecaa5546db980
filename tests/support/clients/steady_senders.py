"""Senders of one record after another at a steady rate, to partition 0 of a topic, with acks=all.

Each works on a thread of its own and remembers every answer. The one is librdkafka, the other
highwater's own client, which follows the leader that an error names (KIP-951) at once.
"""

import asyncio
import random
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol, Self

from confluent_kafka import Message, Producer

from harness.workloads.clients.own.cluster import Cluster, Timing
from harness.workloads.clients.own.connection import Address
from harness.workloads.clients.own.partition_queue import EndedMessages, Limits, MessageOutcome
from harness.workloads.clients.own.producer import Producer as OwnProducer
from harness.workloads.clients.own.producer import ProducerSettings
from harness.workloads.clients.own.waiting import Backoff

PATIENCE_S = 30.0

LIBRDKAFKA: Mapping[str, Any] = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 0,
    "retry.backoff.ms": 1,
    "retry.backoff.max.ms": 10,
    "topic.metadata.refresh.fast.interval.ms": 10,
    "topic.metadata.refresh.interval.ms": 1_000,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    # As a client that writes to many partitions has it: a connection to every broker. Otherwise
    # librdkafka, told of a new leader to which it has none, may connect only a second later.
    "enable.sparse.connections": False,
    "socket.nagle.disable": True,
    "broker.address.family": "v4",
    "log.connection.close": False,
    "log_level": 2,  # a node that is down refuses connections
}
TIMING = Timing(
    retry=Backoff(first_s=0.001, last_s=0.01), reconnect=Backoff(first_s=0.01, last_s=0.1)
)
"""The same pauses for highwater's own client."""


@dataclass(slots=True)
class Answers:
    """What became of the records: those that were acknowledged, and the errors of the others."""

    acked_s: list[float] = field(default_factory=list)
    """When, by the monotonic clock."""
    offsets: list[int] = field(default_factory=list)
    """Those that are known."""
    values: list[bytes] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def acknowledged(self, offset: int | None, value: bytes) -> None:
        """Note an acknowledgement that came now. `offset` is None if the client does not know it:
        librdkafka concludes from a refused repetition that a batch was written."""
        self.acked_s.append(time.monotonic())
        self.values.append(value)
        if offset is not None:
            self.offsets.append(offset)

    def longest_gap_ms(self, since_s: float, until_s: float) -> float:
        """The longest time without an acknowledgement between two instants."""
        inside = [at for at in self.acked_s.copy() if since_s <= at <= until_s]
        marks = [since_s, *inside, until_s]
        return 1000 * max(after - before for before, after in pairwise(marks))


class Sender(Protocol):
    """Sends while the context is open; at its end every record has an answer."""

    @property
    def answers(self) -> Answers:
        """What is known so far."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


class LibrdkafkaSender:
    """A Sender with an idempotent producer of librdkafka."""

    def __init__(self, producer: Producer, topic: str, rate_per_s: float) -> None:
        self.answers = Answers()
        self._producer = producer
        self._topic = topic
        self._period_s = 1 / rate_per_s
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sender")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ending.set()
        self._thread.join()
        self._producer.flush(PATIENCE_S)

    def _run(self) -> None:
        due_s = time.monotonic()
        number = 0
        while not self._ending.is_set():
            self._producer.produce(
                self._topic, b"%d" % number, partition=0, on_delivery=self._delivered
            )
            number += 1
            due_s += self._period_s
            while (left_s := due_s - time.monotonic()) > 0:
                self._producer.poll(left_s)
            self._producer.poll(0)

    def _delivered(self, error: object, message: Message) -> None:
        if error is None:
            self.answers.acknowledged(message.offset(), bytes(message.value() or b""))
        else:
            self.answers.failures.append(str(error))


class OwnSender:
    """A Sender with highwater's own idempotent producer. It keeps a connection to every broker.

    `network`: its thread works inside this context, as a network namespace is a thread's.
    """

    def __init__(
        self,
        bootstrap: Sequence[Address],
        topic: str,
        rate_per_s: float,
        network: AbstractContextManager[None] | None = None,
    ) -> None:
        self.answers = Answers()
        self._bootstrap = bootstrap
        self._topic = topic
        self._period_s = 1 / rate_per_s
        self._network = nullcontext() if network is None else network
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sender")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        with self._network:
            asyncio.run(self._send())

    async def _send(self) -> None:
        cluster = Cluster(
            self._bootstrap, self._topic, client_id="sender", rng=random.Random(0), timing=TIMING
        )
        producer = OwnProducer(
            cluster,
            ProducerSettings(acks=-1, idempotence=True, limits=Limits(messages=1)),
            wall_clock_ms=lambda: round(1000 * time.time()),
            on_ended=self._ended,
            on_bump=lambda partition, bump: None,
        )
        due_s = time.monotonic()
        number = 0
        while not self._ending.is_set():
            for node in cluster.nodes:
                cluster.connection(node)
            producer.send(0, number, b"%d" % number)
            number += 1
            due_s += self._period_s
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
        await producer.close(PATIENCE_S)

    def _ended(self, partition: int, ended: EndedMessages, node: int | None) -> None:
        for message in ended.messages:
            if ended.end is MessageOutcome.OK:
                self.answers.acknowledged(ended.offset, message.payload or b"")
            else:
                self.answers.failures.append(ended.error or ended.end.name)
