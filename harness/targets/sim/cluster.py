"""A cluster of the built-in broker in a world of its own: the code of `python -m nodes`, as it is.

Node n is host n; host 0 is the clients'. Properties are those of `harness.systems.nodes`, so that a
plan means the same here as with real processes. A node that ends, by itself or not, stays down
until it is started again, on what its disk kept.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from harness.systems.layout import Layout
from harness.systems.nodes import BROKER_PORT, server_properties
from harness.targets.sim.disk import DiskSettings, SimDisk
from harness.targets.sim.host import Host, Main, Mode
from harness.targets.sim.link import NetworkSettings
from harness.targets.sim.loop import SimTask
from harness.targets.sim.network import Network
from harness.targets.sim.world import World
from nemesis.hosts import CLIENTS
from nodes.__main__ import serve
from nodes.config import NodeConfig, load_config

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
    ) -> None:
        self.world = world
        self.layout = layout
        self.network = Network(world, network)
        self.clients = Host(world, self.network, CLIENTS)
        self.nodes: dict[int, Host] = {
            node: Host(world, self.network, node, SimDisk(world, f"node-{node}", disk))
            for node in layout.nodes
        }
        self._configs = {node: self._config(node, overrides or {}) for node in layout.nodes}

    def _config(self, node: int, overrides: Mapping[str, str | int | float | bool]) -> NodeConfig:
        properties = server_properties(
            node,
            {each: host.address for each, host in self.nodes.items()},
            log_dir=LOG_DIR,
            cluster_id=CLUSTER_ID,
            overrides=overrides,
            layout=self.layout,
        )
        config, _ = load_config(properties)
        return config

    @property
    def brokers(self) -> dict[int, tuple[str, int]]:
        """Where each broker serves clients."""
        return {node: (self.nodes[node].address, BROKER_PORT) for node in self.layout.brokers}

    def start(self, *nodes: int) -> None:
        """Start these nodes, all without any."""
        for node in nodes or self.layout.nodes:
            self._start(node)

    def _start(self, node: int) -> None:
        host = self.nodes[node]

        async def main() -> str:
            assert host.loop is not None
            assert host.disk is not None
            rng = self.world.stream("node", node, host.incarnations)
            disk = host.disk.mount(host.loop)
            return await serve(self._configs[node], disk, rng=rng, wall_clock_ms=host.clock.ms)

        host.boot(main)

    def run_client(self, main: Main) -> SimTask:
        """Start a program on the clients' machine."""
        return self.clients.boot(main)

    def kill(self, node: int, mode: Mode = "process") -> None:
        """End a node at once."""
        self.nodes[node].kill(mode)

    def close(self) -> None:
        """End everything; only what kernels still send is left to happen."""
        for host in [self.clients, *self.nodes.values()]:
            host.kill("power")
        self.world.end()
