"""A consumer group becomes a classic group when its last consumer is gone (KIP-848).

The members that are left speak the classic protocol. They keep what they have, in a generation that
is the group epoch. A rebalance begins at once, and they are told to join again. Only when a static
member took the place of the last consumer, and nothing else changed, is there none: then all have
what they shall have.
"""

from typing import Final

from nodes.coordinators.groups.classic.group import (
    CONSUMER_PROTOCOL_TYPE,
    ClassicGroup,
    GroupState,
)
from nodes.coordinators.groups.classic.group import Member as ClassicMember
from nodes.coordinators.groups.classic.requests import MemberProtocol
from nodes.coordinators.groups.consumer.classic_members import assignment_bytes
from nodes.coordinators.groups.consumer.group import ConsumerGroup
from nodes.coordinators.groups.consumer.member import Member
from nodes.coordinators.groups.settings import ConsumerSettings
from nodes.coordinators.groups.topics import TopicsView

DOWNGRADES: Final = ("bidirectional", "downgrade")
"""The values of group.consumer.migration.policy that allow it."""


def is_due(group: ConsumerGroup, settings: ConsumerSettings) -> bool:
    """Whether only members of the classic protocol are left, and the settings allow it."""
    members = group.members.values()
    allowed = settings.migration_policy in DOWNGRADES
    return allowed and bool(members) and all(each.classic for each in members)


def is_settled(group: ConsumerGroup) -> bool:
    """Whether all members have what they shall have. Kafka looks at the group epoch alone."""
    return group.epoch == group.assignment_epoch and all(
        each.reconciled_to(group.epoch) for each in group.members.values()
    )


def downgraded(
    group_id: str, group: ConsumerGroup, topics: TopicsView, wall_ms: int
) -> ClassicGroup:
    """The group as a stable classic group."""
    classic = ClassicGroup(
        group_id,
        GroupState.STABLE,
        wall_ms,
        group.epoch,
        CONSUMER_PROTOCOL_TYPE,
    )
    for member in group.members.values():
        classic.add(_classic_member(member, topics))
    classic.protocol = classic.select_protocol()
    return classic


def _classic_member(member: Member, topics: TopicsView) -> ClassicMember:
    metadata = member.metadata
    known = metadata.classic_member_metadata
    return ClassicMember(
        member_id=member.member_id,
        instance_id=metadata.instance_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        rebalance_timeout_ms=metadata.rebalance_timeout_ms,
        session_timeout_ms=known.session_timeout_ms,
        protocols=tuple(
            MemberProtocol(each.name, each.metadata) for each in known.supported_protocols
        ),
        assignment=assignment_bytes(member, topics),
    )
