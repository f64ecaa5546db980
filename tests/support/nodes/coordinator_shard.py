"""A shard over a real log on a disk in memory; the test moves its leadership and its followers."""

from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from nodes.coordinators.groups.composition import Groups
from nodes.coordinators.groups.offset_requests import OffsetFetch, TopicFetch
from nodes.coordinators.groups.settings import GroupSettings
from nodes.ids import BrokerEpoch, Epoch, NodeId, Offset, TopicPartition
from nodes.log.config import LogConfig
from nodes.log.log import Log
from nodes.replication.partition import PartitionRegistration, PartitionState
from nodes.server.coordinators.shard import Access, Shard
from nodes.server.replicas.replica import Replica
from nodes.storage.memory import MemoryDisk
from tests.support.nodes import virtual_time
from tests.support.nodes.group_offsets import SETTINGS, commit_of

COMMIT_TIMEOUT_MS = 5_000
LEADER, FOLLOWER = NodeId(1), NodeId(2)
WALL_MS = 1_700_000_000_000


@dataclass
class LedPartition:
    """Partition 0 of `__consumer_offsets` on node 1, whose follower is node 2."""

    config: LogConfig = field(default_factory=LogConfig)
    settings: GroupSettings = SETTINGS

    def __post_init__(self) -> None:
        log = Log.open(MemoryDisk(), "offsets", self.config, clean=True)
        self.replica = Replica(
            TopicPartition("__consumer_offsets", 0),
            UUID(int=1),
            log,
            PartitionState(LEADER, Offset(0), min_isr=2),
        )
        self._versions = 0
        self.made = 0
        self.lead(1)

    def lead(self, epoch: int, *, leader: NodeId = LEADER, isr: tuple[NodeId, ...] = ()) -> None:
        """The controller made `leader` lead in this epoch; the ISR is everybody by default."""
        self._versions += 1
        assignment = PartitionRegistration(
            replicas=(LEADER, FOLLOWER),
            isr=isr or (LEADER, FOLLOWER),
            leader=leader,
            leader_epoch=Epoch(epoch),
            partition_epoch=self._versions,
        )
        self.replica.apply(assignment, 2, 0.0)

    def replicate(self) -> None:
        """The follower fetched everything: the high watermark reaches the end."""
        end = self.replica.log.end_offset
        self.replica.record_fetch(FOLLOWER, end, BrokerEpoch(1), 0.0)

    def shard(self) -> Shard[Groups]:
        """A shard in the present leader epoch."""
        return Shard(self.replica, self._make, lambda: WALL_MS, commit_timeout_ms=COMMIT_TIMEOUT_MS)

    def _make(self) -> Groups:
        self.made += 1
        return Groups(self.settings)


def commit(shard: Shard[Groups], offset: int, group: str = "g", **more: Any) -> Any:
    """The future answer of a commit for partition 0 of the topic t."""
    request = commit_of(group, {("t", 0): offset}, **more)
    return shard.perform(lambda m, t, now: m.commit_offsets(request, t, now), Access.WRITE)


def fetch(shard: Shard[Groups], group: str = "g") -> Any:
    """The future answer of a fetch for partition 0 of the topic t."""
    request = OffsetFetch(group, (TopicFetch("t", (0,)),))
    return shard.perform(lambda m, t, now: m.fetch_offsets(request, t, now), Access.READ)


def fetched(answer: Any) -> int:
    """The offset in the answer of `fetch`."""
    return int(answer.result()["topics"][0]["partitions"][0]["committed_offset"])


def run(test: Coroutine[Any, Any, None]) -> None:
    """Run a test in virtual time."""
    virtual_time.run(test)
