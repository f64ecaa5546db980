"""A new follower cuts its log to its high watermark instead of where the epochs diverge.

The original replication design did this (KIP-101, scenario 1). A follower's high watermark lags
behind the leader's by one fetch, so it throws away records that it has acknowledged; if it is
elected before it has fetched them again, they are lost.
"""

import sys

from nodes.__main__ import main
from nodes.replication.partition import Assignment, Role
from nodes.server.replica import Replica

_apply = Replica.apply


def apply(self: Replica, assignment: Assignment, min_isr: int, now_ms: float) -> bool:
    """Follow the metadata log; on becoming a follower, trust nothing above the high watermark."""
    changed = _apply(self, assignment, min_isr, now_ms)
    if changed and self.state.role is Role.FOLLOWER:
        self.log.truncate_to(self.state.high_watermark)
    return changed


if __name__ == "__main__":
    Replica.apply = apply  # type: ignore[method-assign]
    sys.exit(main())
