"""A member of a consumer group, as the records have it.

What a member said of itself is one record, where it stands is another. A member exists as long as
the first does.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple
from uuid import UUID

from nodes.coordinators.groups.consumer.assignors.spec import NOTHING, Assignment
from nodes.coordinators.groups.consumer.records import (
    NOT_CLASSIC,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    TopicPartitions,
)

LEAVE_EPOCH = -1
"""The epoch of a member that leaves."""
STATIC_LEAVE_EPOCH = -2
"""The epoch of a static member that leaves, and will come back."""


class MemberState(IntEnum):
    """Where a member stands on the way to its target assignment; numbers as in Kafka's records."""

    STABLE = 0
    """It has its target assignment, as far as it has seen it."""
    UNREVOKED_PARTITIONS = 1
    """It was told to revoke partitions, and has not said that it did."""
    UNRELEASED_PARTITIONS = 2
    """Partitions of its target assignment still belong to others."""
    UNKNOWN = 127
    """A later release wrote a state that this one does not know."""


_STATES: Final = frozenset(state.value for state in MemberState)


class CurrentAssignment(NamedTuple):
    """What a member has, and its epoch. `pending_revocation`: what it must revoke first."""

    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Assignment = NOTHING
    pending_revocation: Assignment = NOTHING

    @staticmethod
    def of(value: ConsumerGroupCurrentMemberAssignmentValue) -> "CurrentAssignment":
        """What a record says."""
        known = value.state in _STATES
        return CurrentAssignment(
            value.member_epoch,
            value.previous_member_epoch,
            MemberState(value.state) if known else MemberState.UNKNOWN,
            assignment_of(value.assigned_partitions),
            assignment_of(value.partitions_pending_revocation),
        )

    def record_value(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        """The value of the record that says this."""
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state,
            assigned_partitions=topic_partitions(self.assigned),
            partitions_pending_revocation=topic_partitions(self.pending_revocation),
        )

    def holdings(self) -> Iterable[tuple[UUID, frozenset[int]]]:
        """All that no other member may have."""
        yield from self.assigned.items()
        yield from self.pending_revocation.items()


class Member(NamedTuple):
    """See the module."""

    member_id: str
    metadata: ConsumerGroupMemberMetadataValue
    current: CurrentAssignment = CurrentAssignment()

    @property
    def classic(self) -> bool:
        """Whether it speaks the classic protocol."""
        return self.metadata.classic_member_metadata != NOT_CLASSIC

    @property
    def regex(self) -> str | None:
        """The regular expression that it subscribes to."""
        return self.metadata.subscribed_topic_regex or None

    @property
    def revokes(self) -> bool:
        """Whether it was told to revoke partitions, and the others wait for it."""
        return bool(self.current.pending_revocation)

    def reconciled_to(self, assignment_epoch: int) -> bool:
        """Whether it has its target assignment of this epoch."""
        current = self.current
        return current.state is MemberState.STABLE and current.epoch == assignment_epoch


def assignment_of(rows: Iterable[TopicPartitions]) -> Assignment:
    """Partitions by topic, of the rows of a record. kio has null for the zero id, of no topic."""
    return {
        row.topic_id: frozenset(row.partitions)
        for row in rows
        if row.topic_id is not None and row.partitions
    }


def topic_partitions(assignment: Assignment) -> tuple[TopicPartitions, ...]:
    """The rows of a record, in ascending order."""
    return tuple(
        TopicPartitions(topic_id=topic, partitions=tuple(sorted(assignment[topic])))
        for topic in sorted(assignment)
    )
