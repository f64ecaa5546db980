"""A producer for one topic: it sends queued messages to the leaders, with acks 0, 1 or all.

A request to a broker has a batch of every partition that has one for this broker. At most IN_FLIGHT
requests are in flight to each broker. Everything happens in callbacks, on the loop in which the
producer was made: after an answer, a new leader or a timer it sends what can be sent, and gives up
what is too old.

With acks=0, sent means handed to the connection, which takes BUFFERED_BYTES beyond the kernel's
own buffer.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from math import inf
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from harness.workloads.clients.own import records
from harness.workloads.clients.own.cluster import Cluster
from harness.workloads.clients.own.connection import BrokerConnection
from harness.workloads.clients.own.partition_queue import (
    IN_FLIGHT,
    AttemptResult,
    Batch,
    EndedMessages,
    Limits,
    Message,
    PartitionEpochBump,
    PartitionQueue,
)
from harness.workloads.clients.own.produce_errors import attempt_result
from harness.workloads.clients.own.waiting import Signal
from harness.workloads.clients.own.zombies import Zombies
from nodes.wire.errors import ChannelError, ConnectFailed

REQUEST_BYTES: Final = 8 << 20
"""A request of this size takes no further batch."""
BUFFERED_BYTES: Final = 256 << 10
BUFFER_PAUSE_S: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """How a producer sends. `acks`: 0, 1, -1. For `insists` see `partition_queue`.

    For `zombie_batches` see `zombies`.

    `replication_s` is how long a leader may wait for its followers; less than a request may take.
    """

    acks: int
    idempotence: bool
    limits: Limits
    insists: bool = False
    zombie_batches: bool = False
    replication_s: float = 2.0


class _Sent(NamedTuple):
    partition: int
    batch: Batch


class Producer:
    """Sends messages to partitions of one topic.

    `on_ended` gets the partition, the outcome, and the broker that answered. The producer owns
    `cluster`, and closes it at its own end.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: ProducerSettings,
        *,
        wall_clock_ms: Callable[[], int],
        on_ended: Callable[[int, EndedMessages, int | None], None],
        on_bump: Callable[[int, PartitionEpochBump], None],
    ) -> None:
        self.pending = 0
        """Messages without an outcome."""
        self.fatal: str | None = None
        """Why nothing can be sent any more."""
        self._settings = settings
        self._wall_clock_ms = wall_clock_ms
        self._on_ended = on_ended
        self._on_bump = on_bump
        self._queues: dict[int, PartitionQueue] = {}
        self._requests: dict[int, int] = {}
        """Requests in flight to each broker."""
        self._zombies = Zombies() if settings.zombie_batches else None
        self._producer_id: int | None = None if settings.idempotence else -1
        self._getting_id: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.Handle | None = None
        self._timer_s = inf
        self._idle = Signal()
        self._closed = False
        self._cluster = cluster
        cluster.on_change = self.send_due
        if self._producer_id is None:
            self._getting_id = self._loop.create_task(self._get_producer_id())

    def send(
        self, partition: int, tag: int, payload: bytes | None, key: bytes | None = None
    ) -> None:
        """Queue a message (no payload: a tombstone); its outcome is reported later."""
        queue = self._queues.get(partition)
        if queue is None:
            settings = self._settings
            queue = PartitionQueue(
                settings.limits, idempotent=settings.idempotence, insists=settings.insists
            )
            self._queues[partition] = queue
        now_s = self._loop.time()
        queue.add(Message(tag, payload, now_s, self._wall_clock_ms(), key))
        self.pending += 1
        self._wake_at(min(queue.due_s(), queue.expires_s()), now_s)

    async def close(self, timeout_s: float) -> None:
        """Wait for outcomes, at most `timeout_s`; the others end as INFO without an error."""
        deadline_s = self._loop.time() + timeout_s
        while self.pending and (left_s := deadline_s - self._loop.time()) > 0:
            await self._idle.wait(left_s)
        while self._cluster.buffered_bytes and self._loop.time() < deadline_s:  # noqa: ASYNC110 - transports have no callback
            await asyncio.sleep(BUFFER_PAUSE_S)
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for partition, queue in self._queues.items():
            self._tell(partition, queue.close(), None)
        if self._getting_id is not None:
            self._getting_id.cancel()
            await asyncio.gather(self._getting_id, return_exceptions=True)
        await self._cluster.close()

    # -- the producer id

    async def _get_producer_id(self) -> None:
        """Get a producer id from any broker (KIP-98), another one after each failure."""
        failures, first = 0, self._cluster.rng.getrandbits(16)
        while self._producer_id is None:
            nodes = self._cluster.nodes
            node = nodes[(first + failures) % len(nodes)] if nodes else None
            connection = None if node is None else self._cluster.connection(node)
            if connection is not None:
                try:
                    answer = await connection.start(
                        "init_producer_id",
                        transactional_id=None,
                        transaction_timeout=timedelta(minutes=1),
                    )
                    if answer.error_code is ErrorCode.none:
                        self._producer_id = int(answer.producer_id)
                        break
                except ChannelError:
                    pass
            failures += 1
            await asyncio.sleep(self._cluster.timing.retry.pause_s(failures, self._cluster.rng))
        self.send_due()

    # -- sending

    def send_due(self) -> None:
        """Give up what is too old, send what is due, and set the timer for the rest."""
        if self._closed:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_s = inf
        now_s = self._loop.time()
        self._expire(now_s)
        if self._producer_id is not None:
            for node in self._due_nodes(now_s):
                self._serve(node, now_s)
        for queue in self._queues.values():
            next_s = min(at for at in (queue.due_s(), queue.expires_s(), inf) if at > now_s)
            self._wake_at(next_s, now_s)

    def _expire(self, now_s: float) -> None:
        for partition, queue in self._queues.items():
            if queue.expires_s() <= now_s:
                self._tell(partition, queue.expire(now_s), None)

    def _due_nodes(self, now_s: float) -> Sequence[int]:
        """Return the leaders of partitions that have something to send now, each once."""
        nodes: dict[int, None] = {}
        for partition, queue in self._queues.items():
            if queue.due_s() <= now_s and (leader := self._cluster.leader(partition)) is not None:
                nodes[leader.node] = None
        return list(nodes)

    def _serve(self, node: int, now_s: float) -> None:
        connection = self._cluster.connection(node)
        if connection is None:
            return
        if self._settings.acks == 0 and connection.buffered_bytes > BUFFERED_BYTES:
            self._wake_at(now_s + BUFFER_PAUSE_S, now_s)
            return
        while self._requests.get(node, 0) < IN_FLIGHT:
            sent = list(self._batches_for(node, now_s))
            if not sent or not self._request(connection, node, sent):
                return

    def _batches_for(self, node: int, now_s: float) -> Iterator[_Sent]:
        size = 0
        for partition, queue in self._queues.items():
            leader = self._cluster.leader(partition)
            if size >= REQUEST_BYTES or leader is None or leader.node != node:
                continue
            batch = queue.next_batch(node, now_s)
            if batch is not None:
                self._encode(batch)
                size += len(batch.encoded or b"")
                yield _Sent(partition, batch)

    def _encode(self, batch: Batch) -> None:
        if batch.encoded is None:
            assert self._producer_id is not None
            batch.encoded = records.encode(
                [(each.timestamp_ms, each.payload, each.key) for each in batch.messages],
                producer_id=self._producer_id,
                epoch=batch.epoch,
                sequence=batch.sequence,
            )

    def _request(self, connection: BrokerConnection, node: int, sent: Sequence[_Sent]) -> bool:
        """Send the batches; return False when they cannot be sent."""
        values = self._request_values(sent)
        try:
            if self._settings.acks == 0:
                connection.post("produce", **values)
                self._all(sent, AttemptResult.APPENDED, None, None)
                return True
            future = connection.start("produce", **values)
        except ConnectFailed:
            self._all(sent, AttemptResult.NOT_APPENDED, "CONNECT_FAILED", None)
            return False
        self._requests[node] = self._requests.get(node, 0) + 1
        future.add_done_callback(partial(self._answered, node, sent))
        return True

    def _request_values(self, sent: Sequence[_Sent]) -> dict[str, Any]:
        """Return the fields of a Produce request."""
        return {
            "transactional_id": None,
            "acks": self._settings.acks,
            "timeout": timedelta(seconds=self._settings.replication_s),
            "topic_data": [
                {
                    "name": self._cluster.topic,
                    "partition_data": [
                        {"index": partition, "records": batch.encoded} for partition, batch in sent
                    ],
                }
            ],
        }

    def _send_zombie(self, node: int, appended: _Sent) -> None:
        """Send a batch of an ended epoch if it is time for one; ignore the answer."""
        if self._zombies is None:
            return
        zombie = self._zombies.appended(appended.partition, appended.batch)
        connection = None if zombie is None else self._cluster.connection(node)
        if zombie is None or connection is None:
            return
        with contextlib.suppress(ConnectFailed):
            values = self._request_values([_Sent(appended.partition, zombie)])
            connection.start("produce", **values).add_done_callback(asyncio.Future.exception)

    # -- results

    def _answered(self, node: int, sent: Sequence[_Sent], future: "asyncio.Future[Any]") -> None:
        self._requests[node] -= 1
        error = future.exception()
        if self._closed:
            return
        if error is not None:
            if not isinstance(error, ChannelError):
                self.fatal = f"an answer to a produce could not be handled: {error!r}"
            sure = isinstance(error, ChannelError) and error.surely_not_sent
            result = AttemptResult.NOT_APPENDED if sure else AttemptResult.UNKNOWN
            self._all(sent, result, type(error).__name__, node)
        else:
            answer = future.result()
            rows = {
                int(r.index): r for topic in answer.responses for r in topic.partition_responses
            }
            for each in sent:
                self._answered_one(node, each, answer, rows.get(each.partition))
        self.send_due()

    def _answered_one(self, node: int, sent: _Sent, answer: Any, row: Any) -> None:
        if row is None:
            return self._ended(sent, AttemptResult.UNKNOWN, "NO_ANSWER", node)
        result = attempt_result(row.error_code)
        if result is AttemptResult.APPENDED:
            offset = int(row.base_offset)
            self._send_zombie(node, sent)
            return self._ended(sent, result, None, node, offset if offset >= 0 else None)
        self._cluster.hint(sent.partition, answer, row)
        leader = self._cluster.leader(sent.partition)
        moved = leader is not None and leader.node != node
        return self._ended(sent, result, row.error_code.name.upper(), node, at_once=moved)

    def _all(
        self, sent: Sequence[_Sent], result: AttemptResult, error: str | None, node: int | None
    ) -> None:
        for each in sent:
            self._ended(each, result, error, node)

    def _ended(
        self,
        sent: _Sent,
        result: AttemptResult,
        error: str | None,
        node: int | None,
        offset: int | None = None,
        *,
        at_once: bool = False,
    ) -> None:
        """Record that an attempt has ended. With `at_once` the next one needs no backoff: another
        broker leads now (KIP-951).
        """
        again_s = self._loop.time()
        if result is not AttemptResult.APPENDED and not at_once:
            cluster = self._cluster
            again_s += cluster.timing.retry.pause_s(sent.batch.attempts, cluster.rng)
            cluster.refresh()
        queue = self._queues[sent.partition]
        ended = queue.record_attempt(
            sent.batch, result, again_s=again_s, offset=offset, error=error
        )
        self._tell(sent.partition, ended, node)

    def _tell(self, partition: int, outcomes: Sequence[EndedMessages], node: int | None) -> None:
        for ended in outcomes:
            self.pending -= len(ended.messages)
            self._on_ended(partition, ended, node)
        queue = self._queues[partition]
        for bump in queue.bumps:
            self._on_bump(partition, bump)
        queue.bumps.clear()
        if queue.exhausted:
            self.fatal = f"partition {partition} has used up the epochs of the producer id"
        if self.pending == 0:
            self._idle.set()

    # -- timers

    def _wake_at(self, when_s: float, now_s: float) -> None:
        """Call `send_due` at that time, or earlier if the timer is set already."""
        if when_s >= self._timer_s or self._closed or when_s == inf:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_s = when_s
        if when_s <= now_s:
            self._timer = self._loop.call_soon(self.send_due)
        else:
            self._timer = self._loop.call_at(when_s, self.send_due)
