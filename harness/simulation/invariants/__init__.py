"""Invariants of a simulated cluster, checked after each event that touched what they are about.
They judge the nodes' own state; what clients saw is left to the checkers.

    invariants = Invariants(cluster)      # before the cluster starts
    world.run_for(60)                     # raises InvariantBroken, at the event that broke one
    invariants.excused                    # permitted losses

The nodes are unmodified: the checks read the nodes' objects, and the logs of all nodes (dead ones
too) batch by batch from their disks. Nothing is asked of the nodes, and nothing that they do
depends on the checks: a run has the same trace with and without them.

Assignments to watched objects (`attribute_watch`) and writes to the disks show what an event
touched; only that is checked, at the end of the event. The rules are in `partition_history` (what
is appended and committed), `replicas`, `stable_offsets`, `acknowledgements`, `lookups`,
`deletions`, `markers`, `producer_ids`, `leader_epochs`, `indexes`, `compaction`, `quorum`,
`images`, `assignments`, `coordinators`, `coordinated_groups` and `set_aside`; `convergence` has
what must be true in the end. Code that damages a node's disk must call `damaged`; power losses
are detected.
"""

from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.checker import Invariants

__all__ = ["InvariantBroken", "Invariants"]
