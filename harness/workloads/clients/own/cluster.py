"""One client's view of a cluster: the leaders of a topic's partitions, and connections to brokers.

A task of its own requests metadata, on connections of its own, so that slow answers to other
requests do not delay it. It does so when the metadata is old, and soon after a call of `refresh`.
It asks another broker each time, because an isolated broker knows nothing new. A broker that failed
is not asked for a while. Connections are opened in the background. `on_change` is called when new
metadata or a new connection is there. Only metadata requests are repeated here.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from harness.workloads.clients.own.answer_codes import OnAnswer
from harness.workloads.clients.own.connection import Address, BrokerConnection, open_connection
from harness.workloads.clients.own.leaders import Leader, Leaders
from harness.workloads.clients.own.waiting import Backoff, Signal
from nodes.wire.errors import ChannelError
from nodes.wire.security import PLAINTEXT_CLIENT, ClientSecurity

AVOIDED_S: Final = 2.0
"""How long a broker that did not answer is not asked for metadata, if there is another one."""
RETRY: Final = Backoff(first_s=0.05, last_s=0.25)
RECONNECT: Final = Backoff(first_s=0.05, last_s=0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The time limits of a client; the defaults suit a cluster under faults."""

    request_s: float = 3.0
    """A request without an answer is given up after this time, together with its connection."""
    open_s: float = 1.0
    """How long connecting and agreeing on versions may take."""
    metadata_s: float = 1.0
    """How long a metadata request may take."""
    metadata_age_s: float = 5.0
    """Metadata of this age is requested again, even if nothing seems wrong."""
    retry: Backoff = RETRY
    reconnect: Backoff = RECONNECT


@dataclass(slots=True)
class _Peer:
    """The connection to one broker's address, or the attempt to open one."""

    connection: BrokerConnection | None = None
    opening: "asyncio.Task[None] | None" = None
    failures: int = 0
    not_before_s: float = 0.0


class Cluster:
    """One client's view of a cluster. Make it inside a running loop, and `close` it."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        topic: str,
        *,
        client_id: str,
        rng: random.Random,
        timing: Timing,
        security: ClientSecurity = PLAINTEXT_CLIENT,
        on_answer: OnAnswer | None = None,
    ) -> None:
        self.on_change: Callable[[], None] = _nothing
        self.topic = topic
        self.timing = timing
        self.rng = rng
        self._bootstrap = list(bootstrap)
        rng.shuffle(self._bootstrap)
        self._client_id = client_id
        self._security = security
        self._on_answer = on_answer
        self._brokers: dict[int, Address] = {}
        self._leaders = Leaders()
        self._peers: dict[Address, _Peer] = {}
        self._metadata_connections: dict[Address, BrokerConnection] = {}
        self._avoided: dict[Address, float] = {}
        self._asked = 0
        self._wanted = Signal()
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self._refreshing = self._loop.create_task(self._keep_fresh())

    @property
    def nodes(self) -> Sequence[int]:
        """The known brokers, ascending."""
        return sorted(self._brokers)

    @property
    def topic_id(self) -> UUID | None:
        """The topic's id; None while no broker has named it."""
        return self._leaders.topic_id

    @property
    def failure(self) -> BaseException | None:
        """The error that ended the metadata task; normally None."""
        task = self._refreshing
        return task.exception() if task.done() and not task.cancelled() else None

    def leader(self, partition: int) -> Leader | None:
        """Return the partition's leader; request metadata if there is none."""
        leader = self._leaders.get(partition)
        if leader is None:
            self.refresh()
        return leader

    def refresh(self) -> None:
        """Request metadata soon."""
        self._wanted.set()

    def hint(self, partition: int, answer: Any, row: Any) -> bool:
        """Use the leader that a partition's row in an answer names (KIP-951).

        Return whether the leader is new and its address is known.
        """
        leader_row = getattr(row, "current_leader", None)
        if leader_row is None or leader_row.leader_id < 0:
            return False
        self._learn_brokers(getattr(answer, "node_endpoints", ()))
        node = int(leader_row.leader_id)
        news = self._leaders.update(partition, Leader(node, int(leader_row.leader_epoch)))
        return news and node in self._brokers

    def connection(self, node: int) -> BrokerConnection | None:
        """Return a ready connection to a broker; if there is none, open one in the background."""
        address = self._brokers.get(node)
        if address is None:
            self.refresh()
            return None
        peer = self._peers.setdefault(address, _Peer())
        if peer.connection is not None and peer.connection.ready:
            return peer.connection
        if peer.opening is None and self._loop.time() >= peer.not_before_s and not self._closed:
            peer.opening = self._loop.create_task(self._open(address, peer))
        return None

    @property
    def buffered_bytes(self) -> int:
        """How many bytes to brokers the kernel has not accepted yet."""
        connections = (peer.connection for peer in self._peers.values())
        return sum(
            connection.buffered_bytes for connection in connections if connection is not None
        )

    async def _open(self, address: Address, peer: _Peer) -> None:
        timing = self.timing
        if peer.connection is not None:
            peer.connection.close()
            peer.connection = None
            self.refresh()  # a broker that closed the connection may lead no more
        try:
            peer.connection = await open_connection(
                address,
                client_id=self._client_id,
                timeout_s=timing.request_s,
                open_s=timing.open_s,
                security=self._security,
                on_answer=self._on_answer,
            )
            peer.failures = 0
        except ChannelError:
            peer.failures += 1
            pause_s = timing.reconnect.pause_s(peer.failures, self.rng)
            peer.not_before_s = self._loop.time() + pause_s
            self.refresh()
            self._loop.call_at(peer.not_before_s, self._changed)
        finally:
            peer.opening = None
        self._changed()

    def _changed(self) -> None:
        if not self._closed:
            self.on_change()

    # -- metadata

    async def _keep_fresh(self) -> None:
        failures = 0
        while not self._closed:
            begun_s = self._loop.time()
            answer = await self._ask()
            if answer is not None and self._learn(answer):
                self._changed()
            failures = 0 if answer is not None else failures + 1
            due_s = begun_s + self.timing.metadata_age_s if failures == 0 else begun_s
            await self._wanted.wait(due_s - self._loop.time())
            again_s = begun_s + self.timing.retry.pause_s(max(1, failures), self.rng)
            if (pause_s := again_s - self._loop.time()) > 0:
                await asyncio.sleep(pause_s)

    async def _ask(self) -> Any:
        """Return the next broker's answer; None if there is none."""
        address = self._next_address()
        connection = self._metadata_connections.get(address)
        try:
            if connection is None or not connection.ready:
                connection = self._metadata_connections[address] = await open_connection(
                    address,
                    client_id=self._client_id,
                    timeout_s=self.timing.metadata_s,
                    open_s=self.timing.open_s,
                    security=self._security,
                    on_answer=self._on_answer,
                )
            topics = ({"name": self.topic},)
            return await connection.start(
                "metadata", topics=topics, allow_auto_topic_creation=False
            )
        except ChannelError:
            self._avoided[address] = self._loop.time() + AVOIDED_S
            if (broken := self._metadata_connections.pop(address, None)) is not None:
                broken.close()
            return None

    def _next_address(self) -> Address:
        """Choose the next broker in turn; one that failed lately only if all of them did."""
        known = [self._brokers[node] for node in self.nodes] or self._bootstrap
        now_s = self._loop.time()
        for step in range(len(known)):
            address = known[(self._asked + step) % len(known)]
            if self._avoided.get(address, 0.0) <= now_s:
                self._asked += step + 1
                return address
        everything = [*known, *self._bootstrap]
        self._asked += 1
        return everything[self._asked % len(everything)]

    def _learn(self, answer: Any) -> bool:
        news = self._learn_brokers(answer.brokers)
        for topic in answer.topics:
            if topic.error_code is not ErrorCode.none:
                continue
            self._leaders.of_topic(getattr(topic, "topic_id", None))
            for part in topic.partitions:
                epoch = int(getattr(part, "leader_epoch", -1))
                leader = Leader(int(part.leader_id), epoch)
                news = self._leaders.update(int(part.partition_index), leader) or news
        return news

    def _learn_brokers(self, rows: Iterable[Any]) -> bool:
        found: Mapping[int, Address] = {int(b.node_id): (str(b.host), int(b.port)) for b in rows}
        news = any(self._brokers.get(node) != address for node, address in found.items())
        self._brokers |= found
        return news

    async def close(self) -> None:
        """End all tasks and connections."""
        self._closed = True
        opening = [peer.opening for peer in self._peers.values() if peer.opening is not None]
        tasks = [self._refreshing, *opening]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        connections = [
            peer.connection for peer in self._peers.values() if peer.connection is not None
        ]
        for connection in [*connections, *self._metadata_connections.values()]:
            connection.close()


def _nothing() -> None:
    """Do nothing."""
