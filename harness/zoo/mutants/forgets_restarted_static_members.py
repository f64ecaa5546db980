"""The new member id of a static member that restarted is not written to the log.

The next coordinator knows the old id only, and fences the member that is alive.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.coordinators.groups.classic import static_members
from nodes.coordinators.groups.classic.group import ClassicGroup
from nodes.coordinators.groups.classic.requests import Join
from nodes.coordinators.groups.classic.step import Step
from nodes.coordinators.machine import Token

BUG = "a static member's new id is forgotten"
SOURCES = ("KAFKA-10284",)
SHOWS = ("unavailable",)

_replace = static_members.replace


def replace(group: ClassicGroup, request: Join, member_id: str, token: Token, step: Step) -> None:
    """Write nothing."""
    before = len(step.records)
    _replace(group, request, member_id, token, step)
    del step.records[before:]


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(static_members, replace=replace)


if __name__ == "__main__":
    run(apply)
