"""Three brokers in a simulated world whose control plane is ZooKeeper."""

import asyncio
from collections.abc import Awaitable, Callable

from harness.admin.client import AdminClient
from harness.simulation.world.cluster import SimCluster
from harness.simulation.world.guard import guard
from harness.simulation.world.world import World
from harness.simulation.world.zookeeper import SimEnsemble
from harness.systems.node_roles import Layout
from harness.zoo.schedules.load import Client
from nodes.ids import NodeId, TopicPartition
from nodes.server.node import Node
from nodes.zookeeper import paths, znodes

BROKERS = (1, 2, 3)
POLL_S = 0.02


class ZooKeeperCluster:
    """See the module. `tree` is what ZooKeeper has, `client` sends and reads."""

    def __init__(self, seed: int, **overrides: str | int | bool) -> None:
        self.world = World(seed)
        self.ensemble = SimEnsemble(self.world)
        self.tree = self.ensemble.tree
        named = {name.replace("_", "."): value for name, value in overrides.items()}
        quick = {
            "zookeeper.session.timeout.ms": 1000,
            "replica.lag.time.max.ms": 1000,
            "controlled.shutdown.max.wait.ms": 2000,
        }
        self.cluster = SimCluster(
            self.world,
            Layout.combined(list(BROKERS)),
            overrides={**quick, **named},
            ensemble=self.ensemble,
        )
        self.running: dict[int, Node] = {}
        self.cluster.on_node = self.running.__setitem__
        self.client = Client(self.cluster)

    def run(
        self, main: Callable[["ZooKeeperCluster"], Awaitable[None]], *, within_s: float = 120
    ) -> None:
        """Start the brokers, let `main` run to its end, and end everything."""

        async def program() -> None:
            await main(self)

        with guard(self.world):
            try:
                self.cluster.start()
                self.world.run_until(self.cluster.run_client(program), within_s)
            finally:
                self.cluster.close()
        assert not self.world.troubles, self.world.troubles

    def admin(self) -> AdminClient:
        """A client for administrative requests to any broker."""
        return AdminClient(list(self.cluster.brokers.values()))

    @property
    def controller(self) -> NodeId | None:
        """The broker that /controller names."""
        if paths.CONTROLLER not in self.tree.znodes:
            return None
        return znodes.read_controller(self.tree.znodes[paths.CONTROLLER].data)

    def state(self, topic: str, partition: int = 0) -> znodes.StateZnode:
        """A partition's state in ZooKeeper."""
        return znodes.read_state(self.tree.znodes[paths.state(topic, partition)].data)

    def active(self, node: int) -> bool:
        """Whether a broker knows its partitions."""
        broker = self.running[node].broker
        return broker is not None and broker.replicas.active

    def hosts_nothing(self, node: int, topic: str) -> bool:
        """Whether a broker has no replica of a topic."""
        broker = self.running[node].broker
        assert broker is not None
        return broker.replicas.find(TopicPartition(topic, 0)) is None

    async def until(self, what: str, look: Callable[[], bool], within_s: float = 30) -> None:
        """Let time pass until `look` returns true."""
        for _ in range(round(within_s / POLL_S)):
            if look():
                return
            await asyncio.sleep(POLL_S)
        raise AssertionError(f"not within {within_s:g} s: {what}")

    async def until_in_sync(self, topic: str, partitions: int = 1, count: int = 3) -> None:
        """Wait until every partition has a leader and so many replicas in sync."""

        def settled() -> bool:
            return all(
                self.state(topic, number).leader >= 0
                and len(self.state(topic, number).isr) == count
                for number in range(partitions)
            )

        await self.until(f"{topic} is in sync", settled)
