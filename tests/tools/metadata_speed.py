"""How long the metadata log takes, on real disks: `python -m tests.tools.metadata_speed`.

Three combined members in one process (so three times the work on one processor), joined by the
codecs in memory: a batch of changes of 5,000 partitions from the append to the last image that has
it; a snapshot of 10,000 partitions; and a start from it.
"""

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from pathlib import Path
from uuid import UUID

from nodes.ids import Epoch, NodeId
from nodes.log.log import LogConfig
from nodes.metadata.records import (
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
    encode,
)
from nodes.raft.timing import QuorumTiming
from nodes.raft.voters import VoterEndpoint
from nodes.server.quorum.metadata_log import MetadataLog
from nodes.server.quorum.metadata_publisher import MetadataPublisher
from nodes.server.quorum.quorum_node import DIRECTORY, MemberConfig, QuorumNode, configured_voters
from nodes.server.quorum.snapshot_writer import SnapshotLimits
from nodes.storage.local import LocalDisk
from tests.support.nodes.quorum_cluster import Cluster, Peer

TOPICS = 100
LARGE = LogConfig(max_message_bytes=8 << 20)


class Speed(Cluster):
    """The cluster of the tests, on files, keeping images."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self.publishers: dict[NodeId, MetadataPublisher] = {}

    async def _start(self, number: NodeId) -> None:
        place = self.root / str(number)
        place.mkdir(exist_ok=True)
        disk = LocalDisk(place)
        config = MemberConfig(
            node_id=number,
            directory_id=self.directories[number],
            cluster_id=self.cluster_id,
            voters=self.voters,
            bootstrap=(),
            endpoints=(VoterEndpoint("CONTROLLER", "node", number),),
            timing=QuorumTiming(),
        )
        log, snapshot = MetadataLog.open(
            disk, DIRECTORY, LARGE, clean=True, voters=configured_voters(config)
        )
        node = QuorumNode(
            config,
            log=log,
            snapshot=snapshot,
            disk=disk,
            rng=random.Random(number),
            wall_clock=lambda: round(time.time() * 1000),
            connect=lambda host, port: Peer(self, number, NodeId(port)),
        )
        self.publishers[number] = publisher = MetadataPublisher()
        node.listeners.append(publisher)
        node.snapshot_from(publisher, SnapshotLimits())
        self.running[number] = node
        await node.start()

    async def apply(self, records: list[MetadataRecord]) -> float:
        """Seconds from the append of one batch to its being applied everywhere."""
        leader = await self.elected()
        began = time.perf_counter()
        offset = leader.append([encode(record) for record in records])
        publishers = self.publishers.values()
        await self.until(lambda: all(p.image.offset >= offset for p in publishers))
        return time.perf_counter() - began


def topic(number: int, partitions: int) -> list[MetadataRecord]:
    """One topic, with three replicas for each partition."""
    topic_id, nodes = UUID(int=number + 1), tuple(NodeId(n) for n in (1, 2, 3))
    return [
        TopicRecord(name=f"topic-{number}", topic_id=topic_id),
        *(
            PartitionRecord(
                partition_id=partition,
                topic_id=topic_id,
                replicas=nodes,
                isr=nodes,
                leader=nodes[0],
                leader_epoch=Epoch(0),
                partition_epoch=0,
                directories=(None, None, None),
            )
            for partition in range(partitions)
        ),
    ]


async def measure(root: Path, partitions: int, rounds: int) -> None:
    """Print the figures."""
    cluster = Speed(root)
    await cluster.start(1, 2, 3)
    await cluster.elected()
    each = partitions // TOPICS
    for number in range(TOPICS):
        await cluster.apply(topic(number, each))
    changes: list[MetadataRecord] = [
        PartitionChangeRecord(partition_id=p, topic_id=UUID(int=t + 1), leader=NodeId(2))
        for t in range(TOPICS // 2)
        for p in range(each)
    ]
    used = time.process_time()
    times = [await cluster.apply(changes) for _ in range(rounds)]
    used = (time.process_time() - used) / rounds
    one = [await cluster.apply(changes[:1]) for _ in range(20)]
    print(
        f"{len(changes):,} changes, applied on all: {statistics.median(times) * 1e3:.0f} ms, "
        f"of which {used * 1e3:.0f} ms of processor time for all three"
    )
    print(f"1 change, applied on all: {statistics.median(one) * 1e3:.1f} ms")
    longest = await snapshot(cluster)
    print(
        f"a snapshot of {partitions:,} partitions: the loop was held {longest * 1e3:.0f} ms at most"
    )
    await cluster.stop()
    cluster.running.clear()
    began = time.perf_counter()
    await cluster.start(1)
    print(f"start of one node: {(time.perf_counter() - began) * 1e3:.0f} ms")
    assert cluster.publishers[NodeId(1)].image.topics
    await cluster.stop()


async def snapshot(cluster: Speed) -> float:
    """Have everybody write a snapshot; the longest time that the event loop was held."""
    for node in cluster.running.values():
        node.take_snapshot()
    longest, last = 0.0, time.perf_counter()
    while any(node.log.snapshot is None for node in cluster.running.values()):
        await asyncio.sleep(0)
        longest, last = max(longest, time.perf_counter() - last), time.perf_counter()
    return longest


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        asyncio.run(measure(Path(root), arguments.partitions, arguments.rounds))


if __name__ == "__main__":
    main()
