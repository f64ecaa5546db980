"""The voter set, and its changes along the metadata log (KIP-853). Pure.

A replica is identified by its node id and the id of its log directory. A voter that returns with an
empty disk has a new directory id: it is a different replica, an observer until it is added, and
the votes and acknowledgements of the lost replica do not bind it (KAFKA-14077). Before a cluster
has recorded its voters' directory ids, the configured set is in force, whose members have no
directory id (`is_static`; Kafka's kraft.version 0).

The latest set in the log is in force, committed or not; a truncation restores the set before it.
There is one change at a time, of one voter, so that any majority of the old set and any majority of
the new set have a common member.
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from nodes.ids import NO_OFFSET, NodeId, Offset


class ReplicaKey(NamedTuple):
    """One replica of the metadata log: a node with one disk. The directory is None if unknown."""

    node_id: NodeId
    directory_id: UUID | None = None


class VoterEndpoint(NamedTuple):
    """The address of one listener of a voter."""

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
        """The identity of the voter."""
        return ReplicaKey(self.node_id, self.directory_id)

    def is_replica(self, key: ReplicaKey) -> bool:
        """Whether `key` is this voter; without a directory id, only the node id is compared."""
        return key.node_id == self.node_id and self.directory_id in (None, key.directory_id)


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The voters, sorted by id."""

    voters: tuple[Voter, ...] = ()

    @staticmethod
    def of(voters: Iterable[Voter]) -> "VoterSet":
        """The set of these voters; their ids must differ."""
        ordered = tuple(sorted(voters, key=lambda voter: voter.node_id))
        assert len({voter.node_id for voter in ordered}) == len(ordered), "an id votes once"
        return VoterSet(ordered)

    @staticmethod
    def static(ids: Iterable[NodeId]) -> "VoterSet":
        """A configured set: only the ids are known."""
        return VoterSet.of(Voter(node_id=node) for node in ids)

    @property
    def ids(self) -> tuple[NodeId, ...]:
        """The ids, ascending."""
        return tuple(voter.node_id for voter in self.voters)

    @property
    def majority(self) -> int:
        """How many voters are a majority."""
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
        """This set with `voter` added, or replaced if its id exists."""
        others = (v for v in self.voters if v.node_id != voter.node_id)
        return VoterSet.of([*others, voter])

    def without(self, node_id: NodeId) -> "VoterSet":
        """This set without that node."""
        return VoterSet(tuple(v for v in self.voters if v.node_id != node_id))


class VoterHistory:
    """The voter sets of a log by the offset of their record, beginning with the initial set."""

    def __init__(self, initial: VoterSet) -> None:
        self._entries: list[tuple[Offset, VoterSet]] = [(NO_OFFSET, initial)]

    @property
    def latest(self) -> VoterSet:
        """The set in force."""
        return self._entries[-1][1]

    @property
    def latest_offset(self) -> Offset:
        """The offset of the latest set's record; -1 for the initial set."""
        return self._entries[-1][0]

    def before(self, offset: Offset) -> VoterSet:
        """The set in force just below `offset`."""
        return self._entries[max(self._below(offset) - 1, 0)][1]

    def add(self, offset: Offset, voters: VoterSet) -> None:
        """Add the voter set in the record at `offset`."""
        assert offset > self.latest_offset
        self._entries.append((offset, voters))

    def truncate(self, end: Offset) -> None:
        """Remove the sets at or after `end`, the new end of the log."""
        del self._entries[max(self._below(end), 1) :]

    def restart(self, offset: Offset, voters: VoterSet) -> None:
        """The log was replaced by a snapshot that ends at `offset` with these voters."""
        self._entries = [(Offset(offset - 1), voters)]

    def _below(self, offset: Offset) -> int:
        return bisect_left(self._entries, offset, key=lambda entry: entry[0])
