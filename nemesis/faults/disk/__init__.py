"""Faults of disks: stalled, slow, full, read-only, failing, without power, lost, damaged.

Stalled and slow disks delay writes and lose nothing. Full, read-only and failing disks refuse
writes, and lose nothing that was written before. A power loss loses what was not fsynced. Lost and
damaged files stay so; the heal only starts the node again. The node may repair them or refuse to
start, but it must not serve wrong records.
"""

from nemesis.faults.disk import damage, hold_up, power, refuse
from nemesis.faults.fault import Fault

FAULTS: tuple[Fault, ...] = (*hold_up.FAULTS, *refuse.FAULTS, *power.FAULTS, *damage.FAULTS)
