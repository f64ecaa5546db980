"""The built-in brokers of a simulated cluster, for the administrator and the phases of a run."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar
from uuid import UUID

from harness.admin.client import Address, AdminClient
from harness.admin.errors import AdminError
from harness.brokers.errors import DeployError
from harness.plans.plan import Topic
from harness.simulation.world.cluster import SimCluster
from harness.simulation.world.synchronous import GreenletRunner
from harness.simulation.world.target import SimTarget
from harness.systems import startup
from harness.systems.brokers import STOP_TIMEOUT_S
from harness.systems.node_roles import BROKER, COMBINED
from nodes.log.checkpoints import META_PROPERTIES, MetaProperties, decode_uuid

T = TypeVar("T")

READY_TIMEOUT_S: Final = 30.0
POLL_S: Final = 0.05


class SimSystem:
    """See `harness.systems.base.Members`. Only a task of the task runner may call the methods."""

    def __init__(self, cluster: SimCluster, target: SimTarget, task_runner: GreenletRunner) -> None:
        self._cluster = cluster
        self._target = target
        self._task_runner = task_runner

    @property
    def brokers(self) -> dict[int, Address]:
        """The address of each broker for clients."""
        return self._cluster.brokers

    @property
    def controllers(self) -> dict[int, Address]:
        """The address of each controller for the metadata quorum."""
        return self._cluster.controllers

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses as a bootstrap list for clients."""
        return ",".join(f"{host}:{port}" for host, port in self.brokers.values())

    def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the harness's host; return its result."""
        return self._task_runner.call(work)

    def start(self) -> None:
        """Start all nodes, and wait until each broker knows all others. Raises DeployError."""
        self._cluster.start()
        self._administer(
            "the cluster is not complete", lambda admin: startup.await_brokers(admin, self.brokers)
        )

    def create_topics(self, wanted: tuple[Topic, ...]) -> None:
        """Create the topics, and wait until all replicas are in sync. Raises DeployError."""
        self._administer(
            "the topics cannot be created", lambda admin: startup.create_topics(admin, wanted)
        )
        self._administer(
            "the topics' replicas are not in sync",
            lambda admin: startup.await_in_sync(admin, wanted, self.brokers),
        )

    def _administer(self, failure: str, work: Callable[[AdminClient], Awaitable[None]]) -> None:
        async def working() -> None:
            brokers = list(self.brokers.values())
            async with AdminClient(brokers, timeout_s=READY_TIMEOUT_S) as admin:
                await work(admin)

        try:
            self.call(working)
        except AdminError as error:
            raise DeployError(f"{failure}: {error}") from error

    # -- members

    def start_broker(self, *, controller: bool = False) -> int:
        """Start a broker on a new machine; it joins the cluster by itself. Return its number."""
        layout = self._cluster.layout
        node = max(layout.nodes) + 1
        role, joins = (COMBINED, layout.controllers) if controller else (BROKER, ())
        self._cluster.add_node(node, role, joins=joins)
        self._cluster.start(node)
        return node

    def remove_node(self, node: int) -> bool:
        """Stop a node in order and remove its machine; return true if it ended by itself."""
        ended = self._target.stop(node, STOP_TIMEOUT_S)
        self._cluster.remove_node(node)
        self._target.disks.on_damage(node, wiped=True)  # the next one may get its number
        return ended

    def directory_id(self, node: int) -> UUID | None:
        """Return the id of the node's directory; None until the node was started on it."""
        disk = self._target.host(node).disk
        assert disk is not None
        found = MetaProperties.read(disk.content)
        if found is None or found.directory_id is None:
            return None
        return decode_uuid(META_PROPERTIES, found.directory_id)

    def wipe(self, node: int) -> None:
        """Remove all files of a stopped node."""
        self._target.disks.wipe(node)

    # -- the end

    def stop(self) -> list[int]:
        """Send SIGTERM to all nodes at once; return those that had to be killed at the time-out."""
        hosts = self._cluster.nodes
        for host in hosts.values():
            host.terminate()
            host.resume()
        deadline_s = self._task_runner.now_s() + STOP_TIMEOUT_S
        while self._task_runner.now_s() < deadline_s and any(
            each.running for each in hosts.values()
        ):
            self._task_runner.sleep(POLL_S)
        late = [node for node, host in hosts.items() if host.running]
        for node in late:
            self._target.kill(node)
        return late
