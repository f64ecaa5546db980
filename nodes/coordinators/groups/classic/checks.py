"""What others ask of a classic group: may offsets be committed, deleted, or expire?"""

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.classic.group import (
    CONSUMER_PROTOCOL_TYPE,
    ClassicGroup,
    GroupState,
)
from nodes.coordinators.groups.classic.requests import UNKNOWN_MEMBER_ID, Identity
from nodes.coordinators.groups.kind import Committer, Retention


def check_commit(group: ClassicGroup, committer: Committer) -> ErrorCode:
    """Whether offsets may be committed: by a member of the current generation.

    An empty group takes offsets from anybody who is in no generation. A transaction without a
    member (before KIP-447) is not checked.
    """
    named = committer.member_id != UNKNOWN_MEMBER_ID or committer.instance_id is not None
    if committer.generation < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.none
    if committer.generation < 0 and not named:
        return ErrorCode.none if committer.transactional else ErrorCode.unknown_member_id
    error = group.check_member(Identity(group.group_id, committer.member_id, committer.instance_id))
    if error is not ErrorCode.none:
        return error
    if committer.generation != group.generation:
        return ErrorCode.illegal_generation
    if group.state is GroupState.COMPLETING_REBALANCE and not committer.transactional:
        return ErrorCode.rebalance_in_progress
    return ErrorCode.none


def check_offset_delete(group: ClassicGroup) -> ErrorCode:
    """Whether single offsets may be deleted: members of unknown protocols may need them."""
    reads = group.protocol_type == CONSUMER_PROTOCOL_TYPE
    empty = group.state is GroupState.EMPTY
    return ErrorCode.none if empty or reads else ErrorCode.non_empty_group


def check_delete(group: ClassicGroup) -> ErrorCode:
    """Whether the group may be deleted."""
    empty = group.state is GroupState.EMPTY
    return ErrorCode.none if empty else ErrorCode.non_empty_group


def subscribes(group: ClassicGroup, topic: str) -> bool:
    """Whether members read `topic`. If that is not known, consumers are believed to read it."""
    if group.topics is None:
        return group.protocol_type == CONSUMER_PROTOCOL_TYPE
    return topic in group.topics


def retention(group: ClassicGroup) -> Retention | None:
    """From when on offsets grow old; None while members may need them.

    A rebalance keeps all offsets (KAFKA-8069, KAFKA-13636). A stable group of consumers loses those
    of topics that it does not read.
    """
    if group.protocol_type is None:
        return Retention(None)
    if group.state is GroupState.EMPTY:
        return Retention(group.state_since_wall_ms)
    reads = group.protocol_type == CONSUMER_PROTOCOL_TYPE and group.topics is not None
    return Retention(None) if reads and group.state is GroupState.STABLE else None
