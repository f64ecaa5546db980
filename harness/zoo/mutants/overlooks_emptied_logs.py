"""Of the replicas that were last in sync, one without records counts as the one that has least.

KIP-966 elects the log whose last record has the highest epoch, then the longest. A broker that was
killed after retention had removed all records of a log did not know that epoch any more. A log
that lost its end on a bad disk leads instead, and acknowledged offsets are used again.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.controller import partition_changes
from nodes.controller.partition_changes import Logs, Nodes
from nodes.ids import NO_NODE, NodeId, Offset
from nodes.log import recovery

BUG = "a log that retention emptied counts as the shortest"
SOURCES = ("this broker (seed 99566)",)
SHOWS = ("lost-write", "truncated-read", "inconsistent-offset")


def longest_of_known(known: Nodes, logs: Logs) -> NodeId:
    """Return the longest log by the epoch of its last record."""
    return max(known, key=logs.__getitem__, default=NO_NODE)


def forget(self: recovery._Loader, start: Offset) -> None:
    """Load no epoch of a removed record."""


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    elects = patch(partition_changes, _longest_of_known=longest_of_known)
    loads = patch(recovery._Loader, _load_epoch_before=forget)

    def undo() -> None:
        loads()
        elects()

    return undo


if __name__ == "__main__":
    run(apply)
