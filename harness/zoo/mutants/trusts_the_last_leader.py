"""Of those who may have everything only the last leader is remembered, and leads again.

KIP-966 came in two parts, and Kafka 4 has the first: when all in-sync and eligible replicas have
restarted uncleanly, the last known leader is elected. It need not be the one that kept its log: one
loss of power took what another replica, that was only killed, still had.
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
    """The leader before the ISR became empty, until somebody leads again."""
    if isr or not rules.eligible_leaders:
        return ()
    if partition.leader != NO_NODE:
        return (partition.leader,)
    return partition.isr[:1] or partition.last_known_elr


def apply() -> Undo:
    """Break the broker; returns what mends it."""
    return patch(partition_changes, _last_known=last_known)


if __name__ == "__main__":
    run(apply)
