"""When the metadata quorum lost its data: a majority of its voters lacked their disks.

Committed metadata is on the disks of a majority of the voters; each voter is a node with a disk
(KIP-853). If fewer voters lose their disks, nothing is lost (KAFKA-14077). If a majority lacks its
disks at the same time, everything may be lost: leaders, epochs, in-sync replicas, whole topics. No
broker can repair that. The loss ends when a majority has the metadata again. A wiped voter has it
again once it was removed from the voters and added back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkers.causes.state_loss import IsrHistory, replica_losses
from checkers.engines.engine import Engine, Frame
from checkers.history.recorded_faults import Fault, seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumLoss:
    """Voters that lacked their disks at the same time, from from_ns until back_ns."""

    nodes: tuple[int, ...]
    voters: tuple[int, ...]
    faults: tuple[Fault, ...]
    from_ns: int
    back_ns: int

    @property
    def text(self) -> str:
        """For people."""
        faults = "; ".join(fault.describe() for fault in self.faults)
        return (
            f"Nodes {_listed(self.nodes)} of the voters {_listed(self.voters)} lacked their disks "
            f"at the same time, from {seconds(self.from_ns)} on, because of {faults}. The quorum "
            f"may have lost committed metadata."
        )


def read_quorum_losses(engine: Engine, cluster: Frame, faults: Sequence[Fault]) -> list[QuorumLoss]:
    """Return the quorum losses of a run. cluster: a frame of its schema."""
    if not any(fault.whole_disk for fault in faults):
        return []
    F = engine.functions
    rows = cluster.where(F.col("kind") == F.lit("quorum")).select("at_ns", "isr", "partition_epoch")
    return quorum_losses(engine.rows(rows.orderBy("at_ns")), faults)


def quorum_losses(rows: Sequence[Mapping[str, Any]], faults: Sequence[Fault]) -> list[QuorumLoss]:
    """Return a loss for every moment from which on a majority lacked its disks. rows: of kind
    quorum; `isr` has the voters."""
    voter_history = IsrHistory([row for row in rows if row["isr"]], 0)
    losses = replica_losses(voter_history, [fault for fault in faults if fault.whole_disk])
    found: dict[int, QuorumLoss] = {}
    for last in losses:
        lacking = {e.node: e for e in losses if e.from_ns <= last.from_ns <= e.back_ns}
        states = voter_history.between(last.from_ns, last.from_ns)
        voters = max((state.in_sync for state in states), key=len, default=frozenset())
        gone = voters & lacking.keys()
        if 2 * len(gone) <= len(voters):
            continue
        enough = len(gone) - len(voters) // 2  # when so many are back, a majority has the metadata
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
