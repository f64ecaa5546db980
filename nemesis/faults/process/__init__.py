"""Faults of processes: killed, stopped, restarted, at the worst moments.

`kill` is SIGKILL: the node flushes nothing and closes nothing, but the page cache survives (another
fault, `power-loss`, loses it). `pause` is SIGSTOP, like a long garbage collection or a starved
virtual machine: connections stay open and time stops for the node. `restart` is what an operator
does. A node that several faults keep down starts again when the last of them is healed.
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
