"""A simulated cluster on which a schedule plays, with control of each single message.

The cluster has one topic, `t`, with one partition. At the end all cuts and delays are undone; then
the cluster must converge, and everything that was acknowledged must be readable.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kio.schema.errors import ErrorCode

from harness.admin import reassignments, topics
from harness.admin.client import AdminClient
from harness.simulation.invariants import Invariants
from harness.simulation.invariants.convergence import converge
from harness.simulation.invariants.log_copy import Copy
from harness.simulation.invariants.node_checker import NodeChecker
from harness.simulation.world.cluster import SimCluster
from harness.simulation.world.disk import SimDisk
from harness.simulation.world.guard import guard
from harness.simulation.world.host import Host
from harness.simulation.world.network.link import CutCounter
from harness.simulation.world.network.link_faults import SimLinks
from harness.simulation.world.world import World
from harness.systems.brokers import BROKER_PORT, CONTROLLER_PORT
from harness.systems.node_roles import Layout
from harness.zoo.schedules.load import Client, in_service
from nemesis.hosts import Cut
from nodes.ids import TopicPartition
from nodes.metadata.image import PartitionImage
from nodes.raft.roles import Role
from nodes.server.replicas.replica import Replica
from nodes.storage.memory import MemoryDisk
from nodes.wire.client import Channel

TOPIC = TopicPartition("t", 0)
POLL_S = 0.002
PATIENT = {
    "replica.lag.time.max.ms": 60_000,
    "controller.quorum.request.timeout.ms": 20_000,
    "replica.socket.timeout.ms": 20_000,
}
"""With these time-outs no node gives another one up because of what a schedule does to messages."""


class ExpectationFailed(AssertionError):
    """The cluster did not do what it must."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSchedule:
    """Plays `play` on a cluster of that layout; the mutant of the same name must fail."""

    play: Callable[["Stage"], Awaitable[None]]
    layout: Callable[[], Layout] = lambda: Layout.split(controllers=1, brokers=3)
    overrides: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    settles_s: float = 60.0
    """The time within which the cluster must converge in the end, with everything that was
    acknowledged; 0 for no such demand."""

    def run(self, seed: int) -> None:
        """Play it in the world of this seed. Raises what `Stage.run` raises."""
        Stage(self, seed).run()


class Stage:
    """See the module."""

    def __init__(self, schedule: MessageSchedule, seed: int) -> None:
        self.world = World(seed)
        self.cluster = SimCluster(self.world, schedule.layout(), overrides=schedule.overrides)
        self.invariants = Invariants(self.cluster)
        self.links = SimLinks(self.cluster.network)
        self.client = Client(self.cluster)
        self._schedule = schedule
        self._cuts: list[Cut] = []
        self._metadata_blocks: list[tuple[int, int, CutCounter]] = []

    def run(self) -> None:
        """Play the schedule. Raises InvariantBroken, ExpectationFailed, SimulationError."""
        with guard(self.world):
            try:
                self.cluster.start()
                self.world.run_until(self.cluster.run_client(self._main), 900)
            finally:
                self.cluster.close()

    async def _main(self) -> None:
        await self._schedule.play(self)
        if self._schedule.settles_s:
            await self.settle(self._schedule.settles_s)

    async def settle(self, within_s: float) -> None:
        """Undo everything, and wait until the cluster is as it must be in the end.

        Raises NotConverged, ExpectationFailed.
        """
        self.heal()
        for node, host in self.cluster.nodes.items():
            disk(host).repair()
            disk(host).unlimit()
            if not host.running:
                self.cluster.start(node)
        await converge(self.invariants, within_s)
        await self.client.send_until_acked(*TOPIC)
        await converge(self.invariants, within_s)
        self.client.leaders.clear()  # a follower would answer with less
        read = await self.client.read(*TOPIC)
        lost = sorted(set(self.client.acked.get(TOPIC, ())) - set(read))
        if lost:
            raise ExpectationFailed(f"acknowledged and lost: {lost}")

    # -- the state

    @property
    def brokers(self) -> tuple[int, ...]:
        """The brokers, in order."""
        return self.cluster.layout.brokers

    def host(self, node: int) -> Host:
        """Return the node's machine."""
        return self.cluster.nodes[node]

    def checker(self, node: int) -> NodeChecker:
        """Return the checker of the running node."""
        return self.invariants.node_checkers[node]

    def replica(self, node: int) -> Replica:
        """Return the running node's replica."""
        return self.checker(node).replica_checkers[TOPIC].replica

    @property
    def partition(self) -> PartitionImage:
        """The partition in the newest metadata."""
        found = self.invariants.images.newest.partition(*TOPIC)
        assert found is not None
        return found

    def copy(self, node: int) -> Copy:
        """Return the node's log of the partition."""
        return self.checker(node).replica_checkers[TOPIC].copy

    def metadata(self, node: int) -> Copy:
        """Return the node's metadata log."""
        return self.invariants.quorum_record.copy(node)

    def quorum_leader(self) -> int:
        """Return the leader of the newest quorum epoch, or 0 if it has none."""
        members = {
            node: checker.member
            for node, checker in self.invariants.node_checkers.items()
            if checker.member
        }
        newest = max(member.quorum.epoch for member in members.values())
        for node, member in members.items():
            if member.quorum.role is Role.LEADER and member.quorum.epoch == newest:
                return node
        return 0

    def voters_are_recorded(self, node: int) -> bool:
        """Whether the node knows the voters by their disks."""
        member = self.checker(node).member
        return member is not None and not member.quorum.voters.is_static

    async def until(self, what: str, look: Callable[[], bool], within_s: float = 60) -> None:
        """Let time pass until `look` returns true. Raises ExpectationFailed."""
        for _ in range(round(within_s / POLL_S)):
            if look():
                return
            await asyncio.sleep(POLL_S)
        raise ExpectationFailed(f"not within {within_s:g} s: {what}")

    # -- operations

    async def make_topic(self, replicas: Sequence[int], **configs: str) -> None:
        """Create the topic, with the first replica as the leader, and wait until all replicas are
        in sync.
        """
        async with AdminClient(list(self.cluster.brokers.values())) as admin:
            await in_service(admin, len(self.brokers))
            settings = {"min.insync.replicas": "2"}
            settings |= {name.replace("_", "."): value for name, value in configs.items()}
            await topics.create(admin, TOPIC.topic, assignment=[replicas], configs=settings)
        await self.until("every replica runs", lambda: self._all_follow(replicas))

    def _all_follow(self, replicas: Sequence[int]) -> bool:
        return all(
            node in self.invariants.node_checkers
            and TOPIC in self.checker(node).replica_checkers
            and self.replica(node).state.leader == replicas[0] == self.partition.leader
            for node in replicas
        ) and set(self.partition.isr) == set(replicas)

    async def send(self, acks: int = -1, to: int = 0, count: int = 1) -> None:
        """Send records to the leader, or to the node `to`. Raises ExpectationFailed."""
        for _ in range(count):
            self.client.leaders[TOPIC] = to or self.partition.leader
            if not await self.client.send(*TOPIC, acks):
                raise ExpectationFailed(
                    f"a record with acks {acks} to node {to or 'that leads'} was refused"
                )
            if acks == 1:  # acks=1 promises nothing
                self.client.acked[TOPIC].pop()

    async def try_to_send(self, acks: int) -> None:
        """Send a record to the leader; ignore the result."""
        self.client.leaders[TOPIC] = self.partition.leader
        if await self.client.send(*TOPIC, acks) and acks == 1:
            self.client.acked[TOPIC].pop()

    def send_soon(self) -> "asyncio.Task[bool]":
        """Start to send a record to the leader, without waiting for the result."""
        self.client.leaders[TOPIC] = self.partition.leader
        return asyncio.ensure_future(self.client.send(*TOPIC, -1))

    async def await_replication(self) -> None:
        """Wait until all replicas have everything, and everything is committed."""
        await self.until("all replicas have everything", self._equal)

    def _equal(self) -> bool:
        ends = {self.copy(node).end for node in self.partition.replicas}
        return {self.replica(self.partition.leader).state.high_watermark} == ends

    async def elect_preferred(self) -> None:
        """Make the first replica the leader."""
        async with AdminClient(list(self.cluster.brokers.values())) as admin:
            results = await reassignments.elect(admin, reassignments.PREFERRED, [TOPIC])
        assert all(code is ErrorCode.none for code, _ in results.values()), results
        first = self.partition.replicas[0]
        await self.until("the first leads", lambda: self.replica(first).state.leader == first)

    # -- messages

    def cut(self, *cuts: Cut) -> None:
        """Cut these links until `uncut` or `heal`."""
        self.links.block(*cuts)
        self._cuts += cuts

    def uncut(self, *cuts: Cut) -> None:
        """Undo these cuts."""
        self.links.unblock(*cuts)

    def heal_cuts(self) -> None:
        """Undo all cuts; `block_metadata` stays in force."""
        self.links.unblock(*self._cuts)
        self._cuts.clear()

    def heal(self) -> None:
        """Undo everything."""
        self.heal_cuts()
        for src, dst, watch in self._metadata_blocks:
            self.cluster.network.link(src, dst).cuts.remove(watch)
        self._metadata_blocks.clear()

    def block_metadata(self, node: int, controller: int) -> None:
        """Block the node's metadata fetches from the controller, but not its heartbeats."""
        raft = self.checker(node)._raft
        assert raft is not None
        channel = raft.peers.fetch_channel((self.host(controller).address, CONTROLLER_PORT))
        assert isinstance(channel, Channel)
        watch = CutCounter(_ConnectionCut(channel))  # type: ignore[arg-type] # as good as a Cut
        self.cluster.network.link(controller, node).cuts.append(watch)
        self._metadata_blocks.append((controller, node, watch))

    def wipe(self, node: int) -> None:
        """Empty the disk of a node that is down."""
        disk(self.host(node)).content = MemoryDisk()
        self.invariants.damaged(node, wiped=True)

    def remove_log(self, node: int) -> None:
        """Remove the files of the partition's log from a node that is down. The disk stays."""
        content = disk(self.host(node)).content
        for path, _ in list(content.files()):
            if path.startswith(f"{TOPIC}/"):
                content.unlink(path)
        self.invariants.damaged(node)

    def lose_power(self, node: int) -> None:
        """Cut the node's power; nothing unsynced survives."""
        disk(self.host(node)).content.crash()
        self.cluster.kill(node, "power")


class _ConnectionCut:
    """A cut of the current connection of one channel."""

    answers = False

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    @property
    def port(self) -> int:
        """The client's port of the connection."""
        connection = self._channel._connection
        if connection is None or connection.transport is None:
            return -1
        return int(connection.transport.get_extra_info("sockname")[1])


def fetch_answers(of: int, to: int) -> Cut:
    """Cut the answers of broker `of` to fetches of broker `to`."""
    return Cut(of, to, BROKER_PORT, answers=True)


def both_ways(one: int, other: int) -> tuple[Cut, Cut]:
    """Cut everything between two machines."""
    return Cut(one, other), Cut(other, one)


def disk(host: Host) -> SimDisk:
    """Return the machine's disk."""
    assert host.disk is not None
    return host.disk
