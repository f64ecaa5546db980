"""What quorum members say to each other, and what the pure quorum asks its shell to do.

Requests and answers carry what KIP-595's messages carry for the one metadata partition; the shell
translates them to the wire. Actions are to be carried out in the order given: a Persist stands
before everything that rests on it.
"""

from dataclasses import dataclass
from typing import Protocol

from kio.schema.errors import ErrorCode

from nodes.ids import Epoch, NodeId, Offset
from nodes.log.divergence import EpochEnd, EpochHistory
from nodes.raft.election_state import ElectionState


class LogView(EpochHistory, Protocol):
    """What the quorum reads of the metadata log. It writes through actions only."""

    @property
    def end_offset(self) -> Offset:
        """Where the next record goes."""

    @property
    def flushed_offset(self) -> Offset:
        """Below it every record survives a power loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRequest:
    """A candidate asks for a vote in `epoch`; a pre-vote asks only whether it would get one."""

    epoch: Epoch
    candidate_id: NodeId
    last_epoch: Epoch
    end_offset: Offset
    pre_vote: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginEpochRequest:
    """A new leader announces itself."""

    epoch: Epoch
    leader_id: NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class EndEpochRequest:
    """A leader that resigns names who should stand for election, the best log first."""

    epoch: Epoch
    leader_id: NodeId
    preferred_successors: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """A replica has everything below `offset` (a voter: on disk), whose last epoch is given."""

    replica_id: NodeId
    epoch: Epoch
    offset: Offset
    last_epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The part that every answer has: an error, and the answering node's epoch and leader."""

    error: ErrorCode
    epoch: Epoch
    leader_id: NodeId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteAnswer(Answer):
    """`granted` is false with every error."""

    granted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswer(Answer):
    """With `diverging`, the replica must truncate first; records are the shell's to add."""

    high_watermark: Offset
    diverging: EpochEnd | None = None


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
    | HighWatermarkAdvanced
    | BecameLeader
    | LostLeadership
)
