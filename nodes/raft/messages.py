"""What quorum members say to each other, and what the pure quorum asks its shell to do.

Requests and answers carry what KIP-595's messages carry for the one metadata partition; the shell
translates them to the wire. Actions are to be carried out in the order given: a Persist stands
before everything that rests on it.
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
    """What the quorum reads of the metadata log. It writes through actions only."""

    @property
    def end_offset(self) -> Offset:
        """Where the next record goes."""

    @property
    def flushed_offset(self) -> Offset:
        """Below it every record survives a power loss."""

    @property
    def voters(self) -> VoterSet:
        """The latest voter set in the log, or the configured one while it records none."""

    @property
    def voters_offset(self) -> Offset:
        """Where it is recorded; -1 for the configured one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRequest:
    """A candidate asks for a vote in `epoch`; a pre-vote asks only whether it would get one.

    `voter_directory_id` says which replica is asked, as far as the candidate's log knows.
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
        """Who asks."""
        return ReplicaKey(self.candidate_id, self.candidate_directory_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginEpochRequest:
    """A new leader announces itself to the voter on that directory (if it knows it)."""

    epoch: Epoch
    leader_id: NodeId
    voter_directory_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndEpochRequest:
    """A leader that resigns names who should stand for election, the best log first."""

    epoch: Epoch
    leader_id: NodeId
    preferred_successors: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """A replica has everything below `offset` on disk, whose last epoch is given."""

    replica_id: NodeId
    directory_id: UUID | None = None
    epoch: Epoch
    offset: Offset
    last_epoch: Epoch

    @property
    def replica(self) -> ReplicaKey:
        """Who fetches."""
        return ReplicaKey(self.replica_id, self.directory_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The part that every answer has: an error, and the answering node's epoch and leader."""

    error: ErrorCode
    epoch: Epoch
    leader_id: NodeId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteResponse(Response):
    """`granted` is false with every error."""

    granted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse(Response):
    """With `diverging`, the replica must truncate first; with `snapshot`, it must fetch that, for
    the log begins too late for it. Otherwise there may be records, which are the shell's to add.
    """

    high_watermark: Offset
    diverging: EpochEnd | None = None
    snapshot: SnapshotId | None = None

    @property
    def plain(self) -> bool:
        """Whether records may come with it."""
        return (self.error, self.diverging, self.snapshot) == (ErrorCode.none, None, None)


class FetchOutcome(Enum):
    """What a replica does about an answer to its fetch."""

    IGNORE = auto()
    """VoterChangeRefused, or of another epoch or position."""
    APPEND = auto()
    """Append its records (if any), then call `appended_as_follower` with its high watermark."""
    TRUNCATED = auto()
    """The log was cut by an action: fetch again."""
    SNAPSHOT = auto()
    """Fetch the snapshot that it names, install it, then call `installed_snapshot`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Persist:
    """Write `quorum-state`, and go on only when it is on disk."""

    state: ElectionState


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Send `request` to voter `to`, once; its answer goes to the quorum, its failure nowhere."""

    to: NodeId
    request: VoteRequest | BeginEpochRequest | EndEpochRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    """Cut the log, so that `offset` is its end."""

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
    """Append the voter set, in `epoch`; it counts at once. Then call `log_advanced`."""

    epoch: Epoch
    voters: VoterSet
    first: bool
    """The log has none yet: kraft.version 1 goes before it."""


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
    """This node leads `epoch` no more, and never will again."""

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
