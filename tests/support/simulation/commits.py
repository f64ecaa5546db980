"""A group's commits in a simulated cluster, while its coordinators die, stop and are cut off.

Each client commits rising offsets for its own group. A commit is acknowledged, or it may have
happened, or it surely did not. In the end every group's offset is read from its coordinator.
"""

import asyncio
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from harness.simulation.world.cluster import SimCluster
from harness.simulation.world.guard import guard
from harness.simulation.world.network.link_faults import SimLinks
from harness.simulation.world.world import World
from harness.systems.node_roles import Layout
from harness.zoo.schedules.load import make_topics
from nemesis.hosts import Cut
from nodes.coordinators.groups.coordinator import GroupCoordinator
from nodes.server.apis import FIND_COORDINATOR, OFFSET_COMMIT, OFFSET_FETCH
from nodes.server.coordinators.loading import load
from nodes.server.coordinators.shard import State
from nodes.server.node import Node
from nodes.wire.client import Channel
from nodes.wire.errors import ChannelError
from nodes.wire.versions import fill

GROUPS = ("a", "b", "c", "d")
OVERRIDES: dict[str, str | int | float | bool] = {
    "min.insync.replicas": 2,
    "offsets.topic.num.partitions": 3,
}
REQUEST_TIMEOUT_S = 8.0
BACKOFF_S = 0.1
FAULTS = 5


@dataclass
class GroupHistory:
    """What one group was told."""

    acknowledged: int = -1
    attempts: list[int] = field(default_factory=list)
    """Offsets that may have been committed since the last acknowledgement."""
    acknowledgements: int = 0
    final: int = -2
    """The committed offset in the end."""

    @property
    def allowed(self) -> set[int]:
        """What the committed offset may be now."""
        return {self.acknowledged, *self.attempts}


@dataclass
class Outcome:
    """A run's result."""

    groups: dict[str, GroupHistory]
    coordinators: int
    """How many brokers acknowledged commits."""
    replayed: int
    """Shards whose live offsets are what a new machine reads from the log."""
    digest: str


class Client:
    """Requests to the brokers, with the coordinator of each group as far as it is known."""

    def __init__(self, cluster: SimCluster) -> None:
        self._addresses = cluster.brokers
        self._channels: dict[int, Channel] = {}
        self.coordinators: dict[str, int] = {}

    async def ask(self, node: int, api_key: int, version: int, **values: Any) -> Any:
        if node not in self._channels:
            host, port = self._addresses[node]
            self._channels[node] = Channel(
                host, port, client_id="c", request_timeout_s=REQUEST_TIMEOUT_S
            )
        return await self._channels[node].request(
            fill(load_request_schema(api_key, version), **values)
        )

    async def coordinator_of(self, group: str, rng: random.Random) -> int:
        """The coordinator of a group; asks one broker after the other until one knows."""
        while group not in self.coordinators:
            node = rng.choice(sorted(self._addresses))
            try:
                answer = await self.ask(node, FIND_COORDINATOR, 3, key=group, key_type=0)
            except ChannelError:
                continue
            if answer.error_code is ErrorCode.none:
                self.coordinators[group] = answer.node_id
            else:
                await asyncio.sleep(BACKOFF_S)
        return self.coordinators[group]


class Commits:
    """One run in a world of its own."""

    def __init__(self, seed: int) -> None:
        self._world = World(seed)
        self._rng = random.Random(f"commits-{seed}")
        self._cluster = SimCluster(self._world, Layout.combined([1, 2, 3]), overrides=OVERRIDES)
        self._links = SimLinks(self._cluster.network)
        self._nodes: dict[int, Node] = {}
        self._cluster.on_node = self._nodes.__setitem__
        self._client = Client(self._cluster)
        self._groups = {group: GroupHistory() for group in GROUPS}
        self._acknowledging: set[int] = set()
        self._over = False

    def run(self) -> Outcome:
        """Load the cluster under faults, heal it, and read."""
        with guard(self._world):
            self._cluster.start()
            replayed = self._world.run_until(self._cluster.run_client(self._main), 600)
            self._cluster.close()
        return Outcome(self._groups, len(self._acknowledging), replayed, self._world.trace.digest())

    async def _main(self) -> int:
        await make_topics(self._cluster, {"t": 1})
        committing = [asyncio.ensure_future(self._commit_on(group)) for group in GROUPS]
        for _ in range(FAULTS):
            await asyncio.sleep(self._rng.uniform(0.5, 2.0))
            await self._break_a_coordinator()
        self._over = True
        await asyncio.gather(*committing)
        for group, history in self._groups.items():
            history.final = await self._fetch(group)
        return await self._replay_all()

    # -- the load

    async def _commit_on(self, group: str) -> None:
        history, offset = self._groups[group], 0
        while not self._over or history.attempts:
            await asyncio.sleep(self._rng.uniform(0.0, 0.1))
            node = await self._client.coordinator_of(group, self._rng)
            offset += 1
            history.attempts.append(offset)
            row = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
            try:
                answer = await self._client.ask(
                    node,
                    OFFSET_COMMIT,
                    9,
                    group_id=group,
                    generation_id_or_member_epoch=-1,
                    topics=[{"name": "t", "partitions": [row]}],
                )
                error = answer.topics[0].partitions[0].error_code
            except ChannelError:
                error = ErrorCode.network_exception
            if error is ErrorCode.none:
                history.acknowledged, history.attempts = offset, []
                history.acknowledgements += 1
                self._acknowledging.add(node)
            else:
                self._client.coordinators.pop(group, None)
                await asyncio.sleep(BACKOFF_S)

    async def _fetch(self, group: str) -> int:
        while True:
            node = await self._client.coordinator_of(group, self._rng)
            try:
                answer = await self._client.ask(
                    node, OFFSET_FETCH, 9, groups=[{"group_id": group, "topics": None}]
                )
            except ChannelError:
                answer = None
            if answer is not None and answer.groups[0].error_code is ErrorCode.none:
                topics = answer.groups[0].topics
                return int(topics[0].partitions[0].committed_offset) if topics else -1
            self._client.coordinators.pop(group, None)
            await asyncio.sleep(BACKOFF_S)

    # -- the faults

    async def _break_a_coordinator(self) -> None:
        known = sorted(set(self._client.coordinators.values())) or sorted(self._nodes)
        victim = self._rng.choice(known)
        down_s = self._rng.uniform(0.5, 6.0)
        match self._rng.randrange(3):
            case 0:
                self._cluster.kill(victim, "process")
                await asyncio.sleep(down_s)
                self._cluster.start(victim)
            case 1:
                self._cluster.nodes[victim].pause()
                await asyncio.sleep(down_s)
                self._cluster.nodes[victim].resume()
            case _:
                cuts = [*self._cuts(victim)]
                self._links.block(*cuts)
                await asyncio.sleep(down_s)
                self._links.unblock(*cuts)

    def _cuts(self, victim: int) -> Iterable[Cut]:
        for other in self._cluster.nodes:
            if other != victim:
                yield Cut(victim, other)
                yield Cut(other, victim)

    # -- the end

    async def _replay_all(self) -> int:
        """Compare every live coordinator with what its log says; return their number."""
        compared = 0
        for node in self._nodes.values():
            assert node.broker is not None
            for shard in node.broker.groups.all():
                if shard.state is State.ACTIVE:
                    rebuilt = node.broker.groups.make()
                    await load(rebuilt, shard.replica.log)
                    live: GroupCoordinator = shard.machine
                    assert rebuilt.offsets == live.offsets, shard.replica.partition
                    compared += 1
        return compared
