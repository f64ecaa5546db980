"""A group as an operation changes it: records are gathered, and applied to a copy of the group.

The group itself changes when the shell replays the records. If the operation is refused, the draft
is thrown away.
"""

from typing import Any

from nodes.coordinators.groups.consumer import records as r
from nodes.coordinators.groups.consumer.assignors.spec import Assignment
from nodes.coordinators.groups.consumer.group import ConsumerGroup, ResolvedRegex
from nodes.coordinators.groups.consumer.member import CurrentAssignment, Member, topic_partitions
from nodes.coordinators.records import CoordinatorRecord, Decoded, RecordType

VERSION = 0
"""Kafka 4.2 writes this version of every record of consumer groups."""


class Draft:
    """See the module. A group that does not exist yet is `None`."""

    def __init__(self, group_id: str, group: ConsumerGroup | None) -> None:
        self.group_id = group_id
        self.group = ConsumerGroup() if group is None else group
        self.records: list[CoordinatorRecord] = []
        self.removed = False
        """Whether a member was removed."""
        self.left = False
        """Whether one was removed whose place nobody took."""
        self._own = group is None

    def put_member(self, member_id: str, metadata: r.ConsumerGroupMemberMetadataValue) -> Member:
        """Write what a member says of itself."""
        self._write(r.MEMBER_METADATA, self._member(member_id), metadata)
        return self.group.members[member_id]

    def put_current(self, member_id: str, current: CurrentAssignment) -> None:
        """Write where a member stands."""
        self._write(r.CURRENT_MEMBER_ASSIGNMENT, self._member(member_id), current.record_value())

    def put_target(self, member_id: str, target: Assignment) -> None:
        """Write what a member shall have."""
        value = r.ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=topic_partitions(target)
        )
        self._write(r.TARGET_ASSIGNMENT_MEMBER, self._member(member_id), value)

    def remove_member(self, member_id: str, *, replaced: bool = False) -> None:
        """Remove a member: where it stands first, itself last, as Kafka's coordinator needs it.

        `replaced`: another one takes its place.
        """
        self.removed = True
        self.left = self.left or not replaced
        for kind in (r.CURRENT_MEMBER_ASSIGNMENT, r.TARGET_ASSIGNMENT_MEMBER, r.MEMBER_METADATA):
            self._write(kind, self._member(member_id), None)

    def put_epoch(self, epoch: int, metadata_hash: int) -> None:
        """Write the group epoch."""
        value = r.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
        self._write(r.METADATA, self._key(), value)

    def put_assignment_epoch(self, epoch: int) -> None:
        """Write the group epoch that the target assignment is for."""
        value = r.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch)
        self._write(r.TARGET_ASSIGNMENT_METADATA, self._key(), value)

    def put_regex(self, regex: str, resolved: ResolvedRegex | None) -> None:
        """Write what a regular expression matched; None removes it."""
        value = resolved and r.ConsumerGroupRegularExpressionValue(
            topics=tuple(sorted(resolved.topics)),
            version=resolved.version,
            timestamp=resolved.wall_ms,
        )
        key = r.RegularExpressionKey(group_id=self.group_id, regular_expression=regex)
        self._write(r.REGULAR_EXPRESSION, key, value)

    def remove_partition_metadata(self) -> None:
        """Remove what Kafka before 4.1 wrote."""
        self._write(r.PARTITION_METADATA, self._key(), None)

    def remove_group(self) -> None:
        """Remove the whole group, in the order that Kafka's coordinator needs."""
        members = list(self.group.members)
        for member_id in members:
            self._write(r.CURRENT_MEMBER_ASSIGNMENT, self._member(member_id), None)
        for member_id in dict.fromkeys([*members, *self.group.targets]):
            self._write(r.TARGET_ASSIGNMENT_MEMBER, self._member(member_id), None)
        self._write(r.TARGET_ASSIGNMENT_METADATA, self._key(), None)
        for member_id in members:
            self._write(r.MEMBER_METADATA, self._member(member_id), None)
        for regex in list(self.group.regexes):
            self.put_regex(regex, None)
        self.remove_partition_metadata()
        self._write(r.METADATA, self._key(), None)

    def _write(self, kind: RecordType, key: Any, value: Any) -> None:
        if not self._own:
            self.group = self.group.copy()
            self._own = True
        self.records.append(kind.encode(key, value, VERSION))
        self.group.apply(Decoded(kind, key, value))

    def _key(self) -> r.GroupKey:
        return r.GroupKey(group_id=self.group_id)

    def _member(self, member_id: str) -> r.MemberKey:
        return r.MemberKey(group_id=self.group_id, member_id=member_id)
