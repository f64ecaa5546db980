"""Schedules for the control plane with ZooKeeper, and the stage on which they play.

The three brokers have one topic, `t`, with one partition. A schedule controls single messages, each
broker's connection to ZooKeeper, and when notices come. At the end everything is undone; then all
replicas must be in sync, and everything that was acknowledged must be readable.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from harness.admin import reassignments, topics
from harness.admin.client import AdminClient
from harness.simulation.world.cluster import SimCluster
from harness.simulation.world.guard import guard
from harness.simulation.world.network.link_faults import SimLinks
from harness.simulation.world.world import World
from harness.simulation.world.zookeeper import SimEnsemble
from harness.systems.node_roles import Layout
from harness.zoo.schedules.load import Client, in_service
from harness.zoo.schedules.stage import TOPIC, ExpectationFailed, both_ways
from nemesis.hosts import Cut, LinkQuality
from nodes.ids import NodeId, TopicPartition
from nodes.metadata.image import ClusterImage
from nodes.server.node import Node
from nodes.zookeeper import paths, znodes

BROKERS: Final = (1, 2, 3)
POLL_S: Final = 0.02
SETTLES_S: Final = 30.0
Overrides = Mapping[str, str | int | float | bool]
QUICK: Final[Overrides] = {
    "zookeeper.session.timeout.ms": 1000,
    "replica.lag.time.max.ms": 1000,
    "controlled.shutdown.max.wait.ms": 2000,
}


class OldPlaneStage:
    """See the module. `tree` is what ZooKeeper has, `client` sends and reads."""

    def __init__(self, seed: int, overrides: Overrides) -> None:
        self.world = World(seed)
        self.ensemble = SimEnsemble(self.world)
        self.tree = self.ensemble.tree
        self.cluster = SimCluster(
            self.world,
            Layout.combined(list(BROKERS)),
            overrides={**QUICK, **overrides},
            ensemble=self.ensemble,
        )
        self.running: dict[int, Node] = {}
        self.cluster.on_node = self.running.__setitem__
        self.links = SimLinks(self.cluster.network)
        self.client = Client(self.cluster)
        self._cuts: list[Cut] = []

    def run(
        self, main: Callable[["OldPlaneStage"], Awaitable[None]], *, within_s: float = 300
    ) -> None:
        """Start the brokers, let `main` run to its end, and end everything.

        Raises ExpectationFailed, SimulationError.
        """

        async def program() -> None:
            await main(self)

        with guard(self.world):
            try:
                self.cluster.start()
                self.world.run_until(self.cluster.run_client(program), within_s)
            finally:
                self.cluster.close()
        if self.world.troubles:
            raise ExpectationFailed(f"an exception that no code caught: {self.world.troubles[0]}")

    def admin(self) -> AdminClient:
        """A client for administrative requests to any broker."""
        return AdminClient(list(self.cluster.brokers.values()))

    # -- the state

    @property
    def controller(self) -> NodeId | None:
        """The broker that /controller names."""
        if paths.CONTROLLER not in self.tree.znodes:
            return None
        return znodes.read_controller(self.tree.znodes[paths.CONTROLLER].data)

    async def order(self) -> tuple[int, int, int]:
        """The brokers, the controller last."""
        await self.until("there is a controller", lambda: self.controller is not None)
        first, second = (node for node in BROKERS if node != self.controller)
        return first, second, self.controller or 0

    def state(self, topic: str = TOPIC.topic, partition: int = 0) -> znodes.StateZnode:
        """A partition's state in ZooKeeper."""
        return znodes.read_state(self.tree.znodes[paths.state(topic, partition)].data)

    def image(self, node: int) -> ClusterImage:
        """The cluster as a running broker knows it."""
        broker = self.running[node].broker
        assert broker is not None
        return broker.replicas.image

    def active(self, node: int) -> bool:
        """Whether a broker knows its partitions."""
        broker = self.running[node].broker
        return broker is not None and broker.replicas.active

    def hosts_nothing(self, node: int, topic: str) -> bool:
        """Whether a broker has no replica of a topic."""
        broker = self.running[node].broker
        assert broker is not None
        return broker.replicas.find(TopicPartition(topic, 0)) is None

    async def until(self, what: str, look: Callable[[], bool], within_s: float = SETTLES_S) -> None:
        """Let time pass until `look` returns true. Raises ExpectationFailed."""
        for _ in range(round(within_s / POLL_S)):
            if look():
                return
            await asyncio.sleep(POLL_S)
        raise ExpectationFailed(f"not within {within_s:g} s: {what}")

    async def until_in_sync(
        self, topic: str = TOPIC.topic, partitions: int = 1, count: int = 3
    ) -> None:
        """Wait until every partition has a leader and so many replicas in sync."""

        def settled() -> bool:
            states = [self.state(topic, number) for number in range(partitions)]
            return all(each.leader >= 0 and len(each.isr) == count for each in states)

        await self.until(f"{count} replicas of {topic} are in sync", settled)

    # -- operations

    async def make_topic(self, replicas: Sequence[int]) -> None:
        """Create the topic, with the first replica as the leader."""
        async with self.admin() as admin:
            await in_service(admin, len(BROKERS))
            configs = {"min.insync.replicas": "2"}
            await topics.create(admin, TOPIC.topic, assignment=[replicas], configs=configs)
        await self.until_in_sync(count=len(replicas))

    async def send(self, count: int = 1) -> None:
        """Send records to the leader, with acks=all. Raises ExpectationFailed."""
        for _ in range(count):
            self.client.leaders[TOPIC] = self.state().leader
            if not await self.client.send(*TOPIC, -1):
                raise ExpectationFailed(f"node {self.state().leader} refused a record")

    def isolate(self, node: int) -> None:
        """Cut a broker off from the other brokers, but not from ZooKeeper."""
        cuts = [cut for other in BROKERS if other != node for cut in both_ways(node, other)]
        self.links.block(*cuts)
        self._cuts += cuts

    def heal(self) -> None:
        """Undo everything, and start every broker that is down."""
        self.links.unblock(*self._cuts)
        self._cuts.clear()
        self.ensemble.release(paths.ISR_CHANGES)
        for node, host in self.cluster.nodes.items():
            self.ensemble.heal(node)
            host.resume()
            if not host.running:
                self.cluster.start(node)

    async def settle(self, replicas: int = 3) -> None:
        """Undo everything, and wait until the cluster is as it must be in the end.

        Raises ExpectationFailed.
        """
        self.heal()
        await self.until_in_sync(count=replicas)
        self.client.leaders.clear()
        await self.client.send_until_acked(*TOPIC)
        lost = sorted(set(self.client.acked[TOPIC]) - set(await self.client.read(*TOPIC)))
        if lost:
            raise ExpectationFailed(f"acknowledged and lost: {lost}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OldPlaneSchedule:
    """Plays `play` on three brokers with ZooKeeper; the mutant of the same name must fail."""

    play: Callable[[OldPlaneStage], Awaitable[None]]
    overrides: Overrides = field(default_factory=dict)

    def run(self, seed: int) -> None:
        """Play it in the world of this seed. Raises what `OldPlaneStage.run` raises."""
        OldPlaneStage(seed, self.overrides).run(self.play)


async def follower_dies(stage: OldPlaneStage) -> None:
    """The controller takes a dead follower out of the ISR, without a new leader epoch.

    From then on the leader must know the new version of the state, or it can never change the ISR.
    """
    leader, follower, controller = await stage.order()
    await stage.make_topic([leader, follower, controller])
    await stage.send(3)
    stage.cluster.kill(follower)
    await stage.until("it has left the ISR", lambda: follower not in stage.state().isr)
    await stage.send(3)
    await stage.settle()


async def quick_restart(stage: OldPlaneStage) -> None:
    """A broker stops and starts while the controller is paused, so its znode is there at each look.

    The broker knows nothing before the controller tells it.
    """
    first, second, controller = await stage.order()
    await stage.make_topic([first, second, controller])
    await stage.send(3)
    machine, znode = stage.cluster.nodes[second], paths.broker(second)
    stage.cluster.nodes[controller].pause()
    machine.terminate()
    await stage.until("its session has ended", lambda: znode not in stage.tree.znodes)
    await stage.until("it has ended", lambda: not machine.running)
    stage.cluster.start(second)
    await stage.until("it has registered", lambda: znode in stage.tree.znodes)
    stage.cluster.nodes[controller].resume()
    await stage.until("it knows its partitions", lambda: stage.active(second))
    await stage.settle()


async def notice_after_read(stage: OldPlaneStage) -> None:
    """A notice of an ISR change comes right after the controller has read the notices.

    It is the last one of a reassignment, which ends only if the controller sees it.
    """
    leader, follower, controller = await stage.order()
    await stage.make_topic([leader, follower])
    await stage.send(3)
    stage.ensemble.withhold(paths.ISR_CHANGES)
    async with stage.admin() as admin:
        await reassignments.alter(admin, {TOPIC: (leader, controller)})
    await stage.until("the new replica is in sync", lambda: controller in stage.state().isr)
    await stage.until("the notice", lambda: stage.ensemble.withheld(paths.ISR_CHANGES) > 0)
    stage.ensemble.release_after_read(paths.ISR_CHANGES)
    stage.tree.create(f"{paths.ISR_CHANGES}/isr_change_", znodes.isr_changes([]), sequence=True)

    def ended() -> bool:
        topic = znodes.read_topic(stage.tree.get(paths.topic(TOPIC.topic))[0])
        return topic.partitions[0].replicas == (leader, controller)

    await stage.until("the reassignment has ended", ended)
    await stage.settle(replicas=2)


async def leader_dies_after_a_change(stage: OldPlaneStage) -> None:
    """A leader takes a follower out of the ISR and dies before the controller hears of the change.

    The follower is the first one that the controller would choose, and lacks acknowledged records.
    """
    leader, follower, controller = await stage.order()
    await stage.make_topic([leader, follower, controller])
    await stage.send(3)
    stage.ensemble.withhold(paths.ISR_CHANGES)
    stage.isolate(follower)
    await stage.client.send_until_acked(*TOPIC)
    assert follower not in stage.state().isr
    await stage.send(3)
    stage.cluster.kill(leader)
    await stage.until("another broker leads", lambda: stage.state().leader not in (-1, leader))
    await stage.settle()


async def leader_is_deposed(stage: OldPlaneStage) -> None:
    """A leader was paused until its session ended, and hears nothing of the next leader.

    Its followers lack its last record and are silent, so it wants to take them out of the ISR.
    """
    leader, follower, controller = await stage.order()
    await stage.make_topic([leader, follower, controller])
    await stage.send(3)
    stage.isolate(leader)
    await stage.client.send(*TOPIC, 1)
    stage.client.acked[TOPIC].pop()  # acks=1 promises nothing
    stage.cluster.nodes[leader].pause()
    await stage.until("another broker leads", lambda: stage.state().leader not in (-1, leader))
    await stage.until("it leads alone", lambda: leader not in stage.state().isr)
    await stage.send(3)
    stage.cluster.nodes[leader].resume()
    await asyncio.sleep(3)
    await stage.settle()


async def late_request(stage: OldPlaneStage) -> None:
    """A controller's request is under way for long: there is a new controller when it arrives.

    It says that a broker is gone which is back by then.
    """
    first, second, controller = await stage.order()
    await stage.make_topic([first, second, controller])
    await stage.send(3)
    stage.links.degrade([(controller, first)], LinkQuality(delay_ms=8000), "schedule")
    stage.cluster.kill(second)
    await stage.until("its session has ended", lambda: second not in stage.state().isr)
    stage.ensemble.cut(controller)
    await stage.until("another controller", lambda: stage.controller == first)
    stage.cluster.start(second)
    stage.ensemble.heal(controller)
    await stage.until("it is a broker again", lambda: controller in stage.image(first).brokers)
    await asyncio.sleep(10)
    stage.links.restore([(controller, first)], "schedule")
    await stage.until("broker 2 is known", lambda: len(stage.image(first).brokers) == len(BROKERS))
    await stage.settle()


PATIENT: Final[Overrides] = {"replica.lag.time.max.ms": 60_000}
"""Only the controller changes an ISR because of a silent follower."""
LONG_SESSION: Final[Overrides] = {
    "zookeeper.session.timeout.ms": 10_000,
    "controlled.shutdown.max.wait.ms": 500,
}

SCHEDULES: Final[Mapping[str, OldPlaneSchedule]] = {
    "compares_leader_epochs": OldPlaneSchedule(play=follower_dies, overrides=PATIENT),
    "elects_from_memory": OldPlaneSchedule(play=leader_dies_after_a_change),
    "misses_quick_restarts": OldPlaneSchedule(play=quick_restart, overrides=LONG_SESSION),
    "obeys_deposed_controllers": OldPlaneSchedule(play=late_request),
    "overwrites_states": OldPlaneSchedule(play=leader_is_deposed),
    "watches_after_reading": OldPlaneSchedule(play=notice_after_read),
}
