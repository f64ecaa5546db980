"""What a run asks of the system under test: how it is configured, started, found, and read.

A system turns a plan into processes on a target's machines. It knows the broker's configuration
and files; it knows nothing of faults, workloads or verdicts.

    DeployError     the cluster did not come up, or does not do what the plan asks of it
"""

import asyncio
import threading
from collections.abc import Callable, Collection, Coroutine, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar
from uuid import UUID

from harness.recording.history import RowStream
from harness.systems.observer.quorum_times import QuorumTimes
from harness.targets.base import Target
from harness.workloads.clients.access import Access

T = TypeVar("T")

Address = tuple[str, int]


class System(Protocol):
    """A cluster of one kind on one target. Every call is synchronous and bounded."""

    @property
    def bootstrap(self) -> str:
        """Where clients on the target's client machine find the cluster."""
        ...

    def configure(self) -> None:
        """Write every node's configuration and register its command with the target."""
        ...

    def start(self) -> None:
        """Start all nodes; returns when each of them knows all of them. Raises DeployError."""
        ...

    def create_topics(self) -> None:
        """Create the plan's topics; returns when every replica is in sync. Raises DeployError."""
        ...

    def stop(self) -> list[int]:
        """Stop all nodes in order; returns those that had to be killed."""
        ...

    def collect(
        self, cluster: RowStream, quorum_times: QuorumTimes, *, but: Collection[int] = ()
    ) -> None:
        """Read the stopped nodes' files, `but` those of some: replicas, their ends, and the
        controller's decisions, when they were made by what was seen of the metadata log.
        """
        ...

    def withdraw(self) -> list[str]:
        """Take back what does not end with the target's machines; returns what is left, in words.
        Safe to call at any stage.
        """
        ...

    def output(self, node: int) -> Path:
        """What the node has said until now."""
        ...

    @property
    def access(self) -> Access:
        """How clients get in."""
        ...


class Members(Protocol):
    """The nodes of a running cluster, as far as an administrator has a hand in them."""

    @property
    def brokers(self) -> Mapping[int, Address]:
        """Where each broker serves clients."""
        ...

    @property
    def controllers(self) -> Mapping[int, Address]:
        """Where each controller serves the metadata quorum."""
        ...

    def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine to its end on the clients' machine."""
        ...

    def start_broker(self, *, controller: bool = False) -> int:
        """Start one more broker on a new machine, which joins by itself; its number."""
        ...

    def remove_node(self, node: int) -> bool:
        """Stop a node in order and remove its machine; true when it ended by itself."""
        ...

    def directory_id(self, node: int) -> UUID | None:
        """What the node's directory is known by; None until it was started on it."""
        ...

    def wipe(self, node: int) -> None:
        """Remove everything that a stopped node has kept."""
        ...


class Deployed(System, Members, Protocol):
    """All that a run asks of its cluster."""


def call_in_client_network(target: Target, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end on the clients' machine, in a thread of its own.

    The network namespace belongs to a thread; the caller's own must stay where it is.
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
