"""One consumer group, as its records have it, and what follows from them.

The group is a function of the last record of each of its keys, whatever their order, so a compacted
log means the same as the whole one. `apply` alone changes it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from copy import copy
from enum import Enum
from typing import Any, Final, NamedTuple
from uuid import UUID

from nodes.coordinators.groups.consumer import records as r
from nodes.coordinators.groups.consumer.assignors.spec import NOTHING, Assignment
from nodes.coordinators.groups.consumer.member import CurrentAssignment, Member, assignment_of
from nodes.coordinators.records import Decoded


class GroupState(Enum):
    """Kafka's names."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matched at a version of the cluster's metadata."""

    topics: frozenset[str]
    version: int
    wall_ms: int


NOT_CHECKED: Final = -1


class ConsumerGroup:
    """See the module."""

    def __init__(self) -> None:
        self.epoch = 0
        self.metadata_hash = 0
        self.assignment_epoch = 0
        """The group epoch that the target assignment was made for."""
        self.members: dict[str, Member] = {}
        self.targets: dict[str, Assignment] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.has_partition_metadata = False
        """Whether there is a record that Kafka before 4.1 wrote instead of the hash."""
        self.checked_version = NOT_CHECKED
        """The version of the cluster's metadata that `metadata_hash` was last compared with. It is
        not remembered: a new leader compares anew."""
        self._metadata: dict[str, r.ConsumerGroupMemberMetadataValue] = {}
        self._current: dict[str, CurrentAssignment] = {}
        self._has_epoch = self._has_assignment_epoch = False
        self._instances: dict[str, str] = {}
        self._names: Counter[str] = Counter()
        self._regex_subscribers: Counter[str] = Counter()
        self._holders: dict[UUID, dict[int, str]] = {}

    def copy(self) -> "ConsumerGroup":
        """A group that changes apart from this one."""
        other = copy(self)
        for name in ("members", "targets", "regexes", "_metadata", "_current", "_instances"):
            setattr(other, name, dict(getattr(self, name)))
        other._names = Counter(self._names)
        other._regex_subscribers = Counter(self._regex_subscribers)
        other._holders = {topic: dict(held) for topic, held in self._holders.items()}
        return other

    def remembered(self) -> Mapping[str, object]:
        """Everything that the records say, to compare."""
        return {
            "epoch": (self._has_epoch, self.epoch, self.metadata_hash),
            "assignment epoch": (self._has_assignment_epoch, self.assignment_epoch),
            "partition metadata": self.has_partition_metadata,
            "metadata": self._metadata,
            "current": self._current,
            "targets": self.targets,
            "regexes": self.regexes,
        }

    @property
    def exists(self) -> bool:
        """Whether any record of the group is left."""
        return bool(
            self._has_epoch
            or self._has_assignment_epoch
            or self.has_partition_metadata
            or self._metadata
            or self._current
            or self.targets
            or self.regexes
        )

    @property
    def state(self) -> GroupState:
        """How far the members are. It costs O(members)."""
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        settled = all(each.reconciled_to(self.assignment_epoch) for each in self.members.values())
        return GroupState.STABLE if settled else GroupState.RECONCILING

    def static_member(self, instance_id: str) -> Member | None:
        """The member of this instance id."""
        return self.members.get(self._instances.get(instance_id, ""))

    def regex_subscribers(self, regex: str) -> int:
        """How many members subscribe to this regular expression."""
        return self._regex_subscribers[regex]

    def subscribed_regexes(self) -> tuple[str, ...]:
        """The regular expressions that members subscribe to."""
        return tuple(self._regex_subscribers)

    def topic_names(self, member: Member) -> frozenset[str]:
        """The topics that a member subscribes to. An unresolved regular expression has none."""
        names = frozenset(member.metadata.subscribed_topic_names)
        resolved = self.regexes.get(member.regex or "")
        return names if resolved is None else names | resolved.topics

    def subscribed_names(self) -> frozenset[str]:
        """The topics that any member subscribes to."""
        return frozenset(self._names).union(*(each.topics for each in self.regexes.values()))

    def subscribes(self, topic: str) -> bool:
        """Whether any member subscribes to this topic."""
        return topic in self._names or any(topic in each.topics for each in self.regexes.values())

    def holder(self, topic_id: UUID, partition: int) -> str | None:
        """The member that has a partition, or has not yet said that it revoked it."""
        return self._holders.get(topic_id, {}).get(partition)

    def holdings(self) -> Iterator[tuple[UUID, int, str]]:
        """Every partition that a member has."""
        for topic, held in self._holders.items():
            for partition, member_id in held.items():
                yield topic, partition, member_id

    def apply(self, decoded: Decoded) -> None:
        """Take over what a record says."""
        key, value = decoded.key, decoded.value
        match decoded.type:
            case r.METADATA:
                self._has_epoch = value is not None
                self.epoch = 0 if value is None else value.epoch
                self.metadata_hash = 0 if value is None else value.metadata_hash
            case r.TARGET_ASSIGNMENT_METADATA:
                self._has_assignment_epoch = value is not None
                self.assignment_epoch = 0 if value is None else value.assignment_epoch
            case r.PARTITION_METADATA:
                self.has_partition_metadata = value is not None
            case r.REGULAR_EXPRESSION:
                resolved = value and ResolvedRegex(
                    frozenset(value.topics), value.version, value.timestamp
                )
                _put(self.regexes, key.regular_expression, resolved)
            case r.TARGET_ASSIGNMENT_MEMBER:
                target = None if value is None else assignment_of(value.topic_partitions)
                _put(self.targets, key.member_id, target)
            case r.MEMBER_METADATA:
                self._apply_metadata(key.member_id, value)
            case r.CURRENT_MEMBER_ASSIGNMENT:
                current = None if value is None else CurrentAssignment.of(value)
                self._apply_current(key.member_id, current)

    def target(self, member_id: str) -> Assignment:
        """The target assignment of a member."""
        return self.targets.get(member_id, NOTHING)

    def _apply_metadata(
        self, member_id: str, value: r.ConsumerGroupMemberMetadataValue | None
    ) -> None:
        old = self._metadata.get(member_id)
        _put(self._metadata, member_id, value)
        if old is not None:
            _subtract(self._names, old.subscribed_topic_names)
            _subtract(self._regex_subscribers, [old.subscribed_topic_regex or ""])
            if old.instance_id is not None and self._instances.get(old.instance_id) == member_id:
                del self._instances[old.instance_id]
        if value is not None:
            self._names.update(value.subscribed_topic_names)
            if value.subscribed_topic_regex:
                self._regex_subscribers[value.subscribed_topic_regex] += 1
            if value.instance_id is not None:
                self._instances[value.instance_id] = member_id
        self._join(member_id)

    def _apply_current(self, member_id: str, current: CurrentAssignment | None) -> None:
        old = self._current.get(member_id)
        if old is not None:
            for topic, partitions in old.holdings():
                held = self._holders.get(topic, {})
                for partition in partitions:
                    if held.get(partition) == member_id:
                        del held[partition]
                if not held:
                    self._holders.pop(topic, None)
        if current is not None:
            for topic, partitions in current.holdings():
                self._holders.setdefault(topic, {}).update(dict.fromkeys(partitions, member_id))
        _put(self._current, member_id, current)
        self._join(member_id)

    def _join(self, member_id: str) -> None:
        metadata = self._metadata.get(member_id)
        if metadata is None:
            self.members.pop(member_id, None)
            return
        current = self._current.get(member_id, CurrentAssignment())
        self.members[member_id] = Member(member_id, metadata, current)


def _put(table: dict[str, Any], key: str, value: Any) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


def _subtract(counts: Counter[str], names: Iterator[str] | tuple[str, ...] | list[str]) -> None:
    for name in names:
        counts[name] -= 1
        if counts[name] <= 0:
            del counts[name]
