"""What every kind of group is to the group coordinator.

The classic protocol and the consumer protocol (KIP-848) are two kinds, in folders of their own. A
group id has at most one kind at a time. A group that has only committed offsets has no kind: it is
Kafka's simple group, which exists as long as it has offsets (`offsets`).

A kind is a part of a machine: it keeps the rules of `nodes.coordinators.machine`.
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from kio.schema.errors import ErrorCode

from nodes.coordinators.machine import Effects, Now, Position, Token
from nodes.coordinators.records import CoordinatorRecord

NO_GENERATION = -1


class Committer(NamedTuple):
    """Who commits offsets, as the request says."""

    group_id: str
    member_id: str = ""
    instance_id: str | None = None
    generation: int = NO_GENERATION
    """The generation id, or the member epoch."""
    transactional: bool = False
    """Whether the request is a TxnOffsetCommit."""
    version: int = 9
    """The version of the request."""


class Retention(NamedTuple):
    """From when on the offsets of a group grow old."""

    since_wall_ms: int | None
    """Since the group is empty; None: each offset since its commit."""


class ListedGroup(NamedTuple):
    """A group in a listing: field values of ListGroups' response."""

    group_id: str
    protocol_type: str
    group_state: str
    group_type: str


class GroupKind(Protocol):
    """The groups of one kind. Every method about a group but `has` expects that it exists."""

    def has(self, group_id: str) -> bool:
        """Whether a group of this kind has this id."""
        ...

    def check_commit(self, committer: Committer, now: Now) -> ErrorCode:
        """Whether the offsets may be committed (Kafka: Group.validateOffsetCommit).

        In the classic protocol a commit keeps the member's session alive.
        """
        ...

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Whether the offsets may be read (Kafka: Group.validateOffsetFetch)."""
        ...

    def check_offset_delete(self, group_id: str) -> ErrorCode:
        """Whether single offsets may be deleted (Kafka: Group.validateOffsetDelete)."""
        ...

    def subscribes(self, group_id: str, topic: str) -> bool:
        """Whether a member subscribes to `topic`, as far as the coordinator can know."""
        ...

    def retention(self, group_id: str) -> Retention | None:
        """From when on offsets grow old; None: none may expire now."""
        ...

    def check_delete(self, group_id: str) -> ErrorCode:
        """Whether the group may be deleted (NON_EMPTY_GROUP if it has members)."""
        ...

    def tombstones(self, group_id: str) -> tuple[CoordinatorRecord, ...]:
        """The records that remove the group."""
        ...

    def listing(self) -> Iterable[ListedGroup]:
        """Every group of this kind."""
        ...

    def replay(self, record: CoordinatorRecord, position: Position) -> None:
        """See Machine; only with the record types of this kind."""
        ...

    def loaded(self, now: Now) -> Effects:
        """See Machine."""
        ...

    def deadline_ms(self) -> float | None:
        """See Machine."""
        ...

    def tick(self, now: Now) -> Effects:
        """See Machine."""
        ...

    def abandoned(self, token: Token) -> None:
        """See Machine."""
        ...
