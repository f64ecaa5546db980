"""Checks one incarnation of one node: finds its parts, notes what an event touched, and checks that
at the end of the event. The rules are elsewhere; see the package.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol
from uuid import UUID

from harness.simulation.invariants.acknowledgements import (
    Acknowledged,
    check_acknowledged,
    watch_acknowledgements,
)
from harness.simulation.invariants.attribute_watch import watch
from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.coordinated_groups import check_expiry, check_groups
from harness.simulation.invariants.coordinators import (
    Judges,
    MakeMachine,
    check_coordinator,
    watch_coordinators,
)
from harness.simulation.invariants.deletions import check_deletion, watch_deletions
from harness.simulation.invariants.durable import is_durable
from harness.simulation.invariants.images import Images
from harness.simulation.invariants.leader_epochs import watch_responses
from harness.simulation.invariants.log_copy import Copy
from harness.simulation.invariants.lookups import check_lookup, watch_lookups
from harness.simulation.invariants.markers import check_marker, watch_markers
from harness.simulation.invariants.producer_ids import ProducerIds, watch_producer_ids
from harness.simulation.invariants.quorum import NAME, QuorumMemberChecker, QuorumRecord
from harness.simulation.invariants.replicas import ReplicaChecker
from harness.simulation.invariants.set_aside import (
    DiskPast,
    check_set_aside,
    has_mark,
    is_set_aside,
    was_set_aside,
)
from harness.simulation.invariants.sound_log import SoundLogChecker
from harness.simulation.invariants.wall_clock import Clock
from harness.simulation.world.disk import SimDisk
from nodes.coordinators.groups.coordinator import GroupCoordinator
from nodes.coordinators.machine import Effects, Machine
from nodes.ids import Offset, TopicPartition
from nodes.log.log import Log
from nodes.log.transactions.markers import Marker
from nodes.metadata.image import ClusterImage
from nodes.server.node import Node
from nodes.server.quorum.metadata_publisher import MetadataPublisher
from nodes.server.quorum.quorum_node import QuorumNode
from nodes.server.replicas.manager import ReplicaManager
from nodes.server.replicas.replica import Replica
from nodes.server.requests.list_offsets import ListedOffset


class ClusterInvariants(Protocol):
    """What a NodeChecker needs of the invariants of its cluster."""

    quorum_record: QuorumRecord
    producer_ids: ProducerIds

    def touch(self, checker: "NodeChecker") -> None:
        """Check this node at the end of the current event."""

    def broker_created(self, node: int, incarnation: UUID) -> None:
        """The node has a new broker, which has not registered yet."""

    def incarnations(self, node: int) -> frozenset[UUID]:
        """Return the broker incarnations that the node has had."""
        ...

    def disk_past(self, node: int) -> DiskPast:
        """Return what happened to the node's disk."""
        ...

    def clock(self, node: int) -> Clock:
        """Return the node's wall clock."""
        ...


class NodeChecker:
    """Checks one incarnation of one node."""

    def __init__(
        self, invariants: ClusterInvariants, images: Images, node: int, made: Node, disk: SimDisk
    ) -> None:
        self.node = node
        self.replica_checkers: dict[TopicPartition, ReplicaChecker] = {}
        self._invariants = invariants
        self._images = images
        self._node_created = made
        self._disk = disk
        self.image = ClusterImage()
        """The metadata as this node has it."""
        self.member: QuorumMemberChecker | None = None
        self._raft: QuorumNode | None = None
        self._publisher: MetadataPublisher | None = None
        self._new_images: list[ClusterImage] = []
        """Each batch and each snapshot of the metadata makes an image, several in one event."""
        self._manager: ReplicaManager | None = None
        self._by_directory: dict[str, Copy] = {}
        self._sound_logs: dict[Copy, SoundLogChecker] = {}
        self._to_read: dict[Copy, None] = {}
        self._to_flush: dict[str, Log] = {}
        self._states: dict[ReplicaChecker, None] = {}
        self._set_aside: list[tuple[str, str]] = []
        self._acknowledged: list[Acknowledged] = []
        self._wrong_answer: InvariantBroken | None = None
        self._earlier = invariants.incarnations(node)
        self._parts_changed = self._replicas_changed = self._quorum_changed = True
        watch(made, self._on_parts)

    def close(self) -> None:
        """Stop: the incarnation is gone."""
        with self._disk.read_from_outside():
            for copy in self._by_directory.values():
                copy.close()
        self._images.forget(self.node)

    # -- what is touched

    def written(self, path: str) -> None:
        """A file was written or truncated."""
        copy = self._by_directory.get(path.partition("/")[0])
        if copy is None:
            return
        if copy not in self._to_read:
            self._read_later(copy)
        if copy in self._sound_logs:
            self._sound_logs[copy].indexes.written(path)

    def _read_later(self, copy: Copy) -> None:
        self._to_read[copy] = None
        self._invariants.touch(self)

    def renamed(self, source: str, target: str) -> None:
        """A file or a directory has a new name."""
        if is_set_aside(target):
            self._set_aside.append((source, target))
            self._note_damage(source, target)
            self._invariants.touch(self)
        copy = self._by_directory.get(target.partition("/")[0])
        if copy is not None and target.endswith(".log"):  # a compaction
            self._read_later(copy)

    def _note_damage(self, partition: str, directory: str) -> None:
        """Note that a log is lost because of damage that was found only now: until then it may have
        seemed to be whole. Whether there can be damage is judged later.
        """
        if partition not in self._by_directory and has_mark(self._disk, directory):
            for copy in self._copies(partition):
                copy.mark_lost(self._earlier, everything=True)

    def _copies(self, partition: str) -> list[Copy]:
        """Return the node's logs of that name."""
        named = [p for p in self._images.partitions.values() if p.history.name == partition]
        return [p.copies[self.node] for p in named if self.node in p.copies]

    def _on_parts(self) -> None:
        self._parts_changed = True
        self._invariants.touch(self)

    def _on_replicas(self) -> None:
        self._replicas_changed = True
        self._invariants.touch(self)

    def _on_image(self) -> None:
        assert self._publisher is not None
        self._new_images.append(self._publisher.image)
        self._invariants.touch(self)

    def _on_quorum(self) -> None:
        self._quorum_changed = True
        self._invariants.touch(self)

    def _on_state(self, replica_checker: ReplicaChecker) -> None:
        replica_checker.state_changed()
        self._states[replica_checker] = None
        self._invariants.touch(self)

    def _on_acknowledged(self, batch: Acknowledged) -> None:
        self._acknowledged.append(batch)
        self._invariants.touch(self)

    def _on_epoch_end(self, partition: TopicPartition, asked: int, epoch: int, end: int) -> None:
        copy = self._by_directory.get(str(partition))
        if copy in self._sound_logs:
            self._sound_logs[copy].epochs.answered(asked, epoch, end)

    def _on_lookup(self, replica: Replica, wanted_ms: int, answer: ListedOffset) -> None:
        self._judge_log(lambda: check_lookup(replica, self.node, wanted_ms, answer))

    def _on_deletion(self, replica: Replica, asked: Offset, low: Offset) -> None:
        self._judge_log(lambda: check_deletion(replica, self.node, asked, low, self._disk))

    def _on_coordinator(self, replica: Replica, machine: Machine, make: MakeMachine) -> None:
        self._judge_log(lambda: check_coordinator(replica, self.node, machine, make))

    def _on_effects(self, replica: Replica, machine: Machine, effects: Effects) -> None:
        if isinstance(machine, GroupCoordinator) and not effects.answers and effects.records:
            topics = self.image.topic_ids
            self._judge_log(lambda: check_expiry(replica, self.node, effects, topics))

    def _on_groups(self, replica: Replica, machine: Machine) -> None:
        if isinstance(machine, GroupCoordinator):
            self._judge(lambda: check_groups(replica, self.node, machine))

    def _on_marker(self, partition: TopicPartition, marker: Marker) -> None:
        """The copy was read before the event that appends the marker."""
        checker = self.replica_checkers.get(partition)
        if checker is not None:
            transactions = checker.copy.transactions
            self._judge(lambda: check_marker(partition, self.node, marker, transactions))

    def _judge_log(self, check: Callable[[], None]) -> None:
        """Judge an answer at once: the log may change before the event ends."""
        if self._invariants.disk_past(self.node).damaged:
            return  # an index may be wrong without any sign of it
        with self._disk.read_from_outside():
            self._judge(check)

    def _judge(self, check: Callable[[], None]) -> None:
        try:
            check()
        except InvariantBroken as error:
            self._wrong_answer = self._wrong_answer or error
            self._invariants.touch(self)

    def _on_producer_id(self, producer_id: int) -> None:
        self._judge(lambda: self._invariants.producer_ids.given(producer_id, self.node))

    def _on_flush(self, directory: str, log: Log) -> None:
        self._to_flush[directory] = log
        self._invariants.touch(self)

    # -- looking

    def look(self) -> list[str]:
        """Check what was touched; return the permitted losses. Raises InvariantBroken."""
        with self._disk.read_from_outside():
            excuses = self._look()
            self._check_acknowledged()
            self._check_set_aside()
            if self._wrong_answer is not None:
                raise self._wrong_answer
            return excuses

    def _look(self) -> list[str]:
        if self._parts_changed:
            self._parts_changed = False
            self._find_parts()
        if self._replicas_changed:
            self._replicas_changed = False
            self._find_replicas()
        if self._to_read:
            self._read()
        if self._to_flush:
            self._check_flushed()
        if self._quorum_changed and self.member is not None:
            self._quorum_changed = False
            halted = self._raft is not None and self._raft.halted is not None
            if not halted:  # a halted member could not write its decision, and sends no answer
                self.member.check()
        if self._publisher is not None:
            self._see_images(self._publisher)
        states, self._states = self._states, {}
        manager = self._manager
        if not states or manager is None:
            return []
        image = manager.image
        settled = manager.applied_offset == image.offset
        if settled and image.offset == self._images.newest.offset:
            for each in states:
                each.copy.retired = False  # or it was added again before this node removed it
        return [text for each in states if (text := each.check(image, settled=settled))]

    def _see_images(self, publisher: MetadataPublisher) -> None:
        images, self._new_images = self._new_images, []
        for image in (*images, publisher.image):
            if image is not self.image:
                self.image = image
                self._images.seen(self.node, image)

    def _check_acknowledged(self) -> None:
        acknowledged, self._acknowledged = self._acknowledged, []
        for replica, end in acknowledged:
            checker = self.replica_checkers.get(replica.partition)
            if checker is not None and checker.replica is replica:  # else its topic was deleted
                check_acknowledged(checker.partition, self.node, end)

    def _check_set_aside(self) -> None:
        set_aside, self._set_aside = self._set_aside, []
        for partition, directory in set_aside:
            past = self._invariants.disk_past(self.node)
            marked = has_mark(self._disk, directory)
            check_set_aside(self.node, partition, past, self._copies(partition), marked=marked)

    def _find_parts(self) -> None:
        raft, broker = self._node_created.raft, self._node_created.broker
        if raft is not None and self._raft is None:
            self._raft = raft
            watch(raft, self._on_parts)
            self._open(NAME, raft.log._log, self._invariants.quorum_record.copy(self.node))
            for listener in raft.listeners:
                if isinstance(listener, MetadataPublisher):
                    self._publisher = listener
                    watch(listener, self._on_image)
        if raft is not None and raft._quorum is not None and self.member is None:
            quorum = raft._quorum
            self.member = QuorumMemberChecker(
                self._invariants.quorum_record, self.node, quorum, self._disk
            )
            watch(quorum, self._on_quorum)
        if broker is not None and self._manager is None:
            self._invariants.broker_created(self.node, broker.incarnation_id)
            self._manager = broker.replicas
            watch(self._manager, self._on_replicas)
            watch_acknowledgements(broker._handlers.produce, self._on_acknowledged)
            watch_responses(broker._handlers.offsets, self._on_epoch_end)
            watch_lookups(broker._handlers.offsets, self._on_lookup)
            watch_deletions(broker._handlers.log_admin, self._on_deletion)
            watch_markers(broker._handlers.markers, self._on_marker)
            watch_producer_ids(broker._transactions.ids, self._on_producer_id)
            judges = Judges(self._on_coordinator, self._on_effects, self._on_groups)
            watch_coordinators(broker.groups, judges)
            watch_coordinators(broker._transactions.shards, judges)

    def _find_replicas(self) -> None:
        if self._manager is None:
            return
        hosted = {replica.partition: replica for replica in self._manager.all()}
        for partition, replica_checker in list(self.replica_checkers.items()):
            if hosted.get(partition) is not replica_checker.replica:
                self._drop(partition, replica_checker)
        for partition, replica in hosted.items():
            known = partition in self.replica_checkers
            if not known and replica.topic_id not in self._images.deleted:
                self._add(partition, replica)

    def _drop(self, partition: TopicPartition, replica_checker: ReplicaChecker) -> None:
        """Drop a replica whose files were removed; if it is hosted again, it begins empty."""
        del self.replica_checkers[partition]
        copy = self._by_directory.pop(str(partition))
        self._sound_logs.pop(copy, None)
        copy.close()
        replica_checker.copy.retired = True
        self._states.pop(replica_checker, None)

    def _add(self, partition: TopicPartition, replica: Replica) -> None:
        found = self._images.partition(partition.topic, replica.topic_id, partition.partition)
        may_be_unclean = partial(self._images.may_be_unclean, partition.topic)
        replica_checker = self.replica_checkers[partition] = ReplicaChecker(
            found, self.node, replica, may_be_unclean
        )
        aside = was_set_aside(self._disk, str(partition))
        self._open(str(partition), replica.log, replica_checker.copy, set_aside=aside)
        watch(replica.state, partial(self._on_state, replica_checker))
        self._states[replica_checker] = None

    def _open(self, directory: str, log: Log, copy: Copy, *, set_aside: bool = False) -> None:
        self._by_directory[directory] = copy
        clock = partial(self._invariants.clock, self.node)
        copy.open(log, forgets=partial(_may_have_forgotten, log, clock), set_aside=set_aside)
        if not self._invariants.disk_past(self.node).damaged:
            note = partial(self._read_later, copy)
            self._sound_logs[copy] = SoundLogChecker(copy, log, self._disk, note, clock)
            note()
        watch(log._flusher, partial(self._on_flush, directory, log))
        self._to_flush[directory] = log

    def _read(self) -> None:
        to_read, self._to_read = self._to_read, {}
        for copy in to_read:
            copy.read()
            if copy in self._sound_logs:
                self._sound_logs[copy].check()

    def _check_flushed(self) -> None:
        to_flush, self._to_flush = self._to_flush, {}
        for directory, log in to_flush.items():
            flushed = log.flushed_offset
            copy = self._by_directory.get(directory)
            if copy is None or flushed == copy.flushed:
                continue
            if not is_durable(self._disk, log, flushed):
                raise InvariantBroken(
                    "flushed-is-on-disk",
                    f"{directory}: node {self.node} believes that everything below {flushed} is "
                    "flushed, but a power loss could remove it",
                )
            copy.flushed = flushed


def _may_have_forgotten(log: Log, clock: Callable[[], Clock], timestamp_ms: int) -> bool:
    """Return whether the log's node may have forgotten a producer whose last batch has this
    timestamp (producer.id.expiration.ms).
    """
    return clock().may_have_passed(timestamp_ms, log.config.producer_expiration_ms)
