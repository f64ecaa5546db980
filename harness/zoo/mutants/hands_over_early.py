"""A member of a consumer group gets a partition before its earlier owner has given it up (KIP-848).

Both read it, and both commit.
"""

from dataclasses import replace

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.coordinators.groups.consumer import reconciliation
from nodes.coordinators.groups.consumer.assignors.spec import Assignment
from nodes.coordinators.groups.consumer.member import CurrentAssignment
from nodes.coordinators.groups.consumer.reconciliation import Goal

BUG = "a partition has two owners during a handover"
SOURCES = ("crabka 521",)
SHOWS = ("two-owners", "delivered-again")

_next = reconciliation._next


def _next_at_once(
    current: CurrentAssignment, goal: Goal, owned: Assignment | None, previous_epoch: int
) -> CurrentAssignment:
    """Take every partition for free."""
    return _next(current, replace(goal, is_free=lambda topic, p: True), owned, previous_epoch)


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(reconciliation, _next=_next_at_once)


if __name__ == "__main__":
    run(apply)
