"""What an assignor is told, and what it answers."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

Assignment = Mapping[UUID, frozenset[int]]
"""Partitions by topic id; no topic without partitions."""

NOTHING: Assignment = {}


class MemberSpec(NamedTuple):
    """A member of a group."""

    member_id: str
    instance_id: str | None
    topics: frozenset[UUID]
    """The topics that it subscribes to."""
    target: Assignment
    """Its target assignment so far. A sticky assignor changes as little of it as it can."""


Assignor = Callable[[Sequence[MemberSpec], Mapping[UUID, int]], dict[str, Assignment]]
"""Members (each id once) and the number of partitions of each topic, to target assignments."""
