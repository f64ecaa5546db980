"""A consumer group becomes a classic group when its last consumer is gone (KIP-848).

The members that are left speak the classic protocol. They keep what they have, in a generation that
is the group epoch, and are told to join again: a rebalance begins at once.

Kafka also does this when a static member of the classic protocol takes the place of the last
consumer; here such a group stays a consumer group until another member leaves.
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
