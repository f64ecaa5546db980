"""acks=all answered as soon as the leader has the record, as if it were acks=1.

The promise of acks=all is that every in-sync replica has the record. A leader that answers before
loses acknowledged writes as soon as another replica leads without them.
"""

import sys

from nodes.__main__ import main
from nodes.ids import Epoch, Offset
from nodes.replication.partition import Ack, PartitionState, Role


def acknowledge(
    self: PartitionState, leader_epoch: Epoch, required: Offset, leader_end: Offset
) -> Ack:
    """DONE as soon as the leader's own log has it."""
    leads = self.role is Role.LEADER and leader_epoch == self.leader_epoch
    return Ack.DONE if leads else Ack.NOT_LEADER


if __name__ == "__main__":
    PartitionState.acknowledge = acknowledge  # type: ignore[method-assign]
    sys.exit(main())
