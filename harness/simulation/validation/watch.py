"""Calls tracers after each event that may have changed what a trace shows of a node.

The objects of a running node are watched as by the invariants: assignments to their attributes, and
writes to the node's disk. Nothing is asked of the nodes, and nothing that they do depends on being
watched: a run has the same digest with and without tracers.
"""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from harness.simulation.invariants.attribute_watch import watch
from harness.simulation.world.cluster import SimCluster
from harness.simulation.world.disk import DiskObserver
from nodes.metadata.image import ClusterImage
from nodes.server.node import Node
from nodes.server.quorum.metadata_publisher import MetadataPublisher


class Tracer(Protocol):
    """Writes one kind of traces."""

    def looked(self, node: int, running: Node) -> None:
        """Note the state of a running node after an event that touched it."""

    def imaged(self, image: ClusterImage) -> None:
        """Note an image of the metadata that some node has. Nodes that lag behind have old ones."""

    def stopped(self, node: int) -> None:
        """Note that the node's program ended."""

    def power_lost(self, node: int) -> None:
        """Note that a node without a program may have lost what it had not flushed."""


class NodesWatch:
    """Watches all nodes of a cluster. Create it before the cluster starts, in a simulation without
    invariants, because an object can be watched once."""

    def __init__(self, cluster: SimCluster, tracers: list[Tracer]) -> None:
        self._cluster = cluster
        self._tracers = tracers
        self._running: dict[int, Node] = {}
        self._watched: dict[int, dict[int, Any]] = {}
        """The watched objects of each running node, by their identity."""
        self._touched: dict[int, None] = {}
        cluster.on_node = self._node_created

    def _node_created(self, node: int, made: Node) -> None:
        disk = self._cluster.nodes[node].disk
        assert disk is not None
        self._running[node] = made
        self._watched[node] = {}
        disk.observer = _Observer(self, node)
        self.touch(node)

    def touch(self, node: int) -> None:
        """Look at the node at the end of the current event."""
        if node not in self._running:
            return
        if not self._touched:
            self._cluster.world.after_event.append(self._look)
        self._touched[node] = None

    def _look(self) -> None:
        touched, self._touched = self._touched, {}
        for node in touched:
            running = self._running.get(node)
            if running is None:
                continue  # its program ended with this event
            self._watch_new_objects(node, running)
            for tracer in self._tracers:
                tracer.looked(node, running)

    def _watch_new_objects(self, node: int, running: Node) -> None:
        watched = self._watched[node]
        for each in _objects(running):
            if id(each) not in watched:
                watched[id(each)] = each
                watch(each, self._toucher(node, running, each))

    def _toucher(self, node: int, running: Node, watched: Any) -> Callable[[], None]:
        def touched() -> None:
            if self._running.get(node) is running:
                if isinstance(watched, MetadataPublisher):  # it may get several images in an event
                    self._image(watched.image)
                self.touch(node)

        return touched

    def _image(self, image: ClusterImage) -> None:
        for tracer in self._tracers:
            tracer.imaged(image)

    def ended(self, node: int) -> None:
        """The node's program is gone; forget its objects."""
        if self._running.pop(node, None) is None:
            return
        del self._watched[node]
        self._touched.pop(node, None)
        for tracer in self._tracers:
            tracer.stopped(node)

    def power_lost(self, node: int) -> None:
        """The power of the node failed, after its program ended."""
        for tracer in self._tracers:
            tracer.power_lost(node)


class _Observer(DiskObserver):
    """Passes the events of one node's disk to the watch."""

    def __init__(self, nodes: NodesWatch, node: int) -> None:
        self._nodes = nodes
        self._node = node

    def written(self, path: str) -> None:
        self._nodes.touch(self._node)

    def ended(self) -> None:
        self._nodes.ended(self._node)

    def power_lost(self) -> None:
        self._nodes.power_lost(self._node)


def _objects(running: Node) -> Iterator[Any]:
    """Yield the objects of a node whose attributes a trace shows."""
    yield running
    raft, broker = running.raft, running.broker
    if raft is not None:
        yield raft
        yield raft.log._flushed_file
        yield raft.log._log._flusher
        if raft._quorum is not None:
            yield raft._quorum
        yield from (each for each in raft.listeners if isinstance(each, MetadataPublisher))
    if broker is not None:
        yield broker.replicas
        for replica in broker.replicas.all():
            yield replica.state
            yield replica.log._flusher
