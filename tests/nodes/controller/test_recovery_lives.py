"""Fewer power losses than min.insync.replicas lose nothing, whatever else happens: with logs.

The controller decides as it is; brokers are models: a log, of which a power loss takes a part of
the tail; a leader that appends and commits what its ISR has; followers that cut and copy.
"""

import contextlib
import random
from collections.abc import Collection
from typing import NamedTuple

import pytest

from nodes.ids import NodeId
from nodes.metadata.errors import ControlError
from nodes.metadata.image import PartitionImage
from nodes.metadata.records import RECOVERED
from tests.support.nodes.controller_cluster import SESSION_MS, Cluster, nodes

REPLICAS = nodes(1, 2, 3)
STEPS = 120


class Entry(NamedTuple):
    """A record: the leader epoch under which it was written, and its number."""

    epoch: int
    number: int


class Life:
    """One partition on three brokers that are killed all the time, and lose power in turn."""

    def __init__(self, seed: int, min_isr: int) -> None:
        self.rng = random.Random(seed)
        self.min_isr = min_isr
        self.cluster = Cluster(brokers=3, seed=seed, min_isr=min_isr)
        self.cluster.create("t", REPLICAS)
        self.logs: dict[NodeId, list[Entry]] = {n: [] for n in REPLICAS}
        self.fetched: dict[NodeId, int] = {}
        """Of the leader's followers, in its epoch."""
        self.committed: list[Entry] = []
        self.up = set(REPLICAS)
        self.lacking: set[NodeId] = set()
        """Who lost power and has not been in sync since."""
        self.epoch = -1
        self.numbers = 100
        self.elected_by_logs = 0
        self._look()

    def live(self) -> None:
        """Anything, in any order."""
        steps = {
            self.produce: 8,
            self.join: 4,
            self.leave: 2,
            self.end: 2,
            self.start: 3,
            self.recover: 3,
            self.fail_over: 1,
        }
        for step in self.rng.choices(list(steps), list(steps.values()), k=STEPS):
            step()

    @property
    def _partition(self) -> PartitionImage:
        return self.cluster.partition()

    def _holds(self, number: NodeId) -> bool:
        return self.logs[number][: len(self.committed)] == self.committed

    def _look(self) -> None:
        """After every decision: who leads from now on has all that was ever committed."""
        partition = self._partition
        self.lacking -= {n for n in partition.isr if n in self.up}
        if partition.leader_epoch != self.epoch:
            self.epoch = partition.leader_epoch
            self.fetched = {}
            if partition.leader in self.up:
                assert self._holds(partition.leader), f"{partition} lacks committed records"

    def _leader(self) -> NodeId | None:
        return self._partition.leader if self._partition.leader in self.up else None

    def _some(self, of: Collection[NodeId] = REPLICAS) -> list[NodeId]:
        return self.rng.sample(sorted(of), self.rng.randint(0, len(of)))

    def produce(self) -> None:
        """The leader appends; some follow, and the ISR commits what it has."""
        leader = self._leader()
        if leader is not None:
            for _ in range(self.rng.choice((1, 1, 9))):
                self.numbers += 1
                self.logs[leader].append(Entry(self.epoch, self.numbers))
            self._follow(leader, self._some(self.up))

    def join(self) -> None:
        """Who has everything joins the ISR; the recovery from an unclean election is over."""
        leader = self._leader()
        if leader is not None:
            followers = self._some(self.up)
            self._follow(leader, followers)
            self._alter(leader, [leader])
            self._alter(leader, {leader, *self._partition.isr, *followers})

    def leave(self) -> None:
        """The leader finds some too slow."""
        leader = self._leader()
        if leader is not None:
            self._alter(leader, {leader, *self._partition.isr} - set(self._some()) | {leader})

    def _follow(self, leader: NodeId, followers: Collection[NodeId]) -> None:
        """Followers cut what the leader has not, and copy the rest."""
        log = self.logs[leader]
        for follower in followers:
            if follower != leader:
                self.logs[follower] = list(log)
                self.fetched[follower] = len(log)
        isr = self._partition.isr
        end = min(len(log) if n == leader else self.fetched.get(n, 0) for n in isr)
        if len(isr) >= self.min_isr and end > len(self.committed):
            self.committed = log[:end]

    def _alter(self, leader: NodeId, isr: Collection[NodeId]) -> None:
        with contextlib.suppress(ControlError):
            self.cluster.alter(leader, sorted(isr), leader_recovery_state=RECOVERED)
        self._look()

    def end(self) -> None:
        """Kills, and maybe power losses: fewer than the minimum until all are in sync again."""
        killed = self._some(self.up)
        self.up -= set(killed)
        for number in killed:
            if len(self.lacking | {number}) < self.min_isr and self.rng.random() < 0.5:
                self.lacking.add(number)
                log = self.logs[number]
                del log[self.rng.randint(0, len(log)) :]

    def start(self) -> None:
        """Some come back, as such that may lack anything, when their sessions have run out."""
        self.cluster.wait(SESSION_MS, *sorted(self.up))
        self._look()
        for number in self._some(set(REPLICAS) - self.up):
            self.numbers += 1
            self.cluster.register(number, self.numbers)
            self._look()
            self.up.add(number)
            self.cluster.beat(number)
            self._look()

    def recover(self) -> None:
        """Those who are up are asked for their logs; some may not answer."""
        silent = self._some() if self.rng.random() < 0.3 else ()
        ends = {
            int(n): (self.logs[n][-1].epoch if self.logs[n] else -1, len(self.logs[n]))
            for n in sorted(self.up)
            if n not in silent
        }
        self.cluster.recover(ends)
        self.elected_by_logs += bool(self.cluster.written and len(self.committed))
        self._look()

    def fail_over(self) -> None:
        """Another controller takes over from the log."""
        self.cluster.take_over()


@pytest.mark.parametrize("min_isr", [2, 3])
def test_every_leader_has_all_committed_records(min_isr: int) -> None:
    """Through kills of any number of replicas at once, and power losses below the minimum."""
    elected = 0
    for seed in range(40):
        life = Life(seed, min_isr)
        life.live()
        elected += life.elected_by_logs
    assert elected > 20
