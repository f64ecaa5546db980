"""Joins the invariants with a cluster: which nodes are checked, and when. See the package."""

from collections import defaultdict
from functools import partial
from uuid import UUID

from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.images import Images
from harness.simulation.invariants.node_checker import NodeChecker
from harness.simulation.invariants.producer_ids import ProducerIds
from harness.simulation.invariants.quorum import QuorumRecord
from harness.simulation.invariants.set_aside import DiskPast
from harness.simulation.invariants.wall_clock import Clock
from harness.simulation.world.cluster import SimCluster
from harness.simulation.world.disk import DiskObserver, SimDisk
from harness.simulation.world.world import NS
from nodes.server.node import Node


class Invariants:
    """See the package. Create it before the cluster's nodes start."""

    def __init__(self, cluster: SimCluster) -> None:
        self.quorum_record = QuorumRecord()
        self.images = Images()
        self.producer_ids = ProducerIds()
        self.excused: list[str] = []
        """Permitted losses, in sentences."""
        self.node_checkers: dict[int, NodeChecker] = {}
        """The checkers of the running incarnations, by node."""
        self.cluster = cluster
        self._world = cluster.world
        self._touched: dict[NodeChecker, None] = {}
        self._disks: dict[int, SimDisk] = {}
        self._incarnations: dict[int, list[UUID]] = defaultdict(list)
        """The broker incarnations of each node."""
        self._disk_pasts: dict[int, DiskPast] = defaultdict(partial(DiskPast, False, False))
        cluster.on_node = self._node_created

    def damaged(self, node: int, *, wiped: bool = False) -> None:
        """Record that a fault changed the disk of a node that is down, or `wiped` it: the node may
        have lost anything.

        If the voter was wiped before each node knew the voters by their disks, the quorum is
        checked no more: it is as exposed as a static quorum (KIP-853).
        """
        self._mark_lost(node, everything=True)
        self._disk_pasts[node] = self._disk_pasts[node]._replace(damaged=not wiped)
        self.quorum_record.persisted.pop(node, None)
        if wiped and node in self.cluster.layout.controllers and not self._voters_are_known():
            self.quorum_record.excused = f"the disk of node {node}, a voter, was wiped"
            self.excused.append(f"{self.quorum_record.excused}: the quorum is not checked any more")

    def _voters_are_known(self) -> bool:
        members = [checker.member for checker in self.node_checkers.values()]
        return bool(members) and all(m and not m.quorum.voters.is_static for m in members)

    def _node_created(self, node: int, made: Node) -> None:
        disk = self.cluster.nodes[node].disk
        assert disk is not None
        self.images.static = made.config.static
        if self._disks.setdefault(node, disk) is not disk:
            self._disks[node] = disk
            self._node_replaced(node)
        checker = self.node_checkers[node] = NodeChecker(self, self.images, node, made, disk)
        disk.observer = _InvariantDiskObserver(self, node, checker)

    def _node_replaced(self, node: int) -> None:
        """A machine of that number was removed, and another one was added."""
        self._disk_pasts.pop(node, None)
        self.quorum_record.persisted.pop(node, None)
        self.quorum_record.copy(node).retired = True
        for partition in self.images.partitions.values():
            if node in partition.copies:
                partition.copies[node].retired = True

    def touch(self, checker: NodeChecker) -> None:
        """Check this node at the end of the current event."""
        if not self._touched:
            self._world.after_event.append(self._look)
        self._touched[checker] = None

    def _look(self) -> None:
        touched, self._touched = self._touched, {}
        for checker in touched:
            if self.node_checkers.get(checker.node) is not checker:
                continue  # its incarnation ended with this event
            try:
                self.excused += checker.look()
            except InvariantBroken as error:
                when = f"at {self._world.now_ns / NS:.6f} s, after an event of node {checker.node}"
                self._world.fail(InvariantBroken(error.name, f"{error.sentence} ({when})"))

    def broker_created(self, node: int, incarnation: UUID) -> None:
        """The node has a new broker, which has not registered yet."""
        self._incarnations[node].append(incarnation)

    def incarnations(self, node: int) -> frozenset[UUID]:
        """Return the broker incarnations that the node has had."""
        return frozenset(self._incarnations[node])

    def node_ended(self, node: int) -> None:
        """The node's incarnation is gone: drop its checker, so that no object outlives the
        incarnation.
        """
        checker = self.node_checkers.pop(node, None)
        if checker is not None:
            checker.close()
            self._touched.pop(checker, None)

    def _mark_lost(self, node: int, *, everything: bool) -> None:
        before = self.incarnations(node)
        for partition in self.images.partitions.values():
            if node in partition.copies:
                partition.copies[node].mark_lost(before, everything=everything)
        if node in self.quorum_record.copies:
            self.quorum_record.copies[node].mark_lost(before, everything=everything)

    def power_lost(self, node: int) -> None:
        """Record that the node may have lost what it had not flushed."""
        self._mark_lost(node, everything=False)
        self._disk_pasts[node] = self._disk_pasts[node]._replace(lost_power=True)

    def disk_past(self, node: int) -> DiskPast:
        """Return what happened to the node's disk."""
        return self._disk_pasts[node]

    def clock(self, node: int) -> Clock:
        """Return the node's wall clock."""
        cluster = self.cluster
        return Clock(cluster.nodes[node].clock.shown_ms, cluster.clocks_changed)


class _InvariantDiskObserver(DiskObserver):
    """Passes the events of one node's disk to the invariants."""

    def __init__(self, invariants: Invariants, node: int, checker: NodeChecker) -> None:
        self._invariants = invariants
        self._node = node
        self._written = checker.written
        self._renamed = checker.renamed

    def written(self, path: str) -> None:
        self._written(path)

    def renamed(self, source: str, target: str) -> None:
        self._renamed(source, target)

    def ended(self) -> None:
        self._written, self._renamed = _ignore_write, _ignore_rename
        self._invariants.node_ended(self._node)

    def power_lost(self) -> None:
        self._invariants.power_lost(self._node)


def _ignore_write(path: str) -> None:
    """Ignore the write: the incarnation is gone."""


def _ignore_rename(source: str, target: str) -> None:
    """Ignore the new name: the incarnation is gone."""
