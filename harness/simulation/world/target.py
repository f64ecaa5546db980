"""A simulated cluster as a deployment target: what `nemesis.hosts` asks of machines.

The faults are those of the local target, proven by what the world counts: packets dropped, bytes
lost, states of processes. Everything that a node or a kernel does by itself is `cluster`'s.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from harness.simulation.world.cluster import SimCluster
from harness.simulation.world.disk import SimDisk
from harness.simulation.world.disk_faults import SimDisks
from harness.simulation.world.host import Host
from harness.simulation.world.network.link_faults import SimLinks
from harness.targets.base import NodeState, NoPower, UnknownNode
from nemesis.concurrency import Strands
from nemesis.hosts import CLIENTS, Reading

POLL_S: Final = 0.05
CLOCK_GIVE_MS: Final = 0.5
"""To how much a clock is known: it shows whole milliseconds."""


class SimClients:
    """The clients' program. See `nemesis.hosts.Clients`."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def pause(self) -> None:
        """See the protocol."""
        self._host.pause()

    def resume(self) -> None:
        """See the protocol."""
        self._host.resume()

    def states(self) -> Mapping[int, str]:
        """See the protocol; there is one process."""
        return {1: self._host.state} if self._host.running else {}


class SimClocks:
    """The nodes' wall clocks. See `nemesis.hosts.Clocks`."""

    def __init__(self, host_of: Callable[[int], Host]) -> None:
        self._host_of = host_of

    def skew(self, node: int, layer: str, offset_ms: float) -> None:
        """See the protocol. Raises UnknownNode."""
        self._host_of(node).clock.skew(layer, offset_ms)

    def unskew(self, node: int, layer: str) -> None:
        """See the protocol."""
        try:
            self._host_of(node).clock.unskew(layer)
        except UnknownNode:
            return

    def asked_ms(self, node: int, layer: str = "") -> float:
        """See the protocol."""
        return self._host_of(node).clock.asked_ms(layer)

    def shown(self, node: int) -> Reading | None:
        """See the protocol."""
        host = self._host_of(node)
        if not host.running:
            return None
        ahead_ms = host.clock.ahead_ms
        return Reading(ahead_ms - CLOCK_GIVE_MS, ahead_ms + CLOCK_GIVE_MS, host.clock.looked)


class SimTarget:
    """See the module; its processes are the cluster's hosts. `record` is the journal's."""

    def __init__(self, cluster: SimCluster, strands: Strands, record: Callable[..., None]) -> None:
        self.cluster = cluster
        self.clients = SimClients(cluster.clients)
        self.links = SimLinks(cluster.network)
        self.disks = SimDisks(cluster.world, self._disk, record)
        self.clocks = SimClocks(self.host)
        self.power = NoPower()
        self._strands = strands

    @property
    def abilities(self) -> frozenset[str]:
        """What can be broken here, by the names of `nemesis.faults.fault.Ability`."""
        parts = (self.links.abilities, self.disks.abilities)
        return frozenset({"signals", "client-signals", "clocks", "administration"}).union(*parts)

    def host(self, node: int) -> Host:
        """A node's machine. Raises UnknownNode."""
        if node == CLIENTS or node not in self.cluster.nodes:
            raise UnknownNode(f"no node {node}: there are {sorted(self.cluster.nodes)}")
        return self.cluster.nodes[node]

    def _disk(self, node: int) -> SimDisk:
        disk = self.host(node).disk
        assert disk is not None
        return disk

    # -- as `nemesis.hosts.Processes`

    def node_ids(self) -> Sequence[int]:
        """All nodes, running or not, ascending."""
        return sorted(self.cluster.nodes)

    def start(self, node: int) -> None:
        """Start the node on what its disk kept. Raises NodeState when it runs."""
        if self.host(node).running:
            raise NodeState(f"node {node} is running already")
        self.cluster.start(node)

    def kill(self, node: int) -> None:
        """SIGKILL; a frozen disk is thawed, since nobody dies who waits for one."""
        host = self.host(node)
        host.kill()
        self.disks.thaw(node)

    def terminate(self, node: int) -> None:
        """SIGTERM; a paused node hears it when it goes on."""
        self.host(node).terminate()

    def stop(self, node: int, timeout_s: float) -> bool:
        """SIGTERM and wait; SIGKILL at the bound. True when it ended by itself."""
        host = self.host(node)
        host.terminate()
        host.resume()
        deadline_s = self._strands.now_s() + timeout_s
        while host.running and self._strands.now_s() < deadline_s:
            self._strands.sleep(POLL_S)
        by_itself = not host.running
        if not by_itself:
            self.kill(node)
        return by_itself

    def pause(self, node: int) -> None:
        """SIGSTOP. Raises NodeState when it does not run."""
        host = self.host(node)
        if not host.running:
            raise NodeState(f"node {node} is not running")
        host.pause()

    def resume(self, node: int) -> None:
        """SIGCONT; nothing happens where nothing runs."""
        self.host(node).resume()

    def is_running(self, node: int) -> bool:
        """Whether the node's program runs; a paused one does."""
        return self.host(node).running

    def exit_code(self, node: int) -> int | None:
        """How the node's last program ended; None while one runs."""
        host = self.host(node)
        return None if host.running else host.exit_code

    def state(self, node: int) -> str:
        """The process state letter; empty when nothing runs."""
        return self.host(node).state
