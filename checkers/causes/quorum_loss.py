"""When the metadata quorum lost its memory: a majority of its voters without the disks they had.

What the quorum has committed is on the disks of a majority of its voters, each of them a node on a
disk (KIP-853): where fewer lose theirs, nothing is forgotten (KAFKA-14077), where a majority lacks
them together, everything may be: leaders, epochs, in-sync replicas, whole topics. No broker can
make up for that. It is over when so few lack theirs that a majority remembers, which a wiped voter
does once it was left out of the voters and is one again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkers.causes.state_loss import Members, losses_of
from checkers.engines.engine import Engine, Frame
from checkers.history.recorded_faults import Fault, seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumLoss:
    """Voters that lacked their disks together, from from_ns until back_ns."""

    nodes: tuple[int, ...]
    voters: tuple[int, ...]
    faults: tuple[Fault, ...]
    from_ns: int
    back_ns: int

    @property
    def text(self) -> str:
        """For people."""
        told = "; ".join(fault.describe() for fault in self.faults)
        return (
            f"nodes {_listed(self.nodes)} of the voters {_listed(self.voters)} lacked their disks "
            f"together from {seconds(self.from_ns)} on, {told}: what the metadata quorum had "
            f"decided may be forgotten"
        )


def learn_quorum_losses(
    engine: Engine, cluster: Frame, faults: Sequence[Fault]
) -> list[QuorumLoss]:
    """Those of a run. cluster: a frame of its schema."""
    if not any(fault.whole_disk for fault in faults):
        return []
    F = engine.functions
    told = cluster.where(F.col("kind") == F.lit("quorum")).select("at_ns", "isr", "partition_epoch")
    return quorum_losses(engine.rows(told.orderBy("at_ns")), faults)


def quorum_losses(told: Sequence[Mapping[str, Any]], faults: Sequence[Fault]) -> list[QuorumLoss]:
    """Every moment from which on a majority lacked its disks. told: rows of kind quorum, whose
    `isr` are the voters."""
    members = Members([row for row in told if row["isr"]], 0)
    losses = losses_of(members, [fault for fault in faults if fault.whole_disk])
    found: dict[int, QuorumLoss] = {}
    for last in losses:
        lacking = {e.node: e for e in losses if e.from_ns <= last.from_ns <= e.back_ns}
        states = members.between(last.from_ns, last.from_ns)
        voters = max((state.in_sync for state in states), key=len, default=frozenset())
        gone = voters & lacking.keys()
        if 2 * len(gone) <= len(voters):
            continue
        enough = len(gone) - len(voters) // 2  # as many back, and most remember
        by_fault = {lacking[node].fault.fault_id: lacking[node].fault for node in sorted(gone)}
        found[last.from_ns] = QuorumLoss(
            nodes=tuple(sorted(gone)),
            voters=tuple(sorted(voters)),
            faults=tuple(by_fault.values()),
            from_ns=last.from_ns,
            back_ns=sorted(lacking[node].back_ns for node in gone)[enough - 1],
        )
    return list(found.values())


def _listed(nodes: Sequence[int]) -> str:
    return ", ".join(map(str, nodes))
