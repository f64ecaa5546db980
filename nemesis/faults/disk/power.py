"""Power that fails, and disks that come back empty.

A loss of power is a kill that the page cache does not survive: whatever was not fsynced is gone,
but for what the kernel wrote back by itself. It does that to data that has been waiting for 30 s
(vm.dirty_expire_centisecs), or sooner when much of the memory waits, or when another file's fsync
takes it along; the evidence says what was really lost.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from nemesis.faults.disk.base import (
    DiskFault,
    as_noted,
    end_node,
    in_bytes,
    key_of,
    note,
    require_well,
    start_nodes,
)
from nemesis.faults.fault import Ability, Effect, Fault, Strike
from nemesis.faults.process.base import running
from nemesis.hosts import Hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLoss(DiskFault):
    """All targets lose their power at the same instant, and boot at the heal."""

    name: str = "power-loss"
    about: str = "the nodes lose power at one instant: what was not fsynced is gone at the restart"
    needs: frozenset[Ability] = frozenset({Ability.SIGNALS, Ability.POWER_LOSS})

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Kill all, then end all their file systems, and let those replay their journals.

        Raises Futile for disks that do not work anyway.
        """
        require_well(hosts, strike)
        ending = [
            hosts.strands.spawn(partial(end_node, hosts, strike, node), f"end of node {node}")
            for node in strike.nodes
        ]
        for each in ending:
            each.wait()
        for each in ending:
            each.result()
        cuts = hosts.disks.cut_power(strike.nodes)
        first_ns = min(cut.at_ns for cut in cuts)
        apart_ms = (max(cut.at_ns for cut in cuts) - first_ns) / 1e6
        together = f", {len(cuts)} nodes within {apart_ms:.1f} ms" if len(cuts) > 1 else ""
        for cut in cuts:
            note(hosts, strike, cut.node, f"lost {in_bytes(cut.lost)}{together}")

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """What the disks lacked after the journal's replay, by kinds of directories."""
        return as_noted(hosts, strike, "its power is on")

    def heal(self, hosts: Hosts, strike: Strike) -> None:
        """Start the nodes; bring disks back that are not yet."""
        for node in strike.nodes:
            hosts.disks.repair(node)
        start_nodes(hosts, strike)

    def healing(self, hosts: Hosts, strike: Strike) -> Effect:
        """The nodes run."""
        return running(hosts, strike)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost(DiskFault):
    """The node comes back with an empty directory: a new disk, a new directory id.

    A voter of the metadata quorum is a node on a disk (KIP-853), and does not vote on a new one
    until somebody says so. The heal does what an administrator would: it takes the vote of the lost
    disk away, and gives the node one again when it has caught up.
    """

    name: str = "disk.lost"
    about: str = "the node is killed and its disk replaced by an empty one"
    needs: frozenset[Ability] = frozenset({Ability.SIGNALS, Ability.FILES, Ability.ADMINISTRATION})
    aimable: bool = False

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Kill every target and remove its files. Raises Futile for disks that do not work."""
        require_well(hosts, strike)
        for node in strike.nodes:
            end_node(hosts, strike, node)
            gone: Mapping[str, int] = hosts.disks.wipe(node)
            note(hosts, strike, node, f"lost everything: {in_bytes(gone)}")

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """What the directories had."""
        return as_noted(hosts, strike, "its files are there")

    def heal(self, hosts: Hosts, strike: Strike) -> None:
        """Start the nodes and renew their votes; their files stay lost."""
        start_nodes(hosts, strike)
        for node in strike.nodes:
            layer = f"{key_of(strike)}/{node}/vote"
            if hosts.disks.noted(layer) is None:
                if node in hosts.cluster.voters():
                    hosts.cluster.remove_voter(layer, node)
                hosts.cluster.undo(layer)
                hosts.disks.note(layer, "the vote is that of the new disk, or on its way")

    def healing(self, hosts: Hosts, strike: Strike) -> Effect:
        """The nodes run."""
        return running(hosts, strike)


FAULTS: tuple[Fault, ...] = (PowerLoss(), Lost())
