"""The metadata images of the nodes: what an image may say, and that all nodes have the same images.

- Images at one offset are equal on all nodes, with their tables in the same order, whether a node
  has them from the log or from a snapshot and the rest of the log. So a snapshot makes the image
  that the whole log up to its offset makes.
- A partition's epochs never go back, and a leader epoch has one leader.
- The next producer id never goes back.
- A fenced broker is in no ISR (KIP-841); without eligible leader replicas this holds for partitions
  that have a leader.
- A replica in the ISR or among the eligible leader replicas (KIP-966) has each committed record,
  unless it lost power or its disk and the image does not know that yet.
- Assignments change as `assignments` says.

The newest image is checked for what it says of the cluster. Older images, on nodes that lag behind,
are only compared.
"""

from collections import deque
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from harness.simulation.invariants.assignments import check_assignment
from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.log_copy import Copy
from harness.simulation.invariants.partition_history import NEVER, PartitionHistory
from nodes.ids import NO_NODE, Epoch, NodeId
from nodes.metadata.image import ClusterImage, PartitionImage, TopicImage
from nodes.metadata.records import ELIGIBLE_LEADER_REPLICAS_FEATURE, RECOVERING
from nodes.metadata.topic_configs import effective

UNCLEAN: Final = "unclean.leader.election.enable"
FLUSH: Final = "flush.messages"
KEPT: Final = 2000
"""How many images are kept for nodes that lag behind."""

PartitionOf = tuple[UUID, int]
"""A partition by its topic id."""

FIELDS: Final = (
    "epoch",
    "brokers",
    "topics",
    "topic_ids",
    "configs",
    "features",
    "next_producer_id",
    "transaction",
)


class Partition:
    """What all replicas of one partition have done so far."""

    def __init__(self, name: str) -> None:
        self.history = PartitionHistory(name)
        self.copies: dict[int, Copy] = {}
        self.unclean: dict[int, bool] = {}
        """Leader epochs that a permitted unclean election began. The value tells whether the leader
        was one of the last known members (KIP-966); otherwise any replica could lead."""
        self.flushes_otherwise = False
        """Whether flush.messages ever changed: a follower uses the value that it knew when it
        claimed records, a leader the value that it knows when it commits them."""
        self.judged_epoch = NEVER
        """The last epoch whose leader had everything, or was permitted to lack something."""

    @property
    def may_have_lost(self) -> bool:
        """Whether an unclean election may have given up committed records."""
        return max(self.unclean, default=NEVER) > self.judged_epoch

    def unclean_by(self, epoch: int) -> int | None:
        """Return the last unclean epoch up to this one, if it is later than the last
        judged epoch.
        """
        found = (each for each in self.unclean if self.judged_epoch < each <= epoch)
        return max(found, default=None)

    def is_past_unclean_leader(self, epoch: int) -> bool:
        """Whether the epoch came by an unclean election, and a later one is judged already: its
        leader hears of its own election late, and nobody follows it."""
        past = epoch < self.history.reset_epoch <= self.judged_epoch
        return past and any(each <= epoch for each in self.unclean)

    def may_have_truncated(self, copy: Copy, epoch: int) -> bool:
        """Whether a member of the ISR of `epoch` may have truncated what it had then: its node
        knows the leader of an unclean election, or knows none since its start. The leader of
        `epoch` need not have heard of that election.
        """
        unclean = self.history.reset_epoch
        return epoch < unclean and not NEVER < copy.epoch < unclean

    def copy(self, node: int) -> Copy:
        """Return the node's log of the partition."""
        found = self.copies.get(node)
        if found is None:
            found = self.copies[node] = Copy(self.history, node)
        return found


class Images:
    """See the module."""

    def __init__(self) -> None:
        self.newest = ClusterImage()
        self.static: Mapping[str, str] = {}
        """The properties that all nodes have in their files."""

        self.partitions: dict[PartitionOf, Partition] = {}
        self.deleted: set[UUID] = set()
        """The topics that the newest image has no more. A node that lags behind may have them."""
        self._first: dict[int, ClusterImage] = {}
        """The first image that was seen at each offset."""
        self._offsets: deque[int] = deque()
        self._equal: dict[int, tuple[ClusterImage, ClusterImage]] = {}
        """Per node: the last image, and the first image at its offset, which were found equal."""

    def partition(self, name: str, topic_id: UUID, number: int) -> Partition:
        """Return the record of a partition."""
        key = topic_id, number
        found = self.partitions.get(key)
        if found is None:
            found = self.partitions[key] = Partition(f"{name}-{number}")
        return found

    def seen(self, node: int, image: ClusterImage) -> None:
        """A node has this image now."""
        first = self._first.get(image.offset)
        if first is not None:
            self._compare(node, image, first)
            return
        self._first[image.offset] = image
        self._offsets.append(image.offset)
        if len(self._offsets) > KEPT:
            del self._first[self._offsets.popleft()]
        if image.offset > self.newest.offset:
            before, self.newest = self.newest, image
            self._judge(before, image)

    def forget(self, node: int) -> None:
        """The node's incarnation is gone."""
        self._equal.pop(node, None)

    def _compare(self, node: int, image: ClusterImage, first: ClusterImage) -> None:
        last = self._equal.get(node)
        for name in FIELDS:
            mine, theirs = getattr(image, name), getattr(first, name)
            if last and mine is getattr(last[0], name) and theirs is getattr(last[1], name):
                continue
            if mine is not theirs and mine != theirs:
                raise InvariantBroken(
                    "equal-images",
                    f"node {node}'s metadata at offset {image.offset} has other {name} than the "
                    f"first image at that offset: {_difference(mine, theirs)}",
                )
            if mine is not theirs and _order(mine) != _order(theirs):
                raise InvariantBroken(
                    "equal-images",
                    f"node {node}'s metadata at offset {image.offset} has its {name} in another "
                    f"order than the first image at that offset: {_order(mine)} instead of "
                    f"{_order(theirs)}",
                )
        self._equal[node] = image, first

    # -- the newest image

    def _judge(self, before: ClusterImage, image: ClusterImage) -> None:
        if image.next_producer_id < before.next_producer_id:
            raise InvariantBroken(
                "producer-ids-once",
                f"at metadata offset {image.offset}, the next producer id goes back from "
                f"{before.next_producer_id} to {image.next_producer_id}",
            )
        if image.configs is not before.configs:
            self._note_flushing(before, image)
        brokers_changed = image.brokers is not before.brokers
        for topic_id, topic in image.topics.items():
            known = before.topics.get(topic_id)
            if topic is known and not brokers_changed:
                continue
            for number, partition in topic.partitions.items():
                old = None if known is None else known.partitions.get(number)
                if old is partition or old == partition:
                    if brokers_changed:
                        self._check_fenced(image, topic.name, number, partition)
                    continue
                found = self.partition(topic.name, topic_id, number)
                self._changed(image, topic.name, found, old, partition)
                self._check_fenced(image, topic.name, number, partition)
        for topic_id in before.topics:
            if topic_id not in image.topics:
                self.deleted.add(topic_id)
                for number in before.topics[topic_id].partitions:
                    self.partitions.pop((topic_id, number), None)

    def _note_flushing(self, before: ClusterImage, image: ClusterImage) -> None:
        for topic_id in before.topics.keys() & image.topics.keys():
            topic = image.topics[topic_id]
            then, now = (
                effective(FLUSH, each, self.static, topic=topic.name) for each in (before, image)
            )
            if then != now:
                for number in topic.partitions:
                    self.partition(topic.name, topic_id, number).flushes_otherwise = True

    def _changed(
        self,
        image: ClusterImage,
        topic: str,
        found: Partition,
        old: PartitionImage | None,
        new: PartitionImage,
    ) -> None:
        name = found.history.name
        if old is not None and (
            new.partition_epoch < old.partition_epoch or new.leader_epoch < old.leader_epoch
        ):
            raise InvariantBroken(
                "epochs-rise",
                f"{name}: at metadata offset {image.offset}, partition epoch "
                f"{old.partition_epoch} becomes {new.partition_epoch} and leader epoch "
                f"{old.leader_epoch} becomes {new.leader_epoch}",
            )
        check_assignment(name, image.offset, old, new)
        if new.leader != NO_NODE:
            found.history.leader_known(new.leader_epoch, new.leader, new.leader)
        if new.leader_recovery_state == RECOVERING:
            self._note_unclean(image, topic, found, old, new)
        for node, copy in found.copies.items():
            copy.retired = copy.retired or node not in new.replicas
        for what, nodes in (("in the ISR", new.isr), ("eligible", new.elr)):
            for node in nodes:
                why = self.lacks(image, found, node)
                if why and not self._is_last_member(image, found, new):
                    raise InvariantBroken(
                        "isr-has-all-committed",
                        f"{name}: node {node} is {what} at metadata offset {image.offset} (leader "
                        f"{new.leader} in epoch {new.leader_epoch}, ISR {list(new.isr)}, eligible "
                        f"{list(new.elr)}), but {why}",
                    )

    def _note_unclean(
        self,
        image: ClusterImage,
        topic: str,
        found: Partition,
        old: PartitionImage | None,
        new: PartitionImage,
    ) -> None:
        """Record an election that may be unclean: of the leader, or of a node that was elected and
        fenced between two images.
        """
        seen = new.leader != NO_NODE
        elected = (new.leader,) if seen else (*new.isr, *new.elr)
        epoch = new.leader_epoch if seen else Epoch(new.leader_epoch - 1)
        if old is not None and epoch <= old.leader_epoch:
            return
        known = old is not None and any(node in old.last_known_elr for node in elected)
        anybody = self.may_be_unclean(topic, image)
        if known or anybody:
            found.unclean[epoch] = not anybody

    def lacks(self, image: ClusterImage, found: Partition, node: int) -> str:
        """Return which committed records the node lacks; empty if it lacks none, or if the image
        cannot know of its loss yet.
        """
        top = found.history.last_committed()
        if top is None or found.may_have_lost:
            return ""
        copy = found.copies.get(node)
        if copy is None:
            return f"it has no log, and {top} is committed"
        if copy.caught_up(top) or not knows_of_loss(image, copy):
            return ""
        return f"its log ends at {copy.end} with {copy.last}, and {top} is committed"

    @staticmethod
    def _is_last_member(image: ClusterImage, found: Partition, new: PartitionImage) -> bool:
        """Whether the node is the last ISR member: without eligible leader replicas, it stays in
        the ISR whatever it lost.
        """
        return (
            not image.features.get(ELIGIBLE_LEADER_REPLICAS_FEATURE)
            and len(new.isr) == 1
            and all(found.copy(node).lost_before is not None for node in new.isr)
        )

    def may_be_unclean(self, topic: str, image: ClusterImage) -> bool:
        """Whether any replica may lead the topic's partitions."""
        value = effective(UNCLEAN, image, self.static, topic=topic)
        return value.lower() == "true"

    @staticmethod
    def _check_fenced(
        image: ClusterImage, topic: str, number: int, partition: PartitionImage
    ) -> None:
        if partition.leader == NO_NODE and not image.features.get(ELIGIBLE_LEADER_REPLICAS_FEATURE):
            return  # the last members stay
        for node in partition.isr:
            broker = image.brokers.get(node)
            if broker is None or broker.fenced:
                raise InvariantBroken(
                    "no-fenced-member",
                    f"{topic}-{number}: node {node} is in the ISR {list(partition.isr)} at "
                    f"metadata offset {image.offset}, but it is "
                    f"{'not registered' if broker is None else 'fenced'}",
                )


def knows_of_loss(image: ClusterImage, copy: Copy) -> bool:
    """Whether the image has a registration of the node from after its loss."""
    broker = image.brokers.get(NodeId(copy.node))
    if copy.lost_before is None:
        return True
    return broker is not None and broker.incarnation_id not in copy.lost_before


def _order(table: object) -> list[object]:
    """Return the keys of a table in their order, each with those of its inner table."""
    if isinstance(table, TopicImage):
        return list(table.partitions)
    if not isinstance(table, Mapping):
        return []
    return [(key, _order(value)) for key, value in table.items()]


def _difference(mine: object, theirs: object) -> str:
    if not isinstance(mine, dict) or not isinstance(theirs, dict):
        return f"{mine!r} instead of {theirs!r}"
    keys = [key for key in {**mine, **theirs} if mine.get(key) != theirs.get(key)]
    return "; ".join(f"{mine.get(key)!r} instead of {theirs.get(key)!r}" for key in keys[:3])
