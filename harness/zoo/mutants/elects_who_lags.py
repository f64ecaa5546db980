"""Any live replica is elected when no in-sync one is, although the topic does not allow that.

Unclean leader election was Kafka's default until 0.11 (KIP-106): a partition was available rather
than right. Whoever had fallen behind leads, and the others cut what it lacks.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.controller.elections import TopicPolicy
from nodes.controller.partition_changes import Election, IsLive, Rules

BUG = "unclean election"
SOURCES = ("KIP-106",)
SHOWS = ("lost-write", "truncated-read", "inconsistent-offset")


def rules(self: TopicPolicy, live: IsLive, asked: Election | None = None) -> Rules:
    """Unclean unless asked otherwise."""
    return Rules(live, self.min_isr, asked or Election.UNCLEAN, self.eligible_leaders)


def apply() -> Undo:
    """Break the broker; returns what mends it."""
    return patch(TopicPolicy, rules=rules)


if __name__ == "__main__":
    run(apply)
