"""The answers about classic groups: field values of the responses (see `machine.Answer`)."""

from collections.abc import Iterable
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.classic.group import ClassicGroup, GroupState
from nodes.coordinators.groups.classic.requests import UNKNOWN_MEMBER_ID, Leaver
from nodes.coordinators.machine import Answer

NO_GENERATION = -1


def join_error(error: ErrorCode, member_id: str = UNKNOWN_MEMBER_ID) -> Answer:
    """JoinGroup fails, or (MEMBER_ID_REQUIRED) tells the id to come back with."""
    return {
        "error_code": error,
        "generation_id": NO_GENERATION,
        "protocol_type": None,
        "protocol_name": None,
        "leader": "",
        "skip_assignment": False,
        "member_id": member_id,
        "members": (),
    }


def joined(group: ClassicGroup, member_id: str, *, skip_assignment: bool = False) -> Answer:
    """JoinGroup succeeds: the member is in the group's generation. Its leader gets all members."""
    leads = group.leader == member_id
    return {
        "error_code": ErrorCode.none,
        "generation_id": group.generation,
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol,
        "leader": group.leader or "",
        "skip_assignment": skip_assignment,
        "member_id": member_id,
        "members": tuple(_joined_members(group)) if leads else (),
    }


def _joined_members(group: ClassicGroup) -> Iterable[dict[str, Any]]:
    for each in group.members.values():
        yield {
            "member_id": each.member_id,
            "group_instance_id": each.instance_id,
            "metadata": each.metadata(group.protocol),
        }


def sync_error(error: ErrorCode) -> Answer:
    """SyncGroup fails."""
    return {
        "error_code": error,
        "protocol_type": None,
        "protocol_name": None,
        "assignment": b"",
    }


def synced(group: ClassicGroup, member_id: str) -> Answer:
    """SyncGroup succeeds: the member's assignment."""
    return {
        "error_code": ErrorCode.none,
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol,
        "assignment": group.members[member_id].assignment,
    }


def left(outcomes: Iterable[tuple[Leaver, ErrorCode]]) -> Answer:
    """LeaveGroup, by member."""
    return {
        "error_code": ErrorCode.none,
        "members": tuple(
            {
                "member_id": leaver.member_id,
                "group_instance_id": leaver.instance_id,
                "error_code": error,
            }
            for leaver, error in outcomes
        ),
    }


def described(group: ClassicGroup) -> Answer:
    """One group of DescribeGroups. A member's metadata is shown while the group is stable."""
    stable = group.state is GroupState.STABLE
    return {
        "error_code": ErrorCode.none,
        "group_id": group.group_id,
        "group_state": group.state.value,
        "protocol_type": group.protocol_type or "",
        "protocol_data": (group.protocol or "") if stable else "",
        "members": tuple(
            {
                "member_id": each.member_id,
                "group_instance_id": each.instance_id,
                "client_id": each.client_id,
                "client_host": each.client_host,
                "member_metadata": each.metadata(group.protocol) if stable else b"",
                "member_assignment": each.assignment,
            }
            for each in group.members.values()
        ),
    }
