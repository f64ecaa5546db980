"""Nobody remembers who left the in-sync replicas; the last one stays in them, whatever it loses.

Before KIP-966 a partition whose ISR had shrunk to one waited for that one. If it lost power, it
came back without what it had never flushed, led again, and had the others cut what they still had:
a single loss of power took what all three had acknowledged.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.controller.elections import TopicPolicy
from nodes.controller.partition_changes import Election, IsLive, Rules

BUG = "last replica standing"
SOURCES = ("KIP-966",)
SHOWS = ("lost-write", "truncated-read", "inconsistent-offset")


def rules(self: TopicPolicy, live: IsLive, asked: Election | None = None) -> Rules:
    """Without eligible leaders, though the cluster's feature level says that there are."""
    usual = Election.UNCLEAN if self.unclean else Election.CLEAN
    return Rules(live, self.min_isr, asked or usual, eligible_leaders=False)


def apply() -> Undo:
    """Break the broker; returns what mends it."""
    return patch(TopicPolicy, rules=rules)


if __name__ == "__main__":
    run(apply)
