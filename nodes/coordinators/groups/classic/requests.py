"""What clients ask about classic groups, in the fields that the machine needs."""

from typing import NamedTuple

UNKNOWN_MEMBER_ID = ""
"""The member id of one who has none yet."""

MEMBER_ID_REQUIRED_SINCE = 4
"""From this version of JoinGroup on, a new member must come back with the id that it was given."""

SKIP_ASSIGNMENT_SINCE = 9
"""From this version of JoinGroup on, the leader can be told not to assign anew (KIP-814)."""


class MemberProtocol(NamedTuple):
    """A protocol that a member supports, with its metadata for it (its subscription)."""

    name: str
    metadata: bytes


class Identity(NamedTuple):
    """A member of a group, as a request names it."""

    group_id: str
    member_id: str = UNKNOWN_MEMBER_ID
    instance_id: str | None = None


class Client(NamedTuple):
    """The client of a request. `host` has Java's form: a slash, then the address."""

    id: str
    host: str


class Join(NamedTuple):
    """JoinGroup. The time-outs are milliseconds; `protocols` are in the member's order."""

    who: Identity
    client: Client
    protocol_type: str
    protocols: tuple[MemberProtocol, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    version: int


class Sync(NamedTuple):
    """SyncGroup. The leader alone gives assignments, by member id."""

    who: Identity
    generation: int
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


class Leaver(NamedTuple):
    """A member that leaves, by its id, or by its instance id alone (an administrator's request)."""

    member_id: str
    instance_id: str | None = None
