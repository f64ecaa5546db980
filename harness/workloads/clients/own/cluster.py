"""One client's view of a cluster: who leads the partitions of a topic, and links to the brokers.

Metadata is asked for by a task of its own, on connections of its own, so that an answer that takes
long does not hold it up: when it is old, and soon when somebody calls `refresh`. Every time another
broker is asked, for one that is cut off knows nothing new; one that failed is left alone a while.
Links open in the background; `on_change` is called whenever something is there that was not.

Nothing is asked again here but metadata.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kio.schema.errors import ErrorCode

from harness.workloads.clients.own.connection import Address, Link, opened
from harness.workloads.clients.own.leaders import Leader, Leaders
from harness.workloads.clients.own.waiting import Backoff, Signal
from nodes.wire.errors import ChannelError
from nodes.wire.security import PLAINTEXT_CLIENT, ClientSecurity

SHUNNED_S: Final = 2.0
"""How long a broker that did not answer is not asked for metadata, if there is another."""
RETRY: Final = Backoff(first_s=0.05, last_s=0.25)
RECONNECT: Final = Backoff(first_s=0.05, last_s=0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How patient a client is; the defaults suit a cluster under faults."""

    request_s: float = 3.0
    """After this a request without an answer is given up, and its connection with it."""
    open_s: float = 1.0
    """To connect and agree on versions."""
    metadata_s: float = 1.0
    """For one answer to a question for metadata."""
    metadata_age_s: float = 5.0
    """Metadata as old as this is asked for again, also when nothing speaks against it."""
    retry: Backoff = RETRY
    reconnect: Backoff = RECONNECT


@dataclass(slots=True)
class _Peer:
    """A broker's address: the link, or the attempt to open one."""

    link: Link | None = None
    opening: "asyncio.Task[None] | None" = None
    failures: int = 0
    not_before_s: float = 0.0


class Cluster:
    """See the module. Made inside a running loop; `close` it."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        topic: str,
        *,
        client_id: str,
        rng: random.Random,
        timing: Timing,
        security: ClientSecurity = PLAINTEXT_CLIENT,
    ) -> None:
        self.on_change: Callable[[], None] = _nothing
        self.topic = topic
        self.timing = timing
        self.rng = rng
        self._bootstrap = list(bootstrap)
        rng.shuffle(self._bootstrap)
        self._client_id = client_id
        self._security = security
        self._brokers: dict[int, Address] = {}
        self._leaders = Leaders()
        self._peers: dict[Address, _Peer] = {}
        self._tellers: dict[Address, Link] = {}
        self._shunned: dict[Address, float] = {}
        self._asked = 0
        self._wanted = Signal()
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self._refreshing = self._loop.create_task(self._keep_fresh())

    @property
    def nodes(self) -> Sequence[int]:
        """The brokers that are known, in the order of their numbers."""
        return sorted(self._brokers)

    @property
    def failure(self) -> BaseException | None:
        """What ended the refreshing of metadata, which nothing should."""
        task = self._refreshing
        return task.exception() if task.done() and not task.cancelled() else None

    def leader(self, partition: int) -> Leader | None:
        """Who leads the partition; without one, metadata is asked for."""
        leader = self._leaders.get(partition)
        if leader is None:
            self.refresh()
        return leader

    def refresh(self) -> None:
        """Ask for metadata soon."""
        self._wanted.set()

    def hint(self, partition: int, answer: Any, row: Any) -> bool:
        """Take what a partition's row in an answer says of its leader (KIP-951); whether it is
        news, and leads somewhere."""
        told = getattr(row, "current_leader", None)
        if told is None or told.leader_id < 0:
            return False
        self._learn_brokers(getattr(answer, "node_endpoints", ()))
        node = int(told.leader_id)
        news = self._leaders.heard(partition, Leader(node, int(told.leader_epoch)))
        return news and node in self._brokers

    def link(self, node: int) -> Link | None:
        """A link to a broker that is ready; without one it is opened in the background."""
        address = self._brokers.get(node)
        if address is None:
            self.refresh()
            return None
        peer = self._peers.setdefault(address, _Peer())
        if peer.link is not None and peer.link.ready:
            return peer.link
        if peer.opening is None and self._loop.time() >= peer.not_before_s and not self._closed:
            peer.opening = self._loop.create_task(self._open(address, peer))
        return None

    @property
    def buffered_bytes(self) -> int:
        """What was sent to any broker and the kernel has not taken yet."""
        links = (peer.link for peer in self._peers.values())
        return sum(link.buffered_bytes for link in links if link is not None)

    async def _open(self, address: Address, peer: _Peer) -> None:
        timing = self.timing
        if peer.link is not None:
            peer.link.close()
            peer.link = None
            self.refresh()  # who hung up may lead no more
        try:
            peer.link = await opened(
                address,
                client_id=self._client_id,
                timeout_s=timing.request_s,
                open_s=timing.open_s,
                security=self._security,
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
        """The next broker's answer; None when there is none."""
        address = self._next_address()
        teller = self._tellers.get(address)
        try:
            if teller is None or not teller.ready:
                teller = self._tellers[address] = await opened(
                    address,
                    client_id=self._client_id,
                    timeout_s=self.timing.metadata_s,
                    open_s=self.timing.open_s,
                    security=self._security,
                )
            topics = ({"name": self.topic},)
            return await teller.start("metadata", topics=topics, allow_auto_topic_creation=False)
        except ChannelError:
            self._shunned[address] = self._loop.time() + SHUNNED_S
            if (broken := self._tellers.pop(address, None)) is not None:
                broken.close()
            return None

    def _next_address(self) -> Address:
        """Round robin; what failed lately only if everything did."""
        known = [self._brokers[node] for node in self.nodes] or self._bootstrap
        now_s = self._loop.time()
        for step in range(len(known)):
            address = known[(self._asked + step) % len(known)]
            if self._shunned.get(address, 0.0) <= now_s:
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
                news = self._leaders.heard(int(part.partition_index), leader) or news
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
        links = [peer.link for peer in self._peers.values() if peer.link is not None]
        for link in [*links, *self._tellers.values()]:
            link.close()


def _nothing() -> None:
    """Nobody waits for changes yet."""
