"""Any live replica is elected when no in-sync replica is live, although the topic forbids that.

Unclean leader election was Kafka's default until 0.11 (KIP-106): availability before consistency. A
replica that lags becomes the leader, and the others truncate what it lacks.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.controller.elections import TopicPolicy
from nodes.controller.partition_changes import Election, IsLive, Rules

BUG = "unclean election"
SOURCES = ("KIP-106",)
SHOWS = ("lost-write", "truncated-read", "inconsistent-offset")


def rules(self: TopicPolicy, live: IsLive, asked: Election | None = None) -> Rules:
    """Use unclean elections unless another kind is requested."""
    return Rules(live, self.min_isr, asked or Election.UNCLEAN, self.eligible_leaders)


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(TopicPolicy, rules=rules)


if __name__ == "__main__":
    run(apply)
