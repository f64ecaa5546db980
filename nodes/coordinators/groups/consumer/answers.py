"""The answers about consumer groups: field values of the responses (see `machine.Answer`)."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.consumer.assignors.spec import Assignment
from nodes.coordinators.groups.consumer.group import ConsumerGroup
from nodes.coordinators.groups.consumer.member import Member
from nodes.coordinators.groups.consumer.requests import Refusal
from nodes.coordinators.groups.topics import TopicsView
from nodes.coordinators.machine import Answer


def refused(refusal: Refusal) -> Answer:
    """ConsumerGroupHeartbeat fails."""
    return {"error_code": refusal.error, "error_message": refusal.message}


def left(member_id: str, member_epoch: int) -> Answer:
    """The member left."""
    return {"error_code": ErrorCode.none, "member_id": member_id, "member_epoch": member_epoch}


def heard(member: Member, interval_ms: int, *, tell_assignment: bool) -> Answer:
    """The member's epoch, and what it has now, if it does not know."""
    assigned = member.current.assigned
    return {
        "error_code": ErrorCode.none,
        "member_id": member.member_id,
        "member_epoch": member.current.epoch,
        "heartbeat_interval": timedelta(milliseconds=interval_ms),
        "assignment": {"topic_partitions": tuple(_rows(assigned))} if tell_assignment else None,
    }


def described(
    group_id: str, group: ConsumerGroup | None, assignor: str, topics: TopicsView
) -> Answer:
    """One group of ConsumerGroupDescribe. Members are sorted by their ids."""
    if group is None:
        return {
            "group_id": group_id,
            "error_code": ErrorCode.group_id_not_found,
            "error_message": f"Group {group_id} not found.",
        }
    return {
        "error_code": ErrorCode.none,
        "group_id": group_id,
        "group_state": group.state.value,
        "group_epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor_name": assignor,
        "members": tuple(
            _described_member(group.members[each], group.target(each), topics)
            for each in sorted(group.members)
        ),
    }


def _described_member(member: Member, target: Assignment, topics: TopicsView) -> dict[str, Any]:
    metadata = member.metadata
    return {
        "member_id": member.member_id,
        "instance_id": metadata.instance_id,
        "rack_id": metadata.rack_id,
        "member_epoch": member.current.epoch,
        "client_id": metadata.client_id,
        "client_host": metadata.client_host,
        "subscribed_topic_names": metadata.subscribed_topic_names,
        "subscribed_topic_regex": metadata.subscribed_topic_regex,
        "assignment": {"topic_partitions": tuple(_named_rows(member.current.assigned, topics))},
        "target_assignment": {"topic_partitions": tuple(_named_rows(target, topics))},
        "member_type": 0 if member.classic else 1,
    }


def _rows(assignment: Assignment) -> Iterable[dict[str, Any]]:
    for topic_id in sorted(assignment):
        yield {"topic_id": topic_id, "partitions": tuple(sorted(assignment[topic_id]))}


def _named_rows(assignment: Assignment, topics: TopicsView) -> Iterable[dict[str, Any]]:
    """As `_rows`, with names; topics that were deleted are left out, as in Kafka."""
    for row in _rows(assignment):
        topic = topics.topic_of(row["topic_id"])
        if topic is not None:
            yield {**row, "topic_name": topic.name}
