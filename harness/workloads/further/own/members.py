"""Members of a consumer group with our own client: one takes the place of the other until the stop.

What a member does with its records is left to its owner (`groups`, `copies`).
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from harness.plans.workloads import CopyWorkload, GroupWorkload
from harness.workloads.client_histories import FurtherHistories
from harness.workloads.clients.counts import Tally
from harness.workloads.clients.own.classic_member import ClassicMember
from harness.workloads.clients.own.cluster import Cluster
from harness.workloads.clients.own.consumer_member import ConsumerMember
from harness.workloads.clients.own.group_member import GroupSettings, Member
from harness.workloads.clients.own.subscribed import Subscribed
from harness.workloads.environment import ClientEnvironment
from harness.workloads.further.rules import member_life_s
from harness.workloads.further_config import FurtherConfig
from nodes.ids import TopicPartition

HEARTBEATS: Final = 6
"""How many heartbeats a member sends in the time after which it is removed."""
LOOK_S: Final = 0.1

BeforeRevocation = Callable[[Collection[TopicPartition]], Awaitable[None]]


@dataclass(slots=True, kw_only=True)
class Members:
    """The members of one group, of which each reads the topics of `wanted`."""

    config: FurtherConfig
    wanted: GroupWorkload | CopyWorkload
    histories: FurtherHistories
    world: ClientEnvironment
    stop: asyncio.Event

    def connect(self, topic: str, client: int) -> Cluster:
        """Return a client's own view of the cluster and of a topic."""
        return self.world.connect(self.config.bootstrap, topic, client)

    async def subscribe(
        self, client: int, index: int, tally: Tally, before_revocation: BeforeRevocation
    ) -> Subscribed | None:
        """Make the member number `index`; None if the stop comes first."""
        wanted = self.wanted
        clusters = {topic: self.connect(topic, client) for topic in wanted.read_topics}
        member = await self._member(clusters, index)
        if member is None:
            for cluster in clusters.values():
                await cluster.close()
            return None
        reads = self.histories.member_reads(client, wanted.read_topics, tally, wanted.group)
        return Subscribed(
            member,
            clusters,
            replace(self.world.consumer, read_committed=reads.read_committed),
            reads,
            self.histories.membership(client, wanted.group, tally),
            heartbeat_s=wanted.session_timeout_ms / 1000 / HEARTBEATS,
            before_revocation=before_revocation,
        )

    async def _member(self, clusters: Mapping[str, Cluster], index: int) -> Member | None:
        """Make a member, which finds the coordinator by the first topic's view of the cluster."""
        wanted = self.wanted
        cluster = clusters[wanted.read_topics[0]]
        settings = GroupSettings(
            group=wanted.group,
            partitions={topic: self.config.partitions[topic] for topic in clusters},
            session_s=wanted.session_timeout_ms / 1000,
            rebalance_s=wanted.session_timeout_ms / 1000,
            instance_id=f"{wanted.group}-{index}" if wanted.static else None,
        )
        if wanted.protocol == "classic":
            return ClassicMember(cluster, settings)
        while not self.stop.is_set():
            ids = {each.topic_id: topic for topic, each in clusters.items() if each.topic_id}
            if len(ids) == len(clusters):
                return ConsumerMember(cluster, settings, ids)
            await asyncio.sleep(LOOK_S)
        return None

    def end_s(self, client: int, rng: random.Random) -> float:
        """Return when a member that begins now ends, in the loop's time. The last clients that have
        a number stay."""
        replaceable = self.histories.is_replaceable(client)
        life_s = member_life_s(self.wanted.member_life_s, rng, replaceable=replaceable)
        return asyncio.get_running_loop().time() + life_s

    def goes_on(self, subscribed: Subscribed, end_s: float) -> bool:
        """Return whether a member takes part any longer."""
        now_s = asyncio.get_running_loop().time()
        return not (self.stop.is_set() or subscribed.over or now_s >= end_s)
