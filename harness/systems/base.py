"""The protocol of a system under test: how it is configured, started, found and read.

A system turns a plan into processes on a target's machines. It knows the broker's configuration
and files. It does not know faults, workloads or verdicts.

    DeployError     the cluster did not come up, or does not do what the plan asks of it
"""

import asyncio
import threading
from collections.abc import Callable, Collection, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

from harness.recording.history import RowStream
from harness.systems.monitoring.quorum_times import QuorumTimes
from harness.targets.base import Target
from harness.workloads.clients.access import Access

T = TypeVar("T")

FOREVER_NS: Final = 1 << 62
"""A time that never comes, ns since the run began."""

Address = tuple[str, int]


class System(Protocol):
    """A cluster of one kind on one target. Every call is synchronous and bounded."""

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers for clients on the target's client machine."""
        ...

    def configure(self) -> None:
        """Write every node's configuration and register its command with the target."""
        ...

    def start(self) -> None:
        """Start all nodes; return when each of them knows all of them. Raises DeployError."""
        ...

    def create_topics(self) -> None:
        """Create the plan's topics; return when every replica is in sync. Raises DeployError."""
        ...

    def stop(self) -> list[int]:
        """Shut all nodes down; return the nodes that had to be killed."""
        ...

    def collect(
        self, cluster: RowStream, quorum_times: QuorumTimes, *, except_nodes: Collection[int] = ()
    ) -> None:
        """Read the files of the stopped nodes except some: replicas, their ends, and the
        controllers' decisions. `quorum_times` dates the decisions.
        """
        ...

    def clean_up(self) -> list[str]:
        """Remove what does not end with the target's machines; return what is left, in words.

        Safe to call at any stage.
        """
        ...

    def output(self, node: int) -> Path:
        """Return the file with the node's output so far."""
        ...

    @property
    def access(self) -> Access:
        """How clients connect: security and further properties."""
        ...


class ClusterNodes(Protocol):
    """The nodes of a running cluster, as an administrator starts and removes them."""

    @property
    def brokers(self) -> Mapping[int, Address]:
        """The address of each broker for clients."""
        ...

    @property
    def controllers(self) -> Mapping[int, Address]:
        """The address of each controller for the metadata quorum."""
        ...

    def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine to its end on the clients' machine."""
        ...

    def start_broker(self, *, controller: bool = False) -> int:
        """Start one more broker on a new machine. It joins by itself. Return its number."""
        ...

    def remove_node(self, node: int) -> bool:
        """Shut a node down and remove its machine; true when the node ended by itself."""
        ...

    def directory_id(self, node: int) -> UUID | None:
        """Return the directory id of the node's disk; None until the node was started on it."""
        ...

    def wipe(self, node: int) -> None:
        """Remove all data of a stopped node."""
        ...


class DeployedSystem(System, ClusterNodes, Protocol):
    """Everything that a run asks of its cluster."""

    @property
    def zookeepers(self) -> Mapping[int, Address]:
        """The address of each ZooKeeper server for clients; none beside a metadata quorum."""
        ...


def call_in_client_network(target: Target, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end on the clients' machine, in a thread of its own.

    A network namespace belongs to a thread, and the caller's thread must stay in its own.
    """
    result: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            with target.in_client_netns():
                result.append(asyncio.run(work()))
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, name="client-network")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return result[0]
