"""Faults of disks: stalled, slow, full, read-only, failing, without power, lost, damaged.

Stalled and slow disks hold writes up and lose nothing. Full, read-only and failing ones refuse, and
lose nothing that was written before. A loss of power loses what was not fsynced; lost and damaged
files stay so, and healing only starts the node again: what it makes of them is its own affair, and
refusing to start is as right an answer as any that serves no wrong records.
"""

from nemesis.faults.disk import damage, hold_up, power, refuse
from nemesis.faults.fault import Fault

FAULTS: tuple[Fault, ...] = (*hold_up.FAULTS, *refuse.FAULTS, *power.FAULTS, *damage.FAULTS)
