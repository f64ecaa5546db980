"""A new follower truncates its log to its high watermark instead of where the epochs diverge.

The original replication design did this (KIP-101, scenario 1). A follower's high watermark lags
behind the leader's by one fetch, so the follower removes records that it has acknowledged. If it is
elected before it has fetched them again, they are lost.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.replication.partition import PartitionRegistration, Role
from nodes.server.replicas.replica import Replica

BUG = "truncation to the high watermark"
SOURCES = ("KIP-101 (1)", "the original replication design")
SHOWS = ("lost-write",)


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    original = Replica.apply

    def follow(
        self: Replica, assignment: PartitionRegistration, min_isr: int, now_ms: float
    ) -> bool:
        """Truncate everything above the high watermark when the replica becomes a follower."""
        changed = original(self, assignment, min_isr, now_ms)
        if changed and self.state.role is Role.FOLLOWER:
            self.log.truncate_to(self.state.high_watermark)
        return changed

    return patch(Replica, apply=follow)


if __name__ == "__main__":
    run(apply)
