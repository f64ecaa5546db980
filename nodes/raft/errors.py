"""The errors of the quorum.

RaftError
  NotLeader             this node does not lead (any more); if an append raises it, nothing was
                        appended; if a wait for commit raises it, the record may still be committed
  QuorumStateCorrupt    the quorum-state file cannot be read, or is of another cluster
  ControlRecordError    a control record of the metadata log cannot be read
  SnapshotCorrupt       a snapshot file is damaged
  InvariantBroken       the protocol's safety was broken, here or by a peer; never expected
    TwoLeaders          one epoch, two leaders
    CommittedTruncation a leader asks this node to truncate records that it knows as committed
"""

from nodes.ids import Epoch, NodeId


class RaftError(Exception):
    """Base of the quorum's errors."""


class NotLeader(RaftError):
    """Only the quorum leader of the given epoch may do this, and this node is not it."""

    def __init__(self, leader_id: NodeId | None, epoch: Epoch) -> None:
        super().__init__(f"not the quorum leader; the leader of epoch {epoch} is {leader_id}")
        self.leader_id = leader_id
        self.epoch = epoch


class QuorumStateCorrupt(RaftError):
    """The node must not start: with a lost vote it could elect a second leader of one epoch."""


class ControlRecordError(RaftError):
    """A control record cannot be read; a misread voter set could elect wrongly."""


class SnapshotCorrupt(RaftError):
    """A snapshot failed its checks; it is not used."""


class InvariantBroken(RaftError):
    """The quorum's safety was violated: by a bug, or a voter that lost its disk (KAFKA-14077)."""


class TwoLeaders(InvariantBroken):
    """Two nodes claim one epoch."""


class CommittedTruncation(InvariantBroken):
    """A truncation would reach below the high watermark."""
