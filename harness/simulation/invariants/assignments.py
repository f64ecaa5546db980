"""What one change of a partition may do to its replicas, its ISR and its leader.

- The ISR, the eligible leaders, the last known eligible leaders, and the added and removed replicas
  are replicas of the partition. The leader is in the ISR.
- A change of the assignment takes no replica out of the ISR that stays a replica.
- A reassignment is complete when it adds its new replicas for good or drops replicas that were
  there before it. Then the whole new assignment is in the ISR, and nothing is left to add or to
  remove (KIP-455; Kafka's `PartitionReassignmentReplicas.maybeCompleteReassignment`).

A cancellation drops only replicas that the reassignment had added, and asks for nothing.
"""

from harness.simulation.invariants.broken import InvariantBroken
from nodes.controller.reassignments import is_reassigning
from nodes.ids import NO_NODE, Offset
from nodes.metadata.image import PartitionImage


def check_assignment(
    name: str, offset: Offset, old: PartitionImage | None, new: PartitionImage
) -> None:
    """Check a partition, called `name`, that metadata up to `offset` changed from `old` to `new`.

    Changes of the assignment are judged only if one record made the change. Raises InvariantBroken.
    """
    _check_members(name, offset, new)
    if old is not None and new.partition_epoch == old.partition_epoch + 1:
        problem = _reassignment_problem(old, new)
        if problem:
            raise InvariantBroken(
                "reassigned-in-sync",
                f"{name}: at metadata offset {offset}, {_describe(old)} becomes {_describe(new)}: "
                f"{problem}",
            )


def _check_members(name: str, offset: Offset, new: PartitionImage) -> None:
    groups = {
        "in the ISR": new.isr,
        "eligible": new.elr,
        "a last known eligible replica": new.last_known_elr,
        "added": new.adding_replicas,
        "removed": new.removing_replicas,
    }
    for what, nodes in groups.items():
        for node in nodes:
            if node not in new.replicas:
                raise InvariantBroken(
                    "isr-within-replicas",
                    f"{name}: at metadata offset {offset}, node {node} is {what}, but no replica "
                    f"of {_describe(new)}",
                )
    if new.leader != NO_NODE and new.leader not in new.isr:
        raise InvariantBroken(
            "isr-within-replicas",
            f"{name}: at metadata offset {offset}, the leader {new.leader} is not in the ISR of "
            f"{_describe(new)}",
        )


def _reassignment_problem(old: PartitionImage, new: PartitionImage) -> str:
    """Return what is wrong with the change of the assignment; empty if nothing is, or if the
    assignment did not change.
    """
    if _assignment(old) == _assignment(new):
        return ""
    for node in old.isr:
        if node in new.replicas and node not in new.isr:
            return f"node {node} stays a replica, and leaves the ISR"
    added = [n for n in old.adding_replicas if n in new.replicas and n not in new.adding_replicas]
    dropped = [n for n in old.replicas if n not in (*new.replicas, *old.adding_replicas)]
    if not added and not dropped:
        return ""
    if is_reassigning(new):
        return f"{dropped or added} are dropped or added before the end of the reassignment"
    late = [node for node in new.replicas if node not in new.isr]
    return f"the reassignment is complete without {late} in the ISR" if late else ""


def _assignment(partition: PartitionImage) -> tuple[tuple[int, ...], ...]:
    return partition.replicas, partition.adding_replicas, partition.removing_replicas


def _describe(partition: PartitionImage) -> str:
    return (
        f"replicas {list(partition.replicas)} (adding {list(partition.adding_replicas)}, removing "
        f"{list(partition.removing_replicas)}), ISR {list(partition.isr)}, leader "
        f"{partition.leader}"
    )
