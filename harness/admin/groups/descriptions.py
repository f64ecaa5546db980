"""Groups, their members and their offsets as plain values; None stands for facts that the cluster
does not report."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from harness.admin.coordinators import Coordinator
from nodes.ids import TopicPartition

CLASSIC: Final = "Classic"
CONSUMER: Final = "Consumer"
EMPTY: Final = "Empty"
REBALANCING: Final = frozenset(
    {"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"}
)
"""The states of a group whose members do not have their partitions yet, or not all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """One group as ListGroups lists it, in Kafka's words ("Consumer", "Stable", "consumer")."""

    group_id: str
    type: str
    state: str
    protocol_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member of a group.

    Members of classic groups have no epoch and no target assignment. `upgraded` says whether a
    member of a consumer group uses the new protocol (KIP-848).
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...] | None = None
    epoch: int | None = None
    upgraded: bool | None = None

    def __str__(self) -> str:
        return f"{self.member_id} (client {self.client_id} at {self.host.lstrip('/')})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One group with its members; classic groups have no epochs."""

    group_id: str
    coordinator: Coordinator
    type: str
    state: str
    assignor: str
    members: tuple[Member, ...]
    epoch: int | None = None
    assignment_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """The offset that a group committed for a partition, and what the client added to it."""

    offset: int
    leader_epoch: int | None
    metadata: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far a group has read one partition, and the member that reads it, if any."""

    partition: TopicPartition
    committed: CommittedOffset | None
    log_end_offset: int | None
    member: Member | None

    @property
    def lag(self) -> int | None:
        """The number of offsets from the committed one to the log end."""
        if self.committed is None or self.log_end_offset is None:
            return None
        return self.log_end_offset - self.committed.offset


def positions(
    group: Group,
    committed: Mapping[TopicPartition, CommittedOffset],
    log_ends: Mapping[TopicPartition, int],
) -> list[Position]:
    """Join a group with its offsets, in the order of kafka-consumer-groups.

    That is: the partitions of each member, the member with most partitions first, then the
    partitions that only have a committed offset.
    """

    def rows() -> Iterator[tuple[TopicPartition, Member | None]]:
        assigned: set[TopicPartition] = set()
        for member in sorted(group.members, key=lambda each: -len(each.assignment)):
            assigned.update(member.assignment)
            for partition in sorted(member.assignment):
                yield partition, member
        for partition in sorted(set(committed) - assigned):
            yield partition, None

    return [
        Position(
            partition=partition,
            committed=committed.get(partition),
            log_end_offset=log_ends.get(partition),
            member=member,
        )
        for partition, member in rows()
    ]
