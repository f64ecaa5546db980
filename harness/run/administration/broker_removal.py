"""Removes a broker from a running cluster, and brings it back: one step at a time.

A step looks at the state of the cluster, does what comes next, and gives up within seconds. The
caller repeats the step until the broker is removed, whatever fails or restarts the broker in the
meantime. The cluster's reassignment removes a replica only after the new replica is in sync.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from harness.admin import inspection, reassignments, topics, voters
from harness.admin.client import AdminClient
from harness.admin.descriptions import Reassignment, Topic
from harness.admin.errors import AdminError
from harness.run.administration.requests import AdminCall
from harness.systems.base import ClusterNodes
from nemesis.hosts import Processes
from nodes.ids import TopicPartition

STOP_S: Final = 10.0
"""How long a broker may take to shut down before it is killed."""


class BrokerRemoval:
    """The removal of one broker: its replicas are moved away, and it is stopped and unregistered.

    No replica moves to a broker in `leaving`, which changes over time. At the end `remove_machine`
    is called, or else the broker's disk is wiped.
    """

    def __init__(
        self,
        node: int,
        *,
        ask: AdminCall,
        system: ClusterNodes,
        processes: Processes,
        now_s: Callable[[], float],
        leaving: Collection[int],
        remove_machine: Callable[[int], None] | None = None,
    ) -> None:
        self.node = node
        self.lost_vote = False
        self.done = False
        self._ask, self._system, self._remove_machine = ask, system, remove_machine
        self._processes, self._now_s = processes, now_s
        self._leaving = leaving
        self._asked_to_stop_s: float | None = None
        self._removing_vote_of: UUID | None = None

    def step(self) -> bool:
        """Do the next step; true when the broker is removed. Raises AdminError, TargetError."""
        node, running = self.node, self._processes.is_running(self.node)
        out = {node, *self._leaving}
        if not self._ask(lambda admin: _drained(admin, node, out=out, running=running)):
            return False
        if self._asked_to_stop_s is None and self._has_quorum and self._had_vote():
            return False  # also if the process is down: its vote would stay in the quorum
        if running and not self._stopped():
            return False
        if self._has_quorum:
            self._ask(lambda admin: _unregister(admin, node))
        if self._processes.is_running(node):
            return False  # it was started again meanwhile
        if self._remove_machine is None:
            self._system.wipe(node)
        else:
            self._remove_machine(node)
        self.done = True
        return True

    @property
    def _has_quorum(self) -> bool:
        """Whether there are a vote and a registration to remove; beside ZooKeeper there are not."""
        return bool(self._system.controllers)

    def _stopped(self) -> bool:
        """Stop the process; return whether it has ended."""
        if self._asked_to_stop_s is None:
            self._processes.terminate(self.node)
            self._asked_to_stop_s = self._now_s()
        elif self._now_s() - self._asked_to_stop_s > STOP_S:
            self._processes.kill(self.node)
        return not self._processes.is_running(self.node)

    def _had_vote(self) -> bool:
        """Return whether the node may still have had a vote, and remove the vote.

        A leader that knows of no vote is not enough: its removal may be uncommitted, and is lost if
        the leader fails.
        """
        directory = self._ask(lambda admin: voters.directory(admin, self.node))
        directory = directory or self._removing_vote_of
        if directory is None:
            return False
        self.lost_vote, self._removing_vote_of = True, directory
        self._ask(lambda admin: voters.remove(admin, self.node, directory))
        self._removing_vote_of = None
        return True

    def step_back(self) -> bool:
        """Do the next step back; true when the broker is in service, with the vote that it had."""
        if self._asked_to_stop_s is not None and self._processes.is_running(self.node):
            if self._now_s() - self._asked_to_stop_s > STOP_S:
                self._processes.kill(self.node)
            return False
        if self._asked_to_stop_s is not None or not self._processes.is_running(self.node):
            self._asked_to_stop_s, self.done = None, False
            if not self._processes.is_running(self.node):
                self._processes.start(self.node)
            return False
        if self.node not in self._ask(_in_service):
            return False
        return not self.lost_vote or give_vote(self.node, self._ask, self._system)


def give_vote(node: int, ask: AdminCall, system: ClusterNodes) -> bool:
    """Return whether the node has a vote on its present disk (KIP-853).

    If not, the next request that leads there is sent. Raises AdminError.
    """
    directory = system.directory_id(node)
    if directory is None:
        return False  # it was not started on this disk yet
    found = ask(inspection.quorum).voters
    known = next((each for each in found if each.node_id == node), None)
    voting = None if known is None else known.directory_id
    if known is not None and voting is None:
        return True  # in this quorum the voters never change
    if voting in (None, directory):
        # Sent for a known voter too: an uncommitted voter is lost if the leader fails.
        ask(lambda admin: voters.add(admin, node, directory, system.controllers[node]))
        return voting == directory
    ask(lambda admin: voters.remove(admin, node, voting))
    return False


async def _in_service(admin: AdminClient) -> list[int]:
    return sorted(each.node_id for each in (await topics.cluster(admin)).live)


async def _unregister(admin: AdminClient, node: int) -> None:
    if node in {each.node_id for each in (await topics.cluster(admin)).brokers}:
        await inspection.unregister(admin, node)


async def _drained(admin: AdminClient, node: int, *, out: Collection[int], running: bool) -> bool:
    """Return whether the broker has no replicas; if it has, move them to brokers not in `out`."""
    ongoing = await reassignments.ongoing(admin)
    known = await topics.describe(admin)
    brokers = [each for each in await _in_service(admin) if each not in out]
    targets = reassigned_away(node, brokers, known, ongoing)
    if targets:
        failed = await reassignments.alter(admin, targets)
        if failed:
            name, (code, text) = next(iter(failed.items()))
            raise AdminError(f"{name}: {text or code.name}")
        return False
    if any(node in each.replicas for each in ongoing.values()):
        return False
    if any(node in each.replicas for topic in known for each in topic.partitions):
        return False
    # Other brokers may not know the last decision yet. The broker itself knows its replicas.
    return not running or not await _has_replicas(admin, node)


async def _has_replicas(admin: AdminClient, node: int) -> bool:
    directories = await inspection.log_dirs(admin, node)
    return any(each.replicas for each in directories)


def reassigned_away(
    node: int,
    brokers: Sequence[int],
    known: Sequence[Topic],
    ongoing: Mapping[TopicPartition, Reassignment],
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return new replicas for the partitions on `node`: the emptiest of `brokers` replaces it.

    Raises AdminError when a partition is on all of `brokers`.
    """
    now = {
        each.name: ongoing[each.name].target if each.name in ongoing else each.replicas
        for topic in known
        for each in topic.partitions
    }
    load: Counter[Any] = Counter(each for replicas in now.values() for each in replicas)
    targets = {}
    for name, replicas in sorted(now.items()):
        if node not in replicas:
            continue
        free = [each for each in brokers if each not in replicas]
        if not free:
            raise AdminError(f"{name} on broker {node} has nowhere to go: {list(brokers)} serve")
        successor = min(free, key=lambda each: (load[each], each))
        load[successor] += 1
        targets[name] = tuple(successor if each == node else each for each in replicas)
    return targets
