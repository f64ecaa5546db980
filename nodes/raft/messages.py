"""The messages between quorum members, and the actions that the pure quorum requests.

Requests and responses have the content of KIP-595's messages for the single metadata partition; the
caller translates them to the wire. Actions must be executed in the given order: a Persist comes
before everything that depends on it.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.ids import Epoch, NodeId, Offset
from nodes.log.divergence import EpochEnd
from nodes.raft.election_state import ElectionState
from nodes.raft.positions import History, SnapshotId
from nodes.raft.voters import ReplicaKey, VoterSet


class LogView(History, Protocol):
    """The quorum's read access to the metadata log; it writes only through actions."""

    @property
    def end_offset(self) -> Offset:
        """The offset of the next record."""

    @property
    def flushed_offset(self) -> Offset:
        """The offset below which every record survives a power loss."""

    @property
    def voters(self) -> VoterSet:
        """The latest voter set in the log, or the configured one while it records none."""

    @property
    def voters_offset(self) -> Offset:
        """The offset of that voter set's record; -1 for the configured one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRequest:
    """A candidate requests a vote in `epoch`; a pre-vote asks whether it would get the vote.

    `voter_directory_id` identifies the requested replica, if the candidate's log knows it.
    """

    epoch: Epoch
    candidate_id: NodeId
    candidate_directory_id: UUID | None = None
    voter_directory_id: UUID | None = None
    last_epoch: Epoch
    end_offset: Offset
    pre_vote: bool

    @property
    def candidate(self) -> ReplicaKey:
        """The replica that requests the vote."""
        return ReplicaKey(self.candidate_id, self.candidate_directory_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginEpochRequest:
    """A new leader announces itself to the voter with that directory (if known)."""

    epoch: Epoch
    leader_id: NodeId
    voter_directory_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndEpochRequest:
    """A leader resigns and names its preferred successors, the longest log first."""

    epoch: Epoch
    leader_id: NodeId
    preferred_successors: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """A replica fetches: it has everything below `offset` on disk, up to `last_epoch`."""

    replica_id: NodeId
    directory_id: UUID | None = None
    epoch: Epoch
    offset: Offset
    last_epoch: Epoch

    @property
    def replica(self) -> ReplicaKey:
        """The replica that fetches."""
        return ReplicaKey(self.replica_id, self.directory_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The common part of every response: an error, and the responding node's epoch and leader."""

    error: ErrorCode
    epoch: Epoch
    leader_id: NodeId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteResponse(Response):
    """The response to a vote request; `granted` is false with every error."""

    granted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse(Response):
    """With `diverging`, the replica must truncate first. With `snapshot`, it must fetch that
    snapshot, because the leader's log begins too late. Otherwise the caller may add records.
    """

    high_watermark: Offset
    diverging: EpochEnd | None = None
    snapshot: SnapshotId | None = None

    @property
    def plain(self) -> bool:
        """Whether the response may contain records."""
        return (self.error, self.diverging, self.snapshot) == (ErrorCode.none, None, None)


class FetchOutcome(Enum):
    """What a replica must do after a fetch response."""

    IGNORE = auto()
    """Ignore it: it is an error, or of another epoch or position."""
    APPEND = auto()
    """Append its records (if any), then call `appended_as_follower` with its high watermark."""
    TRUNCATED = auto()
    """The log was truncated by an action: fetch again."""
    SNAPSHOT = auto()
    """Fetch the snapshot that it names, install it, then call `installed_snapshot`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Persist:
    """Write `quorum-state`, and continue only when it is on disk."""

    state: ElectionState


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Send `request` to voter `to` once; pass its response to the quorum, and ignore a failure."""

    to: NodeId
    request: VoteRequest | BeginEpochRequest | EndEpochRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    """Truncate the log, so that `offset` is its end."""

    offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendLeaderChange:
    """Append a LeaderChangeMessage control batch in `epoch`; once flushed, call `log_advanced`."""

    epoch: Epoch
    leader_id: NodeId
    voters: tuple[NodeId, ...]
    granting_voters: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendVoters:
    """Append the voter set in `epoch`; it is in force at once. Then call `log_advanced`."""

    epoch: Epoch
    voters: VoterSet
    first: bool
    """Whether it is the first recorded set: a record of kraft.version 1 must precede it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HighWatermarkAdvanced:
    """Everything below `offset` is committed."""

    offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class BecameLeader:
    """This node leads `epoch`; records may be appended."""

    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class LostLeadership:
    """This node no longer leads `epoch`, and never will again."""

    epoch: Epoch


Action = (
    Persist
    | Send
    | Truncate
    | AppendLeaderChange
    | AppendVoters
    | HighWatermarkAdvanced
    | BecameLeader
    | LostLeadership
)
