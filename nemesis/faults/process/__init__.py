"""Faults of processes: killed, stopped, restarted, at the worst moments.

`kill` is SIGKILL, so that nothing is flushed or said goodbye to; the page cache survives (losing it
is a power loss, another fault). `pause` is SIGSTOP, the long garbage collection or the starved
virtual machine: connections stay open and the node's idea of the time stands still. `restart` is
what an operator does. A node that several faults keep down starts again when the last one is
healed.
"""

from typing import Final

from nemesis.faults.fault import Fault
from nemesis.faults.process.crashes import CrashLoop, KillDuringRecovery
from nemesis.faults.process.hold import Kill, Pause, PauseClients
from nemesis.faults.process.restarts import Restart, RollingRestart

FAULTS: Final[tuple[Fault, ...]] = (
    Kill(),
    Pause(),
    PauseClients(),
    Restart(),
    RollingRestart(),
    CrashLoop(),
    KillDuringRecovery(),
)
