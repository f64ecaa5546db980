"""Nothing records which replicas left the ISR; the last one stays in it, whatever it loses.

Before KIP-966 a partition whose ISR had shrunk to one replica waited for that replica. If it lost
power, it came back without what it had not flushed, led again, and made the others truncate what
they still had: one power loss removed what all three had acknowledged.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.controller.elections import TopicPolicy
from nodes.controller.partition_changes import Election, IsLive, Rules

BUG = "last replica standing"
SOURCES = ("KIP-966",)
SHOWS = ("lost-write", "truncated-read", "inconsistent-offset")


def rules(self: TopicPolicy, live: IsLive, asked: Election | None = None) -> Rules:
    """Ignore eligible leader replicas, although the cluster's feature level has them."""
    usual = Election.UNCLEAN if self.unclean else Election.CLEAN
    return Rules(live, self.min_isr, asked or usual, eligible_leaders=False)


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(TopicPolicy, rules=rules)


if __name__ == "__main__":
    run(apply)
