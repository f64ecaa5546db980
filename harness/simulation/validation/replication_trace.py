"""The trace of one partition: each broker's replica after each event that changed it, and what the
controller registered.

An entry shows what the specification `Replication.tla` has. Leader epochs and partition epochs are
one higher than the broker's, so that 0 stands for none. A replica whose log went offline shows
nothing more until its node is started again.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from harness.simulation.validation.quorum_trace import NOBODY, Epochs, epochs_of
from harness.simulation.validation.traces import Trace
from nodes.ids import NO_NODE, TopicPartition
from nodes.metadata.image import ClusterImage, PartitionImage
from nodes.metadata.records import ELIGIBLE_LEADER_REPLICAS_FEATURE, RECOVERING
from nodes.server.node import Node

CONTROLLER: Final = 0
"""The node of an entry that shows a registration."""


class ReplicaEntry(NamedTuple):
    """A broker's replica after an event. `event` is `step`, `stop`, `halt` (the program ended after
    the log had gone offline) or `power` (the node lost its power); of the last three only the node
    counts. A broker without the replica has the role `none`. Offsets are those of the partition.
    """

    node: int
    event: str
    role: str = "none"
    leader_epoch: int = 0
    partition_epoch: int = 0
    maximal_isr: frozenset[int] = frozenset()
    log: Epochs = ()
    start: int = 0
    end: int = 0
    flushed: int = 0
    high_watermark: int = 0


class RegistrationEntry(NamedTuple):
    """A partition as the controller registered it. `unclean`: its leader may lack committed
    records."""

    node: int
    event: str
    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: frozenset[int]
    elr: frozenset[int]
    last_known_elr: frozenset[int]
    replicas: frozenset[int]
    unclean: bool


class ReplicationTracer:
    """Writes the trace of one partition (`watch.Tracer`)."""

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.entries: list[ReplicaEntry | RegistrationEntry] = []
        self._registered: PartitionImage | None = None
        self._eligible = False
        """Whether the cluster has enabled eligible leader replicas."""
        self._last: dict[int, ReplicaEntry] = {}
        """The last entry of each running node that has the replica."""
        self._offline: set[int] = set()

    def trace(
        self, name: str, nodes: Iterable[int], *, min_isr: int, unclean: bool, flushes: bool
    ) -> Trace:
        """Return the trace of a run that has ended. `unclean`: any replica may be elected;
        `flushes`: the topic has flush.messages=1.
        """
        return Trace(
            name=name,
            specification="ReplicationTrace",
            constants=(
                ("Brokers", frozenset(nodes)),
                ("MinIsr", min_isr),
                ("Eligible", self._eligible),
                ("Unclean", unclean),
                ("Flushes", flushes),
            ),
            entries=tuple(map(tuple, self.entries)),
        )

    def imaged(self, image: ClusterImage) -> None:
        """See the protocol."""
        found = image.partition(self.partition.topic, self.partition.partition)
        self._eligible = bool(image.features.get(ELIGIBLE_LEADER_REPLICAS_FEATURE))
        known = self._registered
        if found is None or (known and found.partition_epoch <= known.partition_epoch):
            return
        self._registered = found
        self.entries.append(
            RegistrationEntry(
                node=CONTROLLER,
                event="registered",
                leader=NOBODY if found.leader == NO_NODE else found.leader,
                leader_epoch=found.leader_epoch + 1,
                partition_epoch=found.partition_epoch + 1,
                isr=frozenset(map(int, found.isr)),
                elr=frozenset(map(int, found.elr)),
                last_known_elr=frozenset(map(int, found.last_known_elr)),
                replicas=frozenset(map(int, found.replicas)),
                unclean=found.leader_recovery_state == RECOVERING,
            )
        )

    def looked(self, node: int, running: Node) -> None:
        """See the protocol."""
        manager = None if running.broker is None else running.broker.replicas
        if manager is None:
            return
        replica = manager.find(self.partition)
        if replica is None:
            if node in self._last and manager.active:
                self._last.pop(node)
                self.entries.append(ReplicaEntry(node, "step"))
            return
        state, log = replica.state, replica.log
        if log.offline:
            self._offline.add(node)
            return
        entry = ReplicaEntry(
            node=node,
            event="step",
            role=state.role.value,
            leader_epoch=state.leader_epoch + 1,
            partition_epoch=state.partition_epoch + 1,
            maximal_isr=frozenset(map(int, state.maximal_isr)),
            log=tuple((epoch + 1, end) for epoch, end in epochs_of(log)),
            start=log.start_offset,
            end=log.end_offset,
            flushed=log.flushed_offset,
            high_watermark=state.high_watermark,
        )
        if entry != self._last.get(node):
            self.entries.append(entry)
            self._last[node] = entry

    def stopped(self, node: int) -> None:
        """See the protocol."""
        if self._last.pop(node, None) is not None:
            self.entries.append(ReplicaEntry(node, "halt" if node in self._offline else "stop"))
        self._offline.discard(node)

    def power_lost(self, node: int) -> None:
        """See the protocol."""
        self.entries.append(ReplicaEntry(node, "power"))
