"""Members of the classic protocol in a consumer group (KIP-848: online migration).

Such a member joins, syncs and sends heartbeats as ever. But no leader assigns: each join brings the
member a step to its target assignment, as a heartbeat of the consumer protocol would, and a sync
tells what it has. Its generation is its member epoch. A heartbeat tells it to join again when there
is something to revoke or to get.
"""

from collections.abc import Sequence
from dataclasses import replace

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.classic import answers
from nodes.coordinators.groups.classic.requests import (
    MEMBER_ID_REQUIRED_SINCE,
    Identity,
    Join,
    Leaver,
    Sync,
)
from nodes.coordinators.groups.consumer import records as r
from nodes.coordinators.groups.consumer.advance import advance, replaced
from nodes.coordinators.groups.consumer.draft import Draft
from nodes.coordinators.groups.consumer.group import ConsumerGroup
from nodes.coordinators.groups.consumer.heartbeat import check_room, unknown_member
from nodes.coordinators.groups.consumer.leaving import remove
from nodes.coordinators.groups.consumer.member import Member, MemberState
from nodes.coordinators.groups.consumer.operation import Operation
from nodes.coordinators.groups.consumer.requests import Refusal
from nodes.coordinators.groups.embedded import (
    Subscription,
    read_subscription,
    version_of,
    write_assignment,
)
from nodes.coordinators.groups.topics import TopicsView
from nodes.coordinators.machine import Answer

CONSUMER = "consumer"
"""The protocol type of consumers."""


def join(draft: Draft, request: Join, op: Operation) -> Answer:
    """JoinGroup. It is answered at once. Raises Refusal."""
    who = request.who
    check_room(draft.group, who.member_id, op)
    subscription = _subscription(draft.group, request)
    nameless = not who.member_id and who.instance_id is None
    if nameless and request.version >= MEMBER_ID_REQUIRED_SINCE:
        return answers.join_error(ErrorCode.member_id_required, op.new_id())
    member_id = who.member_id or op.new_id()
    before = _member_that_joins(draft, who, member_id)
    old = r.ConsumerGroupMemberMetadataValue() if before is None else before.metadata
    metadata = replace(
        old,
        instance_id=who.instance_id if who.instance_id is not None else old.instance_id,
        rack_id=subscription.rack or old.rack_id,
        client_id=request.client.id,
        client_host=request.client.host,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        subscribed_topic_regex="",
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        classic_member_metadata=classic_metadata(request),
    )
    owned = {
        topic.topic_id: partitions
        for name, partitions in subscription.owned.items()
        if (topic := op.topics.topic(name)) is not None
    }
    member = advance(draft, before, member_id, metadata, owned, op)
    op.keep_session(draft.group_id, member)
    op.lift("join", draft.group_id, member_id)
    op.limit("sync", draft.group_id, member_id, request.rebalance_timeout_ms)
    return {
        "error_code": ErrorCode.none,
        "generation_id": member.current.epoch,
        "protocol_type": CONSUMER,
        "protocol_name": request.protocols[0].name,
        "leader": "",
        "skip_assignment": False,
        "member_id": member_id,
        "members": (),
    }


def classic_metadata(request: Join) -> r.ClassicMemberMetadata:
    """What is remembered only of members of the classic protocol."""
    return r.ClassicMemberMetadata(
        session_timeout_ms=request.session_timeout_ms,
        supported_protocols=tuple(
            r.ClassicProtocol(name=each.name, metadata=each.metadata) for each in request.protocols
        ),
    )


def sync(draft: Draft, request: Sync, op: Operation) -> Answer:
    """SyncGroup: what the member has, in the version of its subscription. Raises Refusal."""
    member = _classic_member(draft, request.who, request.generation)
    protocol = member.metadata.classic_member_metadata.supported_protocols[0]
    if request.protocol_type not in (None, CONSUMER):
        raise _refused(ErrorCode.inconsistent_group_protocol)
    if request.protocol not in (None, protocol.name):
        raise _refused(ErrorCode.inconsistent_group_protocol)
    revokes = member.current.state is MemberState.UNREVOKED_PARTITIONS
    if draft.group.epoch > member.current.epoch and not revokes:
        _tell_to_join(draft, member, op)
        raise _refused(ErrorCode.rebalance_in_progress)
    op.lift("sync", draft.group_id, member.member_id)
    op.keep_session(draft.group_id, member)
    return {
        "error_code": ErrorCode.none,
        "protocol_type": request.protocol_type,
        "protocol_name": request.protocol,
        "assignment": assignment_bytes(member, op.topics),
    }


def heartbeat(draft: Draft, who: Identity, generation: int, op: Operation) -> Answer:
    """Heartbeat. Raises Refusal; the session of a member that must join again goes on, too."""
    member = _classic_member(draft, who, generation)
    op.keep_session(draft.group_id, member)
    current, group = member.current, draft.group
    released = current.state is MemberState.UNRELEASED_PARTITIONS and not _waits(group, member)
    behind = current.epoch < group.epoch
    if behind or released or current.state is MemberState.UNREVOKED_PARTITIONS:
        _tell_to_join(draft, member, op)
        raise _refused(ErrorCode.rebalance_in_progress)
    return {"error_code": ErrorCode.none}


def leave(draft: Draft, leavers: Sequence[Leaver], op: Operation) -> Answer:
    """LeaveGroup: each leaver by its member id, its instance id, or both."""
    outcomes = [_leave(draft, each, op) for each in leavers]
    return answers.left(zip(leavers, outcomes, strict=True))


def _leave(draft: Draft, leaver: Leaver, op: Operation) -> ErrorCode:
    group = draft.group
    if leaver.instance_id is None:
        member = group.members.get(leaver.member_id)
    else:
        member = group.static_member(leaver.instance_id)
        if member is not None and leaver.member_id not in ("", member.member_id):
            return ErrorCode.fenced_instance_id
    if member is None:
        return ErrorCode.unknown_member_id
    remove(draft, member.member_id, op)
    return ErrorCode.none


def _subscription(group: ConsumerGroup, request: Join) -> Subscription:
    """What the request subscribes to. All members of the classic protocol must have one in common.

    Raises Refusal.
    """
    others = [
        {each.name for each in member.metadata.classic_member_metadata.supported_protocols}
        for member in group.members.values()
        if member.classic
    ]
    names = [each.name for each in request.protocols]
    common = any(all(name in each for each in others) for name in names)
    if request.protocol_type != CONSUMER or not common:
        raise _refused(ErrorCode.inconsistent_group_protocol)
    try:
        return read_subscription(request.protocols[0].metadata)
    except ValueError as error:
        raise _refused(ErrorCode.inconsistent_group_protocol) from error


def _member_that_joins(draft: Draft, who: Identity, member_id: str) -> Member | None:
    """The member; None if it is new. A static member takes over the place of the old one."""
    if who.instance_id is None:
        return draft.group.members.get(member_id)
    static = draft.group.static_member(who.instance_id)
    if not who.member_id:
        return None if static is None else replaced(draft, static, member_id)
    if static is None:
        raise _refused(ErrorCode.unknown_member_id)
    if static.member_id != member_id:
        raise _refused(ErrorCode.fenced_instance_id)
    return static


def _classic_member(draft: Draft, who: Identity, generation: int) -> Member:
    if who.instance_id is None:
        member = draft.group.members.get(who.member_id)
    else:
        member = draft.group.static_member(who.instance_id)
        if member is not None and member.member_id != who.member_id:
            raise _refused(ErrorCode.fenced_instance_id)
    if member is None or not member.classic:
        raise unknown_member(who.member_id, draft.group_id)
    if member.current.epoch != generation:
        raise _refused(ErrorCode.illegal_generation)
    return member


def _tell_to_join(draft: Draft, member: Member, op: Operation) -> None:
    """The member has its rebalance time-out to join again; told once more, it has no longer."""
    if not op.is_limited("join", draft.group_id, member.member_id):
        timeout_ms = member.metadata.rebalance_timeout_ms
        op.limit("join", draft.group_id, member.member_id, timeout_ms)


def _waits(group: ConsumerGroup, member: Member) -> bool:
    """Whether another member has a partition that this one shall have."""
    target = group.target(member.member_id)
    return any(
        group.holder(topic, partition) not in (None, member.member_id)
        for topic, partitions in target.items()
        for partition in partitions
    )


def assignment_bytes(member: Member, topics: TopicsView) -> bytes:
    """What the member has, in the version of its subscription."""
    protocol = member.metadata.classic_member_metadata.supported_protocols[0]
    named = ((topics.topic_of(each), held) for each, held in member.current.assigned.items())
    by_name = {topic.name: held for topic, held in named if topic is not None}
    return write_assignment(by_name, version_of(protocol.metadata))


def _refused(error: ErrorCode) -> Refusal:
    return Refusal(error, error.name)
