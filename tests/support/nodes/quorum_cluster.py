"""QuorumNodes on memory disks, joined by an in-memory network that carries real frames."""

import asyncio
import inspect
import random
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from nodes.ids import Epoch, NodeId, Offset
from nodes.log.log import LogConfig
from nodes.raft.snapshot import Snapshot
from nodes.raft.timing import QuorumTiming
from nodes.raft.voters import VoterEndpoint
from nodes.server.quorum.delivery import CommittedBatch
from nodes.server.quorum.metadata_log import MetadataLog
from nodes.server.quorum.quorum_node import DIRECTORY, MemberConfig, QuorumNode, configured_voters
from nodes.server.quorum.snapshot_writer import SnapshotContent, SnapshotLimits
from nodes.storage.memory import MemoryDisk
from nodes.wire.codec import decode_request, decode_response, encode_request, encode_response
from nodes.wire.errors import ConnectFailed, Disconnected, RequestTimedOut
from nodes.wire.server import RequestContext

TIMING = QuorumTiming(fetch_timeout_ms=600, election_timeout_ms=300, election_backoff_max_ms=300)
LATENCY_S = 0.002
TIMEOUT_S = 0.8
CONTEXT = RequestContext(listener="CONTROLLER", peer_host="test", client_id=None)


class SlowDisk(MemoryDisk):
    """A memory disk whose background syncs can be delayed."""

    def __init__(self) -> None:
        super().__init__()
        self.running = asyncio.Event()
        self.running.set()

    async def sync(self, target: Any) -> None:
        await self.running.wait()
        await super().sync(target)


class Recorder:
    """A listener that keeps everything that is delivered."""

    def __init__(self) -> None:
        self.batches: list[CommittedBatch] = []
        self.active: list[tuple[str, Epoch]] = []
        self.restored: list[Snapshot] = []
        self.next_offset = Offset(0)
        self.records: list[bytes] = []

    def snapshot_content(self) -> SnapshotContent:
        records = list(self.records)
        return SnapshotContent(Offset(self.next_offset - 1), self.batches[-1].epoch, iter(records))

    def on_snapshot(self, snapshot: Snapshot) -> None:
        assert snapshot.snapshot_id.offset > self.next_offset, "nothing is told twice"
        self.restored.append(snapshot)
        self.records = list(snapshot.records)
        self.next_offset = snapshot.snapshot_id.offset

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        for batch in batches:
            assert batch.base_offset == self.next_offset, "a gap between deliveries"
            self.next_offset = Offset(batch.last_offset + 1)
            self.batches.append(batch)
            self.records += batch.records

    def on_active(self, epoch: Epoch) -> None:
        self.active.append(("active", epoch))

    def on_inactive(self, epoch: Epoch) -> None:
        self.active.append(("inactive", epoch))


class Peer:
    """A channel to one node of the cluster, through the codecs."""

    def __init__(self, cluster: "Cluster", source: NodeId, target: NodeId) -> None:
        self._cluster = cluster
        self._source = source
        self._target = target
        self.closed = False

    async def request(self, entity: Any, *, timeout_s: float | None = None) -> Any:
        frame = encode_request(entity, 1, "test")[4:]
        await asyncio.sleep(LATENCY_S)
        node = self._cluster.running.get(self._target)
        if node is None or self.closed:
            raise ConnectFailed("not running")
        if self._cluster.is_cut(self._source, self._target):
            await asyncio.sleep(TIMEOUT_S)
            raise RequestTimedOut("cut off")
        request = decode_request(frame)
        handler = node.apis()[request.head.api_key].handler
        try:
            answer = handler(request.entity, CONTEXT)
            if inspect.isawaitable(answer):
                answer = await answer
        except Exception as error:  # as the server does: one log line, and the connection closes
            raise Disconnected(repr(error)) from error
        response = encode_response(answer, 1)[4:]
        await asyncio.sleep(LATENCY_S)
        if self._cluster.running.get(self._target) is not node:
            raise Disconnected("died")
        if self._cluster.is_cut(self._target, self._source):
            await asyncio.sleep(TIMEOUT_S)
            raise RequestTimedOut("cut off")
        return decode_response(response, request.head.api_key, request.head.api_version)

    def close(self) -> None:
        self.closed = True


class Cluster:
    """Three voters, from node `first` on, and an observer."""

    def __init__(
        self,
        seed: int = 1,
        *,
        cluster_id: str = "c",
        limits: SnapshotLimits | None = None,
        first: int = 1,
    ) -> None:
        self.limits = limits
        self.hosts: dict[NodeId, str] = {}
        nodes = [NodeId(first + n) for n in range(4)]
        self.directories = {n: UUID(int=n - first + 1) for n in nodes}
        self.rng = random.Random(seed)
        self.cluster_id = cluster_id
        self.voters = {n: ("node", int(n)) for n in nodes[:3]}
        self.disks = {n: SlowDisk() for n in nodes}
        self.running: dict[NodeId, QuorumNode] = {}
        self.recorders: dict[NodeId, Recorder] = {}
        self._cut: list[tuple[NodeId, NodeId]] = []

    def is_cut(self, source: NodeId, target: NodeId) -> bool:
        return (source, target) in self._cut

    def isolate(self, node: NodeId, *others: NodeId) -> None:
        """Cut the links between it and others in both directions; all others if none are named."""
        for other in others or tuple(self.disks):
            self._cut += [(node, other), (other, node)]

    def heal(self) -> None:
        self._cut.clear()

    async def start(self, *nodes: int) -> None:
        for number in nodes:
            await self._start(NodeId(number))

    async def _start(self, number: NodeId) -> None:
        disk = self.disks[number]
        config = MemberConfig(
            node_id=number,
            directory_id=self.directories[number],
            cluster_id=self.cluster_id,
            voters=self.voters,
            bootstrap=(),
            endpoints=(VoterEndpoint("CONTROLLER", self.hosts.get(number, "node"), number),),
            timing=TIMING,
        )
        log, snapshot = MetadataLog.open(
            disk, DIRECTORY, LogConfig(), clean=False, voters=configured_voters(config)
        )
        node = QuorumNode(
            config,
            log=log,
            snapshot=snapshot,
            disk=disk,
            rng=random.Random(self.rng.random()),
            wall_clock=lambda: 1_700_000_000_000,
            connect=lambda host, port: Peer(self, number, NodeId(port)),
        )
        self.recorders[number] = recorder = Recorder()
        node.listeners.append(recorder)
        if self.limits is not None:
            node.snapshot_from(recorder, self.limits)
        self.running[number] = node
        await node.start()

    def kill(self, number: NodeId, *, power_loss: bool = False) -> None:
        """Kill the process; with `power_loss`, what the disk had not synced is lost too."""
        node = self.running.pop(number)
        node.halted = RuntimeError("killed")
        node._cancel_all()
        if power_loss:
            self.disks[number].crash()

    async def stop(self) -> None:
        for number in sorted(self.running):
            await self.running[number].stop()

    def leader(self) -> QuorumNode | None:
        active = [node for node in self.running.values() if node.is_active]
        return max(active, key=lambda node: node.epoch, default=None)

    async def elected(self, *, other_than: NodeId | None = None) -> QuorumNode:
        """The active leader, once there is one."""

        def found() -> bool:
            leader = self.leader()
            return leader is not None and leader.node_id != other_than

        await self.until(found)
        leader = self.leader()
        assert leader is not None
        return leader

    async def until(self, condition: Callable[[], bool], *, within_s: float = 20.0) -> None:
        """Let virtual time pass until the condition holds."""
        loop = asyncio.get_running_loop()
        end = loop.time() + within_s
        while not condition():
            assert loop.time() < end, "it did not come about"
            await asyncio.sleep(0.005)

    async def agree(self, records: list[bytes]) -> None:
        """Wait until every running node has delivered just these records."""
        await self.until(lambda: all(self.recorders[n].records == records for n in self.running))
