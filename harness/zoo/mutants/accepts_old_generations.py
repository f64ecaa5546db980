"""A member may commit in any generation, as long as the group knows it.

A commit that the network delivers after a rebalance overwrites that of the partition's new owner.
"""

from kio.schema.errors import ErrorCode

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.coordinators.groups.classic import checks
from nodes.coordinators.groups.classic.group import ClassicGroup
from nodes.coordinators.groups.kind import Committer

BUG = "a commit of an old generation is accepted"
SOURCES = ("KIP-1251",)
SHOWS = ("stale-commit", "lost-commit", "delivered-again")

_check_commit = checks.check_commit


def check_commit(group: ClassicGroup, committer: Committer) -> ErrorCode:
    """Take the generation for the present one."""
    if committer.generation >= 0:
        committer = committer._replace(generation=group.generation)
    return _check_commit(group, committer)


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(checks, check_commit=check_commit)


if __name__ == "__main__":
    run(apply)
