"""How a broker leaves a running cluster in order, and how it comes back: one step at a time.

A step looks at how things are, does what comes next, and gives up within seconds; whoever calls
again and again gets there, whatever breaks and restarts the broker meanwhile. No replica goes
before its successor is in sync: that is the cluster's word on a reassignment.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from harness.admin import inspection, reassignments, topics, voters
from harness.admin.client import AdminClient
from harness.admin.descriptions import Reassignment, Topic
from harness.admin.errors import AdminError
from harness.run.administration.requests import Ask
from harness.systems.base import Members
from nemesis.hosts import Processes
from nodes.ids import TopicPartition

STOP_S: Final = 10.0
"""How long a broker may take to stop in order before it is killed."""


class Leaving:
    """A broker on its way out; its data goes too, to none of those that are on their way out
    themselves (`leaving`, now). `retire` then has its machine removed."""

    def __init__(
        self,
        node: int,
        *,
        ask: Ask,
        system: Members,
        processes: Processes,
        now_s: Callable[[], float],
        leaving: Collection[int],
        retire: Callable[[int], None] | None = None,
    ) -> None:
        self.node = node
        self.gave_up_vote = False
        self.gone = False
        self._ask, self._system, self._retire = ask, system, retire
        self._processes, self._now_s = processes, now_s
        self._leaving = leaving
        self._told_s: float | None = None
        self._ends_vote_on: UUID | None = None

    def step(self) -> bool:
        """Do the next thing; true when the broker is gone. Raises AdminError, TargetError."""
        node, running = self.node, self._processes.is_running(self.node)
        out = {node, *self._leaving}
        if not self._ask(lambda admin: _drained(admin, node, out=out, running=running)):
            return False
        if running and not self._ended():
            return False
        self._ask(lambda admin: _forget(admin, node))
        if self._processes.is_running(node):
            return False  # somebody started it again
        if self._retire is None:
            self._system.wipe(node)
        else:
            self._retire(node)
        self.gone = True
        return True

    def _ended(self) -> bool:
        """Whether the process has ended, which is first told to."""
        if self._told_s is None:
            if self._has_vote():
                return False
            self._processes.terminate(self.node)
            self._told_s = self._now_s()
        elif self._now_s() - self._told_s > STOP_S:
            self._processes.kill(self.node)
        return not self._processes.is_running(self.node)

    def _has_vote(self) -> bool:
        """Whether it may have one still, which is taken then. That a leader knows of none is not
        enough: until it has committed that, the leader may take it with it.
        """
        voted_on = self._ask(lambda admin: voters.directory(admin, self.node)) or self._ends_vote_on
        if voted_on is None:
            return False
        self.gave_up_vote, self._ends_vote_on = True, voted_on
        self._ask(lambda admin: voters.remove(admin, self.node, voted_on))
        self._ends_vote_on = None
        return True

    def step_back(self) -> bool:
        """The way back: true when the broker is in service, with its vote if it had one."""
        if self._told_s is not None and self._processes.is_running(self.node):
            if self._now_s() - self._told_s > STOP_S:
                self._processes.kill(self.node)
            return False
        if self._told_s is not None or not self._processes.is_running(self.node):
            self._told_s, self.gone = None, False
            if not self._processes.is_running(self.node):
                self._processes.start(self.node)
            return False
        if self.node not in self._ask(_in_service):
            return False
        return not self.gave_up_vote or give_vote(self.node, self._ask, self._system)


def give_vote(node: int, ask: Ask, system: Members) -> bool:
    """True when the node has a vote on the disk that it is on now (KIP-853); else the next thing
    that leads there is asked for. Raises AdminError.
    """
    directory = system.directory_id(node)
    if directory is None:
        return False  # it was not started on this disk yet
    found = ask(inspection.quorum).voters
    known = next((each for each in found if each.node_id == node), None)
    voted_on = None if known is None else known.directory_id
    if known is not None and voted_on is None:
        return True  # votes are for good
    if voted_on in (None, directory):
        # Also of a voter that is known: what its leader has not committed may go with it.
        ask(lambda admin: voters.add(admin, node, directory, system.controllers[node]))
        return voted_on == directory
    ask(lambda admin: voters.remove(admin, node, voted_on))
    return False


async def _in_service(admin: AdminClient) -> list[int]:
    return sorted(each.node_id for each in (await topics.cluster(admin)).live)


async def _forget(admin: AdminClient, node: int) -> None:
    if node in {each.node_id for each in (await topics.cluster(admin)).brokers}:
        await inspection.unregister(admin, node)


async def _drained(admin: AdminClient, node: int, *, out: Collection[int], running: bool) -> bool:
    """Whether the broker holds nothing; what it holds is ordered away, to nobody in `out`."""
    ongoing = await reassignments.ongoing(admin)
    known = await topics.describe(admin)
    brokers = [each for each in await _in_service(admin) if each not in out]
    targets = evacuated(node, brokers, known, ongoing)
    if targets:
        failed = await reassignments.alter(admin, targets)
        if failed:
            name, (code, said) = next(iter(failed.items()))
            raise AdminError(f"{name}: {said or code.name}")
        return False
    if any(node in each.replicas for each in ongoing.values()):
        return False
    if any(node in each.replicas for topic in known for each in topic.partitions):
        return False
    # Others may not have heard of what was decided last: it is the broker itself that knows.
    return not running or not await _holds(admin, node)


async def _holds(admin: AdminClient, node: int) -> bool:
    directories = await inspection.log_dirs(admin, node)
    return any(each.replicas for each in directories)


def evacuated(
    node: int,
    brokers: Sequence[int],
    known: Sequence[Topic],
    ongoing: Mapping[TopicPartition, Reassignment],
) -> dict[TopicPartition, tuple[int, ...]]:
    """Where the partitions are to be that are to be on `node`: the emptiest of `brokers` takes its
    place in each. Raises AdminError when a partition is on all of them.
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
        taker = min(free, key=lambda each: (load[each], each))
        load[taker] += 1
        targets[name] = tuple(taker if each == node else each for each in replicas)
    return targets
