"""A simulated cluster as a target: what `nemesis.hosts` needs of machines.

The faults are those of the local target; the world's counts prove them: packets dropped, bytes
lost, states of processes. `cluster` has everything that a node or a kernel does by itself.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from harness.simulation.world.cluster import SimCluster
from harness.simulation.world.disk import SimDisk
from harness.simulation.world.disk_faults import SimDisks
from harness.simulation.world.host import Host
from harness.simulation.world.network.link_faults import SimLinks
from harness.targets.base import NodeState, NoPower, UnknownNode
from nemesis.concurrency import TaskRunner
from nemesis.hosts import CLIENTS, ClockReading

POLL_S: Final = 0.05
CLOCK_ERROR_MS: Final = 0.5
"""The precision of a clock's reading: clocks show whole milliseconds."""


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
        """See the protocol; the clients are one process."""
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

    def requested_offset_ms(self, node: int, layer: str = "") -> float:
        """See the protocol."""
        return self._host_of(node).clock.requested_offset_ms(layer)

    def read(self, node: int) -> ClockReading | None:
        """See the protocol."""
        host = self._host_of(node)
        if not host.running:
            return None
        ahead_ms = host.clock.ahead_ms
        return ClockReading(
            ahead_ms - CLOCK_ERROR_MS, ahead_ms + CLOCK_ERROR_MS, host.clock.was_read
        )


class SimTarget:
    """See the module. The target's processes are the cluster's hosts. `record` writes to the
    journal.
    """

    def __init__(
        self, cluster: SimCluster, task_runner: TaskRunner, record: Callable[..., None]
    ) -> None:
        self.cluster = cluster
        self.clients = SimClients(cluster.clients)
        self.links = SimLinks(cluster.network)
        self.disks = SimDisks(cluster.world, self._disk, record)
        self.clocks = SimClocks(self.host)
        self.power = NoPower()
        self._task_runner = task_runner

    @property
    def abilities(self) -> frozenset[str]:
        """What the target can break, by the names of `nemesis.faults.fault.Ability`."""
        parts = (self.links.abilities, self.disks.abilities)
        return frozenset({"signals", "client-signals", "clocks", "administration"}).union(*parts)

    def host(self, node: int) -> Host:
        """Return a node's machine. Raises UnknownNode."""
        if node == CLIENTS or node not in self.cluster.nodes:
            raise UnknownNode(f"no node {node}: there are {sorted(self.cluster.nodes)}")
        return self.cluster.nodes[node]

    def _disk(self, node: int) -> SimDisk:
        disk = self.host(node).disk
        assert disk is not None
        return disk

    # -- as `nemesis.hosts.Processes`

    def node_ids(self) -> Sequence[int]:
        """Return all nodes, running or not, in ascending order."""
        return sorted(self.cluster.nodes)

    def start(self, node: int) -> None:
        """Start the node on what its disk kept. Raises NodeState if it is running."""
        if self.host(node).running:
            raise NodeState(f"node {node} is running already")
        self.cluster.start(node)

    def kill(self, node: int) -> None:
        """Send SIGKILL, and thaw a frozen disk: a process that waits for its disk cannot die."""
        host = self.host(node)
        host.kill()
        self.disks.thaw(node)

    def terminate(self, node: int) -> None:
        """Send SIGTERM; a paused node handles it after it resumes."""
        self.host(node).terminate()

    def stop(self, node: int, timeout_s: float) -> bool:
        """Send SIGTERM and wait; send SIGKILL at the time-out. Return true if the node ended by
        itself.
        """
        host = self.host(node)
        host.terminate()
        host.resume()
        deadline_s = self._task_runner.now_s() + timeout_s
        while host.running and self._task_runner.now_s() < deadline_s:
            self._task_runner.sleep(POLL_S)
        by_itself = not host.running
        if not by_itself:
            self.kill(node)
        return by_itself

    def pause(self, node: int) -> None:
        """Send SIGSTOP. Raises NodeState if the node is not running."""
        host = self.host(node)
        if not host.running:
            raise NodeState(f"node {node} is not running")
        host.pause()

    def resume(self, node: int) -> None:
        """Send SIGCONT; nothing happens if the node is not running."""
        self.host(node).resume()

    def is_running(self, node: int) -> bool:
        """Whether the node's program runs, paused or not."""
        return self.host(node).running

    def exit_code(self, node: int) -> int | None:
        """Return the exit code of the node's last program; None while one runs."""
        host = self.host(node)
        return None if host.running else host.exit_code

    def state(self, node: int) -> str:
        """Return the letter of the process state; empty if nothing runs."""
        return self.host(node).state
