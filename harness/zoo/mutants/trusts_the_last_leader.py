"""Of the replicas that may have everything, only the last leader is recorded, and leads again.

KIP-966 has two parts, and Kafka 4 has the first: when all in-sync and eligible replicas restarted
uncleanly, the last known leader is elected. Another replica may be the one that kept its log: a
power loss removed from the leader what a replica that was only killed still had.
"""

from harness.zoo.mutants.patching import Undo, patch, run
from nodes.controller import partition_changes
from nodes.controller.partition_changes import Nodes, Rules
from nodes.ids import NO_NODE
from nodes.metadata.image import PartitionImage

BUG = "the last leader is trusted"
SOURCES = ("KIP-966",)
SHOWS = ("lost-write", "truncated-read", "inconsistent-offset")


def last_known(
    partition: PartitionImage, isr: Nodes, elr: Nodes, replicas: Nodes, rules: Rules
) -> Nodes:
    """Return the leader before the ISR became empty, until a leader is elected again."""
    if isr or not rules.eligible_leaders:
        return ()
    if partition.leader != NO_NODE:
        return (partition.leader,)
    return partition.isr[:1] or partition.last_known_elr


def apply() -> Undo:
    """Patch the broker; return a function that undoes the patch."""
    return patch(partition_changes, _last_known=last_known)


if __name__ == "__main__":
    run(apply)
