"""Faults of the network: cut links, lost responses, connection resets, bad links, late requests.

A fault that impairs a link or cuts it periodically is a layer of its own on that link. So several
may be in force on one link, and each is healed separately. Network partitions that cut the same
pairs share the cut, which ends with the last of them.
"""

from nemesis.faults.fault import Fault
from nemesis.faults.network import cuts, links, partitions, requests, resets

FAULTS: tuple[Fault, ...] = (
    *partitions.FAULTS,
    *cuts.FAULTS,
    *resets.FAULTS,
    *links.FAULTS,
    *requests.FAULTS,
)
