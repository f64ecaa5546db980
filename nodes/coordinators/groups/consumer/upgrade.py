"""A classic group with members becomes a consumer group, when the first consumer joins (KIP-848).

The members keep what they have, in a group epoch that is the generation. They speak the classic
protocol until they are restarted (`classic_members`). `downgrade` is the way back.
"""

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.classic.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from nodes.coordinators.groups.classic.group import Member as ClassicMember
from nodes.coordinators.groups.consumer import records as r
from nodes.coordinators.groups.consumer.assignors.spec import Assignment
from nodes.coordinators.groups.consumer.draft import Draft
from nodes.coordinators.groups.consumer.member import CurrentAssignment, MemberState
from nodes.coordinators.groups.consumer.operation import Operation
from nodes.coordinators.groups.consumer.requests import Refusal
from nodes.coordinators.groups.embedded import Partitions, read_assignment, read_subscription
from nodes.coordinators.groups.topics import TopicsView

UPGRADES = ("bidirectional", "upgrade")
"""The values of group.consumer.migration.policy that allow it."""


def upgrade(draft: Draft, group: ClassicGroup, op: Operation) -> None:
    """Write the classic group as a consumer group. Raises Refusal if that cannot be."""
    if op.settings.migration_policy not in UPGRADES:
        raise _refused(group, "online upgrade is disabled")
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise _refused(group, "the group does not use the consumer embedded protocol")
    if len(group.members) > op.settings.max_size:
        raise _refused(group, "the group size exceeds the consumer group maximum size")
    assigned: dict[str, Assignment] = {}
    for member in group.members.values():
        try:
            metadata = _metadata(group, member)
            partitions, user_data = read_assignment(member.assignment)
        except ValueError as error:
            reason = "the embedded consumer protocol is malformed"
            raise _refused(group, reason) from error
        if user_data:
            raise _refused(group, "an unsupported custom assignor is in use")
        draft.put_member(member.member_id, metadata)
        assigned[member.member_id] = _by_id(partitions, op.topics)
    names = draft.group.subscribed_names()
    draft.put_epoch(group.generation, op.hashes.group_hash(names, op.topics))
    for member_id, has in assigned.items():
        draft.put_target(member_id, has)
    draft.put_assignment_epoch(group.generation)
    for member_id, has in assigned.items():
        epoch = group.generation
        draft.put_current(member_id, CurrentAssignment(epoch, epoch, MemberState.STABLE, has))
        op.keep_session(draft.group_id, draft.group.members[member_id])


def _metadata(group: ClassicGroup, member: ClassicMember) -> r.ConsumerGroupMemberMetadataValue:
    """What the member said when it joined. Raises ValueError."""
    protocol = group.protocol or member.protocols[0].name
    subscription = read_subscription(member.metadata(protocol))
    return r.ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=subscription.rack,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic_member_metadata=r.ClassicMemberMetadata(
            session_timeout_ms=member.session_timeout_ms,
            supported_protocols=tuple(
                r.ClassicProtocol(name=each.name, metadata=each.metadata)
                for each in member.protocols
            ),
        ),
    )


def _by_id(partitions: Partitions, topics: TopicsView) -> Assignment:
    found = ((topics.topic(name), numbers) for name, numbers in partitions.items())
    return {topic.topic_id: numbers for topic, numbers in found if topic is not None and numbers}


def _refused(group: ClassicGroup, reason: str) -> Refusal:
    return Refusal(
        ErrorCode.group_id_not_found,
        f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}.",
    )
