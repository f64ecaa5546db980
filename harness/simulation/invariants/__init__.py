"""Invariants of a simulated cluster, checked after every event that touched them.

    invariants = Invariants(cluster)      # before the cluster starts
    world.run_for(60)                     # raises InvariantBroken, at the event that broke it
    invariants.excused                    # what was lost, and might be

The nodes are the unmodified ones: their state is read where it lies, their logs batch by batch as
their disks hold them, dead nodes' too. Nothing is asked of them, and nothing that they do depends
on being watched: a run has the same trace with and without.

What an event touched is learnt from assignments to watched objects (`watching`) and from writes to
the disks, and only that is looked at, once the event is over. The rules stand in `ledger` (what is
appended and committed), `replicas`, `quorum`, `images`; `convergence` has what must be true in the
end. Whoever damages a node's disk says so (`damaged`); losses of power are noticed.
"""

from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.checker import Invariants

__all__ = ["InvariantBroken", "Invariants"]
