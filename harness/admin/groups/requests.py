"""Requests about groups themselves: list, describe, delete.

A group of the new protocol (KIP-848) is described by ConsumerGroupDescribe, a classic one by
DescribeGroups. As Kafka's client does, the first is asked for every group, and the second for those
that the first does not know.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kio.schema.consumer_protocol_assignment.v0.data import ConsumerProtocolAssignment
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

from harness.admin import topics
from harness.admin.client import AdminClient
from harness.admin.codes import check
from harness.admin.coordinators import Coordinator, KeyType, ask_each
from harness.admin.errors import BadRequest
from harness.admin.groups.descriptions import CLASSIC, CONSUMER, Group, GroupListing, Member
from harness.plans.problems import nearest
from nodes.ids import TopicPartition

_STATES_SINCE: Final = 4
_TYPES_SINCE: Final = 5
_NOT_OF_THIS_KIND: Final = (ErrorCode.group_id_not_found, ErrorCode.unsupported_version)
_DEAD: Final = "Dead"
_CONSUMER_PROTOCOLS: Final = ("consumer", "")
"""Protocol types of groups of consumers; the second is that of a group that only commits."""
_MEMBER_TYPES: Final = {0: False, 1: True}
_read_assignment: Final = entity_reader(ConsumerProtocolAssignment)


async def listed(
    admin: AdminClient, *, states: Sequence[str] = (), types: Sequence[str] = ()
) -> list[GroupListing]:
    """Return the groups in any of these states and of any of these types, by id; () stands for all.

    Every broker is asked for the groups that it coordinates.
    """
    at_least = _TYPES_SINCE if types else _STATES_SINCE if states else 0

    async def attempt() -> dict[str, GroupListing]:
        found = {}
        for broker in (await topics.cluster(admin)).live:
            answer = await admin.request(
                "list_groups",
                to=(broker.host, broker.port),
                at_least=at_least,
                states_filter=states,
                types_filter=types,
            )
            check(answer.error_code, f"groups of broker {broker.node_id}")
            for each in answer.groups:
                found[str(each.group_id)] = GroupListing(
                    group_id=str(each.group_id),
                    # Brokers write "classic", Kafka's tools "Classic".
                    type=getattr(each, "group_type", CLASSIC).capitalize(),
                    state=getattr(each, "group_state", "Unknown"),
                    protocol_type=each.protocol_type,
                )
        return found

    return [group for _, group in sorted((await admin.repeat(attempt)).items())]


async def consumer_groups(
    admin: AdminClient, *, states: Sequence[str] = (), types: Sequence[str] = ()
) -> list[GroupListing]:
    """As `listed`, without the groups of other programs than consumers, as Kafka's tool does."""
    return [
        group
        for group in await listed(admin, states=states, types=types)
        if group.type in (CLASSIC, CONSUMER) and group.protocol_type in _CONSUMER_PROTOCOLS
    ]


async def describe(admin: AdminClient, group_ids: Sequence[str]) -> dict[str, Group | None]:
    """Return each group with its members; None stands for a group that does not exist.

    Raises RequestRefused.
    """
    has_new_protocol = await admin.serves("consumer_group_describe")

    async def ask(coordinator: Coordinator, ids: Sequence[str]) -> Mapping[str, Group | None]:
        found: dict[str, Group | None] = {}
        if has_new_protocol:
            answer = await admin.request(
                "consumer_group_describe", to=coordinator.address, group_ids=ids
            )
            for each in answer.groups:
                if each.error_code not in _NOT_OF_THIS_KIND:
                    check(each.error_code, f"group {each.group_id}", each.error_message)
                    found[str(each.group_id)] = _consumer_group(coordinator, each)
        if rest := [group_id for group_id in ids if group_id not in found]:
            answer = await admin.request("describe_groups", to=coordinator.address, groups=rest)
            for each in answer.groups:
                found[str(each.group_id)] = _classic_group(coordinator, each)
        return found

    return await ask_each(admin, KeyType.group, group_ids, ask)


async def describe_existing(admin: AdminClient, group_ids: Sequence[str]) -> dict[str, Group]:
    """As `describe`. Raises BadRequest about a group that does not exist."""
    found = {}
    for group_id, group in (await describe(admin, group_ids)).items():
        if group is None:
            known = [each.group_id for each in await listed(admin)]
            raise BadRequest(f"group {group_id} does not exist{nearest(group_id, known)}")
        found[group_id] = group
    return found


def _consumer_group(coordinator: Coordinator, answer: Any) -> Group:
    return Group(
        group_id=str(answer.group_id),
        coordinator=coordinator,
        type=CONSUMER,
        state=answer.group_state,
        assignor=answer.assignor_name,
        epoch=int(answer.group_epoch),
        assignment_epoch=int(answer.assignment_epoch),
        members=tuple(
            Member(
                member_id=each.member_id,
                instance_id=each.instance_id,
                client_id=each.client_id,
                host=each.client_host,
                assignment=_partitions(each.assignment),
                target=_partitions(each.target_assignment),
                epoch=int(each.member_epoch),
                upgraded=_MEMBER_TYPES.get(int(getattr(each, "member_type", -1))),
            )
            for each in answer.members
        ),
    )


def _partitions(assignment: Any) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(str(topic.topic_name), int(number))
        for topic in assignment.topic_partitions
        for number in topic.partitions
    )


def _classic_group(coordinator: Coordinator, answer: Any) -> Group | None:
    if answer.error_code is ErrorCode.group_id_not_found or (
        answer.error_code is ErrorCode.none and answer.group_state == _DEAD
    ):
        return None
    check(answer.error_code, f"group {answer.group_id}", getattr(answer, "error_message", None))
    of_consumers = answer.protocol_type in _CONSUMER_PROTOCOLS
    return Group(
        group_id=str(answer.group_id),
        coordinator=coordinator,
        type=CLASSIC,
        state=answer.group_state,
        assignor=answer.protocol_data,
        members=tuple(
            Member(
                member_id=each.member_id,
                instance_id=getattr(each, "group_instance_id", None),
                client_id=each.client_id,
                host=each.client_host,
                assignment=_assigned(each.member_assignment) if of_consumers else (),
            )
            for each in answer.members
        ),
    )


def _assigned(raw: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions in the assignment of a consumer of a classic group.

    The broker does not read these bytes: clients write them. Bytes that are no assignment stand for
    no partition. All versions begin with the fields of version 0.
    """
    if len(raw) <= struct.calcsize(">h"):
        return ()
    try:
        assignment, _ = _read_assignment(raw, struct.calcsize(">h"))
    except Exception:  # kio's readers raise a family of unrelated types
        return ()
    return tuple(
        TopicPartition(str(topic.topic), int(number))
        for topic in assignment.assigned_partitions
        for number in topic.partitions
    )


async def delete(admin: AdminClient, group_ids: Sequence[str]) -> None:
    """Delete the groups and their offsets. Raises RequestRefused about the first that stays."""
    asked: set[str] = set()

    async def ask(coordinator: Coordinator, ids: Sequence[str]) -> Mapping[str, None]:
        asked_before = asked & set(ids)
        asked.update(ids)
        answer = await admin.request("delete_groups", to=coordinator.address, groups_names=ids)
        for each in answer.results:
            # An earlier attempt whose answer was lost may have deleted the group.
            is_gone = each.error_code is ErrorCode.group_id_not_found
            if not is_gone or each.group_id not in asked_before:
                check(each.error_code, f"group {each.group_id}")
        return dict.fromkeys(ids)

    await ask_each(admin, KeyType.group, group_ids, ask)
