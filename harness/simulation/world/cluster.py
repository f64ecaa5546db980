"""A cluster of the built-in broker in a world of its own: the unmodified code of `python -m nodes`.

Node n is host n; host 0 is the clients' machine. Properties come from `harness.systems.brokers`, so
a plan means the same as with real processes. A node that ends, by itself or not, stays down until
it is started again on what its disk kept.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from harness.simulation.world.disk import DiskSettings, SimDisk
from harness.simulation.world.host import Host, Main, Mode
from harness.simulation.world.loop import SimTask
from harness.simulation.world.network.link import NetworkSettings
from harness.simulation.world.network.network import Network
from harness.simulation.world.world import World
from harness.simulation.world.zookeeper import SimEnsemble
from harness.systems.brokers import BROKER_PORT, CONTROLLER_PORT, server_properties
from harness.systems.node_roles import Layout
from nemesis.hosts import CLIENTS
from nodes.__main__ import serve
from nodes.config import NodeConfig, load_config
from nodes.server.node import Node
from nodes.server.zookeeper.client import MakeZooKeeper

CLUSTER_ID: Final = "c2ltdWxhdGVkLXdvcmxkLg"
LOG_DIR: Final = Path("/log")


class SimCluster:
    """See the module. Nothing runs before `start`."""

    def __init__(
        self,
        world: World,
        layout: Layout,
        *,
        overrides: Mapping[str, str | int | float | bool] | None = None,
        network: NetworkSettings | None = None,
        disk: DiskSettings | None = None,
        ensemble: SimEnsemble | None = None,
    ) -> None:
        """`ensemble`: the control plane is ZooKeeper, and the nodes are brokers only."""
        self.world = world
        self._ensemble = ensemble
        self.layout = layout
        self.network = Network(world, network)
        # Two hosts on the clients' machine: stopping the clients must not stop the harness.
        self.harness = Host(world, self.network, CLIENTS, name="harness")
        self.clients = Host(world, self.network, CLIENTS)
        self.on_node: Callable[[int, Node], None] = lambda node, made: None
        """Is called with each node at each of its starts, before it runs."""
        self.nodes: dict[int, Host] = {}
        self.properties: dict[int, dict[str, str]] = {}
        """The configuration of each node."""
        self._overrides = overrides or {}
        self._disk = disk
        self._clock_changed = False
        """Whether a fault ever changed the clock of a machine that was removed."""
        self._configs: dict[int, NodeConfig] = {}
        for node in layout.nodes:
            self._make(node)
        for node in layout.nodes:
            self._configure(node)

    def _make(self, node: int) -> None:
        disk = SimDisk(self.world, f"node-{node}", self._disk)
        self.nodes[node] = Host(self.world, self.network, node, disk)

    def _configure(self, node: int, joins: Sequence[int] = ()) -> None:
        self.properties[node] = server_properties(
            node,
            {each: host.address for each, host in self.nodes.items()},
            log_dir=LOG_DIR,
            cluster_id=CLUSTER_ID,
            overrides=self._overrides,
            layout=self.layout,
            joins=joins,
        )
        if self._ensemble is not None:
            self.properties[node] = _with_zookeeper(self.properties[node])
        self._configs[node], _ = load_config(self.properties[node])

    def add_node(self, node: int, role: str, *, joins: Sequence[int] = ()) -> None:
        """Add a machine with an empty disk; nothing runs on it yet. A controller joins the voters
        `joins`.
        """
        self.layout = self.layout.with_node(node, role, self.layout.emptiest_rack())
        self._make(node)
        self._configure(node, joins)

    def remove_node(self, node: int) -> None:
        """End the node, and remove its machine and its disk."""
        host = self.nodes.pop(node)
        self._clock_changed |= host.clock.changed
        host.kill("power")
        self.network.detach(host)
        self.layout = self.layout.without(node)
        del self._configs[node], self.properties[node]

    @property
    def clocks_changed(self) -> bool:
        """Whether a fault ever changed the clock of any node."""
        return self._clock_changed or any(host.clock.changed for host in self.nodes.values())

    @property
    def brokers(self) -> dict[int, tuple[str, int]]:
        """The address and port of each broker for clients."""
        return {node: (self.nodes[node].address, BROKER_PORT) for node in self.layout.brokers}

    @property
    def controllers(self) -> dict[int, tuple[str, int]]:
        """The address and port of each controller for the metadata quorum."""
        return {
            node: (self.nodes[node].address, CONTROLLER_PORT) for node in self.layout.controllers
        }

    def start(self, *nodes: int) -> None:
        """Start these nodes; without arguments, all nodes."""
        for node in nodes or self.layout.nodes:
            self._start(node)

    def _start(self, node: int) -> None:
        host, config = self.nodes[node], self._configs[node]

        async def main() -> str:
            assert host.loop is not None
            assert host.disk is not None

            def made(each: Node) -> None:
                self.on_node(node, each)

            rng = self.world.stream("node", node, host.incarnations)
            disk = host.disk.mount(host.loop)
            return await serve(
                config,
                disk,
                rng=rng,
                wall_clock_ms=host.clock.ms,
                on_created=made,
                make_zookeeper=self._zookeeper_client(host, config),
            )

        host.boot(main)

    def _zookeeper_client(self, host: Host, config: NodeConfig) -> MakeZooKeeper | None:
        ensemble, loop = self._ensemble, host.loop
        if ensemble is None or loop is None or config.zookeeper is None:
            return None
        timeout_ms = config.zookeeper.session_timeout_ms
        return lambda: ensemble.client(loop, timeout_ms)

    def run_client(self, main: Main) -> SimTask:
        """Start a program on the clients' machine."""
        return self.clients.boot(main)

    def kill(self, node: int, mode: Mode = "process") -> None:
        """End a node at once."""
        self.nodes[node].kill(mode)

    def close(self) -> None:
        """End all programs. Only packets that kernels still send are left."""
        for host in [self.clients, self.harness, *self.nodes.values()]:
            host.kill("power")
        self.world.end()


def _with_zookeeper(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties of the same node as a broker whose control plane is ZooKeeper."""
    kept = {key: value for key, value in properties.items() if not key.startswith("controller.")}
    listeners = properties["listeners"].split(",")
    session_ms = properties.get("broker.session.timeout.ms", "9000")
    return {
        **kept,
        "process.roles": "broker",
        "listeners": ",".join(each for each in listeners if not each.startswith("CONTROLLER")),
        "zookeeper.connect": "zookeeper:2181",
        "zookeeper.session.timeout.ms": properties.get("zookeeper.session.timeout.ms", session_ms),
    }
