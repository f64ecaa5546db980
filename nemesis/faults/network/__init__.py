"""Faults of the network: what is cut, what is lost of an answer, what is reset, what is only bad.

A fault that makes a link worse or cuts it by turns is a layer of its own on that link, so that
several may be in force on one link and each goes alone. Plain partitions of the same pairs are one
cut, which goes with the last of them.
"""

from nemesis.faults.fault import Fault
from nemesis.faults.network import cuts, links, partitions, resets

FAULTS: tuple[Fault, ...] = (
    *partitions.FAULTS,
    *cuts.FAULTS,
    *resets.FAULTS,
    *links.FAULTS,
)
