"""What can go wrong in the quorum.

RaftError
  NotLeader             this node does not lead, or no longer; when raised by an append, nothing was
                        appended; when raised by a wait for commit, the record may yet commit
  QuorumStateCorrupt    the quorum-state file cannot be read, or is of another cluster
  ControlRecordError    a control record of the metadata log cannot be read
  SnapshotCorrupt       a snapshot's file is not what was written
  InvariantBroken       the protocol's safety was broken, here or by a peer; never expected
    TwoLeaders          one epoch, two leaders
    CommittedTruncation a leader asks this node to cut records that it knows as committed
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
    """Starting with a forgotten vote could elect two leaders of one epoch, so the node must not."""


class ControlRecordError(RaftError):
    """The voters are read from control records: one that is misread could elect wrongly."""


class SnapshotCorrupt(RaftError):
    """A snapshot that does not check out whole is never used."""


class InvariantBroken(RaftError):
    """The quorum's safety does not hold: a bug, or a voter that lost its disk (KAFKA-14077)."""


class TwoLeaders(InvariantBroken):
    """Two nodes claim one epoch."""


class CommittedTruncation(InvariantBroken):
    """A truncation would reach below the high watermark."""
