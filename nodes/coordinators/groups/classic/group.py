"""One classic group: its state, its members, its generation, and the protocol it agrees on.

It knows no time-outs and no requests that wait for others; `rebalance` and the operations do.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.classic.records import (
    NO_TIMESTAMP,
    GroupMetadataValue,
    MemberMetadata,
)
from nodes.coordinators.groups.classic.requests import Identity, MemberProtocol
from nodes.coordinators.groups.classic.subscriptions import subscribed_topics
from nodes.coordinators.machine import Now, Token

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
MOST_GENERATIONS: Final = 2**31


class GroupState(Enum):
    """The state of a group, by Kafka's names."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


_LEGAL: Final = {
    GroupState.PREPARING_REBALANCE: (
        GroupState.EMPTY,
        GroupState.COMPLETING_REBALANCE,
        GroupState.STABLE,
    ),
    GroupState.COMPLETING_REBALANCE: (GroupState.PREPARING_REBALANCE,),
    GroupState.STABLE: (GroupState.COMPLETING_REBALANCE,),
    GroupState.EMPTY: (GroupState.PREPARING_REBALANCE,),
}
"""From which states a group may change to each."""


@dataclass(slots=True, kw_only=True)
class Member:
    """A member of a group. Its time-outs are milliseconds."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[MemberProtocol, ...]
    assignment: bytes = b""
    is_new: bool = False
    """It joined, and was not in a generation yet."""

    def metadata(self, protocol: str | None) -> bytes:
        """Its metadata for a protocol; nothing if it does not support the protocol."""
        return next((each.metadata for each in self.protocols if each.name == protocol), b"")


@dataclass(slots=True)
class ClassicGroup:
    """A group. Its members are in the order in which they joined."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    state_since_wall_ms: int | None = None
    """Unknown after a record of a version that does not say it."""
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    """The member id of each instance id."""
    joined: dict[str, Token] = field(default_factory=dict)
    """The members that wait for the next generation, and their requests."""
    syncing: dict[str, Token] = field(default_factory=dict)
    """The members that wait for the leader's assignment, and their requests."""
    pending_joins: set[str] = field(default_factory=set)
    """Member ids that were given out, and did not join yet (KIP-394)."""
    pending_syncs: dict[str, None] = field(default_factory=dict)
    """The members of the generation that have not asked for their assignment yet, in order."""
    initial: bool = False
    """The rebalance that goes on is the first after the group was empty."""
    grew: bool = False
    """A member joined since the initial rebalance was delayed last."""
    delay_left_ms: int = 0
    """By how much the initial rebalance may still be delayed."""
    topics: frozenset[str] | None = None
    """The topics that the members subscribe to; None if that is not known."""
    _supporters: Counter[str] = field(default_factory=Counter)

    def change_state(self, state: GroupState, now: Now) -> None:
        """Change to another state. An illegal change raises AssertionError."""
        assert self.state in _LEGAL[state], f"{self.state} to {state}"
        self.state = state
        self.state_since_wall_ms = now.wall_ms

    def add(self, member: Member) -> None:
        """Add a member, whose protocols fit (`supports`). The first becomes the leader."""
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        self._supporters.update(each.name for each in member.protocols)
        self.pending_joins.discard(member.member_id)
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str) -> Member | None:
        """Remove a member whose requests are answered, or one that has not joined yet.

        Another member becomes the leader.
        """
        member = self.members.pop(member_id, None)
        if member is not None:
            self._supporters.subtract(each.name for each in member.protocols)
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_joins.discard(member_id)
        return member

    def rename(self, old_id: str, new_id: str) -> Member:
        """Give a static member another id, in its old place."""
        member = self.members[old_id]
        assert member.instance_id is not None, f"{old_id} is no static member"
        member.member_id = new_id
        member.is_new = False
        self.static_members[member.instance_id] = new_id
        self.members = {each.member_id: each for each in self.members.values()}
        renamed = {old_id: new_id}
        self.pending_syncs = {renamed.get(each, each): None for each in self.pending_syncs}
        if self.leader == old_id:
            self.leader = new_id
        return member

    def set_protocols(self, member: Member, protocols: tuple[MemberProtocol, ...]) -> None:
        """Change what a member supports, to protocols that fit."""
        self._supporters.subtract(each.name for each in member.protocols)
        member.protocols = protocols
        self._supporters.update(each.name for each in protocols)

    def supports(self, protocol_type: str, protocols: Iterable[MemberProtocol]) -> bool:
        """Whether a member with these protocols fits: all members support one of them."""
        names = [each.name for each in protocols]
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and names)
        everyone = len(self.members)
        return protocol_type == self.protocol_type and any(
            self._supporters[name] == everyone for name in names
        )

    def select_protocol(self) -> str:
        """The protocol that most members prefer among those that all support."""
        everyone = len(self.members)
        votes = Counter(
            next(each.name for each in member.protocols if self._supporters[each.name] == everyone)
            for member in self.members.values()
        )
        return votes.most_common(1)[0][0]

    def check_member(self, who: Identity) -> ErrorCode:
        """Whether `who` is a member, and not fenced by another with its instance id (KIP-345)."""
        if who.instance_id is not None:
            known = self.static_members.get(who.instance_id)
            if known is None:
                return ErrorCode.unknown_member_id
            if known != who.member_id:
                return ErrorCode.fenced_instance_id
        return ErrorCode.none if who.member_id in self.members else ErrorCode.unknown_member_id

    @property
    def all_have_joined(self) -> bool:
        """Whether every member waits for the generation, and nobody is expected to come."""
        return len(self.joined) == len(self.members) and not self.pending_joins

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long a rebalance waits: the longest that a member asks for."""
        return max((each.rebalance_timeout_ms for each in self.members.values()), default=0)

    def elect_leader_among_joined(self) -> bool:
        """Keep the leader if it joined, or choose one who did. False if nobody did."""
        if self.joined and self.leader not in self.joined:
            self.leader = next(iter(self.joined))
        return bool(self.joined)

    def begin_generation(self, now: Now) -> None:
        """Begin the next generation, with the members that are there; it may have none."""
        self.generation = (self.generation + 1) % MOST_GENERATIONS
        self.protocol = self.select_protocol() if self.members else None
        self._follow_subscriptions()
        self.pending_syncs.clear()
        self.change_state(
            GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, now
        )

    def value(self) -> GroupMetadataValue:
        """What is remembered of the group."""
        since = self.state_since_wall_ms
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            current_state_timestamp=NO_TIMESTAMP if since is None else since,
            members=tuple(
                MemberMetadata(
                    member_id=each.member_id,
                    group_instance_id=each.instance_id,
                    client_id=each.client_id,
                    client_host=each.client_host,
                    rebalance_timeout=each.rebalance_timeout_ms,
                    session_timeout=each.session_timeout_ms,
                    subscription=each.metadata(self.protocol),
                    assignment=each.assignment,
                )
                for each in self.members.values()
            ),
        )

    @classmethod
    def remembered(cls, group_id: str, value: GroupMetadataValue) -> "ClassicGroup":
        """The group of a record: stable, or empty. Nobody is known to live yet."""
        since = value.current_state_timestamp
        group = cls(
            group_id,
            state=GroupState.STABLE if value.members else GroupState.EMPTY,
            state_since_wall_ms=None if since == NO_TIMESTAMP else since,
            generation=value.generation,
            protocol_type=value.protocol_type or None,
            protocol=value.protocol,
            leader=value.leader,
        )
        for each in {member.member_id: member for member in value.members}.values():
            no_timeout = each.rebalance_timeout < 0
            group.add(
                Member(
                    member_id=each.member_id,
                    instance_id=each.group_instance_id,
                    client_id=each.client_id,
                    client_host=each.client_host,
                    rebalance_timeout_ms=(
                        each.session_timeout if no_timeout else each.rebalance_timeout
                    ),
                    session_timeout_ms=each.session_timeout,
                    protocols=(MemberProtocol(value.protocol or "", each.subscription),),
                    assignment=each.assignment,
                )
            )
        group._follow_subscriptions()
        return group

    def _follow_subscriptions(self) -> None:
        self.topics = None
        if self.protocol_type == CONSUMER_PROTOCOL_TYPE and (self.protocol or not self.members):
            self.topics = subscribed_topics(
                each.metadata(self.protocol) for each in self.members.values()
            )
