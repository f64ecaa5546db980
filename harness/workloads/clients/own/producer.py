"""A producer for one topic: lines of messages, sent to whoever leads, with acks 0, 1 or all.

A request to a broker carries a batch of every partition that has one for it; IN_FLIGHT requests are
under way to each broker at most. Everything happens in callbacks, on the loop that it was made in:
an answer, a new leader, a timer make it look what can be sent now, and what is too old.

acks=0: sent means handed to the connection, which takes BUFFERED_BYTES beyond the kernel's own.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from math import inf
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from harness.workloads.clients.own import records
from harness.workloads.clients.own.cluster import Cluster
from harness.workloads.clients.own.connection import Link
from harness.workloads.clients.own.partition_queue import (
    IN_FLIGHT,
    Batch,
    Bump,
    Ended,
    Fate,
    Limits,
    Line,
    Message,
)
from harness.workloads.clients.own.produce_errors import fate_of
from harness.workloads.clients.own.waiting import Signal
from nodes.wire.errors import ChannelError, ConnectFailed

REQUEST_BYTES: Final = 8 << 20
"""After this much a request takes no further batch."""
BUFFERED_BYTES: Final = 256 << 10
BUFFER_PAUSE_S: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """How a producer sends. `acks`: 0, 1, -1; `insists`: see `line`; `replication_s`: how long a
    leader may wait for its followers, less than a request may take."""

    acks: int
    idempotence: bool
    limits: Limits
    insists: bool = False
    replication_s: float = 2.0


class _Sent(NamedTuple):
    partition: int
    batch: Batch


class Producer:
    """See the module. `on_ended` is told the partition, the outcome, and the broker that answered.

    `cluster` is the producer's own from here on, and closed with it.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: ProducerSettings,
        *,
        wall_clock_ms: Callable[[], int],
        on_ended: Callable[[int, Ended, int | None], None],
        on_bump: Callable[[int, Bump], None],
    ) -> None:
        self.pending = 0
        """Messages without an outcome."""
        self.fatal: str | None = None
        """Why nothing can be sent any more."""
        self._settings = settings
        self._wall_clock_ms = wall_clock_ms
        self._on_ended = on_ended
        self._on_bump = on_bump
        self._lines: dict[int, Line] = {}
        self._requests: dict[int, int] = {}
        """Under way to each broker."""
        self._producer_id: int | None = None if settings.idempotence else -1
        self._introducing: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.Handle | None = None
        self._timer_s = inf
        self._idle = Signal()
        self._closed = False
        self._cluster = cluster
        cluster.on_change = self.look
        if self._producer_id is None:
            self._introducing = self._loop.create_task(self._introduce())

    def send(self, partition: int, tag: int, payload: bytes) -> None:
        """Take a message; its outcome is told later."""
        line = self._lines.get(partition)
        if line is None:
            settings = self._settings
            line = Line(settings.limits, idempotent=settings.idempotence, insists=settings.insists)
            self._lines[partition] = line
        now_s = self._loop.time()
        line.add(Message(tag, payload, now_s))
        self.pending += 1
        self._wake_at(min(line.due_s(), line.expires_s()), now_s)

    async def close(self, timeout_s: float) -> None:
        """Wait for outcomes, at most `timeout_s`; what has none gets End.INFO without an error."""
        deadline_s = self._loop.time() + timeout_s
        while self.pending and (left_s := deadline_s - self._loop.time()) > 0:
            await self._idle.wait(left_s)
        while self._cluster.buffered_bytes and self._loop.time() < deadline_s:  # noqa: ASYNC110 - transports tell nobody
            await asyncio.sleep(BUFFER_PAUSE_S)
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for partition, line in self._lines.items():
            self._tell(partition, line.close(), None)
        if self._introducing is not None:
            self._introducing.cancel()
            await asyncio.gather(self._introducing, return_exceptions=True)
        await self._cluster.close()

    # -- the producer id

    async def _introduce(self) -> None:
        """Get a producer id, from whichever broker has one (KIP-98)."""
        failures = 0
        while self._producer_id is None:
            nodes = self._cluster.nodes
            link = self._cluster.link(nodes[failures % len(nodes)]) if nodes else None
            if link is not None:
                try:
                    answer = await link.start(
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
        self.look()

    # -- looking what can be sent

    def look(self) -> None:
        """Give up what is too old, send what can be sent, and come again when more is due."""
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
        for line in self._lines.values():
            next_s = min(at for at in (line.due_s(), line.expires_s(), inf) if at > now_s)
            self._wake_at(next_s, now_s)

    def _expire(self, now_s: float) -> None:
        for partition, line in self._lines.items():
            if line.expires_s() <= now_s:
                self._tell(partition, line.expire(now_s), None)

    def _due_nodes(self, now_s: float) -> Sequence[int]:
        """The leaders of partitions that have something to send now, each once."""
        nodes: dict[int, None] = {}
        for partition, line in self._lines.items():
            if line.due_s() <= now_s and (leader := self._cluster.leader(partition)) is not None:
                nodes[leader.node] = None
        return list(nodes)

    def _serve(self, node: int, now_s: float) -> None:
        link = self._cluster.link(node)
        if link is None:
            return
        if self._settings.acks == 0 and link.buffered_bytes > BUFFERED_BYTES:
            self._wake_at(now_s + BUFFER_PAUSE_S, now_s)
            return
        while self._requests.get(node, 0) < IN_FLIGHT:
            sent = list(self._batches_for(node, now_s))
            if not sent or not self._request(link, node, sent):
                return

    def _batches_for(self, node: int, now_s: float) -> Iterator[_Sent]:
        size = 0
        for partition, line in self._lines.items():
            leader = self._cluster.leader(partition)
            if size >= REQUEST_BYTES or leader is None or leader.node != node:
                continue
            batch = line.take(node, now_s)
            if batch is not None:
                self._encode(batch)
                size += len(batch.encoded or b"")
                yield _Sent(partition, batch)

    def _encode(self, batch: Batch) -> None:
        if batch.encoded is None:
            assert self._producer_id is not None
            batch.encoded = records.encode(
                [message.payload for message in batch.messages],
                timestamp_ms=self._wall_clock_ms(),
                producer_id=self._producer_id,
                epoch=batch.epoch,
                sequence=batch.sequence,
            )

    def _request(self, link: Link, node: int, sent: Sequence[_Sent]) -> bool:
        """Send the batches; False when they cannot leave."""
        values: dict[str, Any] = {
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
        try:
            if self._settings.acks == 0:
                link.post("produce", **values)
                self._all(sent, Fate.LANDED, None, None)
                return True
            future = link.start("produce", **values)
        except ConnectFailed:
            self._all(sent, Fate.REFUSED, "CONNECT_FAILED", None)
            return False
        self._requests[node] = self._requests.get(node, 0) + 1
        future.add_done_callback(partial(self._answered, node, sent))
        return True

    # -- what became of it

    def _answered(self, node: int, sent: Sequence[_Sent], future: "asyncio.Future[Any]") -> None:
        self._requests[node] -= 1
        error = future.exception()
        if self._closed:
            return
        if error is not None:
            if not isinstance(error, ChannelError):
                self.fatal = f"an answer to a produce could not be handled: {error!r}"
            sure = isinstance(error, ChannelError) and error.surely_not_sent
            fate = Fate.REFUSED if sure else Fate.OPEN
            self._all(sent, fate, type(error).__name__, node)
        else:
            answer = future.result()
            rows = {
                int(r.index): r for topic in answer.responses for r in topic.partition_responses
            }
            for each in sent:
                self._answered_one(node, each, answer, rows.get(each.partition))
        self.look()

    def _answered_one(self, node: int, sent: _Sent, answer: Any, row: Any) -> None:
        if row is None:
            return self._ended(sent, Fate.OPEN, "NO_ANSWER", node)
        fate = fate_of(row.error_code)
        if fate is Fate.LANDED:
            offset = int(row.base_offset)
            return self._ended(sent, fate, None, node, offset if offset >= 0 else None)
        at_once = self._cluster.hint(sent.partition, answer, row)
        return self._ended(sent, fate, row.error_code.name.upper(), node, at_once=at_once)

    def _all(self, sent: Sequence[_Sent], fate: Fate, error: str | None, node: int | None) -> None:
        for each in sent:
            self._ended(each, fate, error, node)

    def _ended(
        self,
        sent: _Sent,
        fate: Fate,
        error: str | None,
        node: int | None,
        offset: int | None = None,
        *,
        at_once: bool = False,
    ) -> None:
        """An attempt has ended. at_once: nothing has to be waited for before the next."""
        again_s = self._loop.time()
        if fate is not Fate.LANDED and not at_once:
            cluster = self._cluster
            again_s += cluster.timing.retry.pause_s(sent.batch.attempts, cluster.rng)
            cluster.refresh()
        line = self._lines[sent.partition]
        ended = line.attempted(sent.batch, fate, again_s=again_s, offset=offset, error=error)
        self._tell(sent.partition, ended, node)

    def _tell(self, partition: int, outcomes: Sequence[Ended], node: int | None) -> None:
        for ended in outcomes:
            self.pending -= len(ended.messages)
            self._on_ended(partition, ended, node)
        line = self._lines[partition]
        for bump in line.bumps:
            self._on_bump(partition, bump)
        line.bumps.clear()
        if line.exhausted:
            self.fatal = f"partition {partition} has used up the epochs of the producer id"
        if self.pending == 0:
            self._idle.set()

    # -- timers

    def _wake_at(self, when_s: float, now_s: float) -> None:
        """Look again at that time, or earlier if that is planned already."""
        if when_s >= self._timer_s or self._closed or when_s == inf:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_s = when_s
        if when_s <= now_s:
            self._timer = self._loop.call_soon(self.look)
        else:
            self._timer = self._loop.call_at(when_s, self.look)
