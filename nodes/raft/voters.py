"""Who may vote: the voter set, and how it changes along the metadata log (KIP-853). Pure.

A replica is its node id and the id of its log directory together. A voter that comes back with an
empty disk has a new directory id: it is another replica, an observer until it is added, and what
the lost one had promised is never asked of it (KAFKA-14077). Before a cluster has recorded its
voters' directory ids, the set is the configured one, whose members have no directory id yet
(`is_static`; Kafka's kraft.version 0).

The set that counts is the latest in the log, committed or not; a truncation brings back the one
before. One change at a time, by one voter: any majority of the old set meets any of the new one.
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from nodes.ids import NO_OFFSET, NodeId, Offset


class ReplicaKey(NamedTuple):
    """One replica of the metadata log: a node on one disk. The directory is None if unknown."""

    node_id: NodeId
    directory_id: UUID | None = None


class VoterEndpoint(NamedTuple):
    """Where one listener of a voter is reached."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """One member of the quorum."""

    node_id: NodeId
    directory_id: UUID | None = None
    endpoints: tuple[VoterEndpoint, ...] = ()

    @property
    def key(self) -> ReplicaKey:
        """Its identity."""
        return ReplicaKey(self.node_id, self.directory_id)

    def is_replica(self, key: ReplicaKey) -> bool:
        """Whether `key` is this voter; a voter without directory id is known by its node alone."""
        return key.node_id == self.node_id and self.directory_id in (None, key.directory_id)


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The voters, in the order of their ids."""

    voters: tuple[Voter, ...] = ()

    @staticmethod
    def of(voters: Iterable[Voter]) -> "VoterSet":
        """The set of these voters, whose ids differ."""
        ordered = tuple(sorted(voters, key=lambda voter: voter.node_id))
        assert len({voter.node_id for voter in ordered}) == len(ordered), "an id votes once"
        return VoterSet(ordered)

    @staticmethod
    def static(ids: Iterable[NodeId]) -> "VoterSet":
        """A configured set, of which only ids are known."""
        return VoterSet.of(Voter(node_id=node) for node in ids)

    @property
    def ids(self) -> tuple[NodeId, ...]:
        """Ascending."""
        return tuple(voter.node_id for voter in self.voters)

    @property
    def majority(self) -> int:
        """How many make a majority."""
        return len(self.voters) // 2 + 1

    @property
    def is_static(self) -> bool:
        """Whether some voter's directory is unknown: the log has not recorded the set yet."""
        return any(voter.directory_id is None for voter in self.voters)

    def get(self, node_id: NodeId) -> Voter | None:
        """The voter of that node."""
        return next((voter for voter in self.voters if voter.node_id == node_id), None)

    def has(self, key: ReplicaKey) -> bool:
        """Whether that replica is a voter."""
        voter = self.get(key.node_id)
        return voter is not None and voter.is_replica(key)

    def with_voter(self, voter: Voter) -> "VoterSet":
        """This set and `voter`, in place of the one of its id, if there is one."""
        others = (v for v in self.voters if v.node_id != voter.node_id)
        return VoterSet.of([*others, voter])

    def without(self, node_id: NodeId) -> "VoterSet":
        """This set less that node."""
        return VoterSet(tuple(v for v in self.voters if v.node_id != node_id))


class VoterHistory:
    """The voter sets of a log by the offset of their record; the initial one stands before all."""

    def __init__(self, initial: VoterSet) -> None:
        self._entries: list[tuple[Offset, VoterSet]] = [(NO_OFFSET, initial)]

    @property
    def latest(self) -> VoterSet:
        """The set that counts now."""
        return self._entries[-1][1]

    @property
    def latest_offset(self) -> Offset:
        """Where the latest set was recorded; -1 for the initial one."""
        return self._entries[-1][0]

    def before(self, offset: Offset) -> VoterSet:
        """The set that counted just below `offset`."""
        return self._entries[max(self._below(offset) - 1, 0)][1]

    def add(self, offset: Offset, voters: VoterSet) -> None:
        """The record at `offset` names these voters."""
        assert offset > self.latest_offset
        self._entries.append((offset, voters))

    def truncate(self, end: Offset) -> None:
        """The log ends at `end` now."""
        del self._entries[max(self._below(end), 1) :]

    def restart(self, offset: Offset, voters: VoterSet) -> None:
        """The log was replaced by a snapshot that ends at `offset` and names these voters."""
        self._entries = [(Offset(offset - 1), voters)]

    def _below(self, offset: Offset) -> int:
        return bisect_left(self._entries, offset, key=lambda entry: entry[0])
