"""ConsumerGroupHeartbeat in the fields that the machine needs, and whether it makes sense."""

from collections.abc import Collection
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.consumer.assignors.spec import Assignment
from nodes.coordinators.groups.consumer.member import LEAVE_EPOCH, STATIC_LEAVE_EPOCH

UNCHANGED = -1
"""A rebalance timeout that was not sent."""
MEMBER_ID_REQUIRED_SINCE = 1
"""From this version on the client makes the member id."""
LONGEST_ID = 32_767
"""Bytes of a group id or member id: keys of records have strings of two length bytes. Kafka reads
longer ones, fails to write them, and says UNKNOWN_SERVER_ERROR."""


class Refusal(Exception):
    """The request is answered with an error; nothing changes."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


class Heartbeat(NamedTuple):
    """None everywhere: not sent, because it did not change since the last heartbeat."""

    group_id: str
    member_id: str
    member_epoch: int
    """0 joins, -1 leaves, -2 leaves for a while (static members only)."""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = UNCHANGED
    topic_names: tuple[str, ...] | None = None
    topic_regex: str | None = None
    assignor: str | None = None
    owned: Assignment | None = None
    """The partitions that the member has."""
    client_id: str = ""
    client_host: str = ""
    version: int = MEMBER_ID_REQUIRED_SINCE
    """The version of the request."""

    @property
    def joins(self) -> bool:
        """Whether the member joins, or joins again."""
        return self.member_epoch == 0

    @property
    def leaves(self) -> bool:
        """Whether the member leaves, for ever or for a while."""
        return self.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH)

    @property
    def is_full(self) -> bool:
        """Whether it says everything: then it is told everything."""
        subscribes = self.topic_names is not None or self.topic_regex is not None
        return self.rebalance_timeout_ms != UNCHANGED and subscribes and self.owned is not None


def check(heartbeat: Heartbeat, assignors: Collection[str]) -> None:
    """Raise Refusal if the request is wrong whatever the group is, as Kafka checks it."""
    if (
        heartbeat.version >= MEMBER_ID_REQUIRED_SINCE
        or heartbeat.member_epoch > 0
        or heartbeat.member_epoch == LEAVE_EPOCH
    ):
        _check_text("MemberId", heartbeat.member_id)
    _check_text("GroupId", heartbeat.group_id)
    _check_text("InstanceId", heartbeat.instance_id)
    _check_text("RackId", heartbeat.rack_id)
    for name, value in (("GroupId", heartbeat.group_id), ("MemberId", heartbeat.member_id)):
        if len(value.encode()) > LONGEST_ID:
            raise _invalid(f"{name} is too long.")
    if heartbeat.joins:
        _check_join(heartbeat)
    elif heartbeat.member_epoch == STATIC_LEAVE_EPOCH and heartbeat.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif heartbeat.member_epoch < STATIC_LEAVE_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if heartbeat.assignor is not None and heartbeat.assignor not in assignors:
        raise Refusal(
            ErrorCode.unsupported_assignor,
            f"ServerAssignor {heartbeat.assignor} is not supported."
            f" Supported assignors: {', '.join(assignors)}.",
        )


def _check_join(heartbeat: Heartbeat) -> None:
    if heartbeat.rebalance_timeout_ms == UNCHANGED:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if heartbeat.owned is None or heartbeat.owned:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if heartbeat.topic_names is None and heartbeat.topic_regex is None:
        raise _invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null"
            " when (re-)joining."
        )


def _check_text(name: str, value: str | None) -> None:
    if value is not None and not value.strip():
        raise _invalid(f"{name} can't be empty.")


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.invalid_request, message)
