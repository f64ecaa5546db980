"""Power losses, and disks that come back empty.

A power loss is a kill that the page cache does not survive: data that was not fsynced is gone,
except for data that the kernel wrote back by itself. The kernel writes back pages that have been
dirty for 30 s (vm.dirty_expire_centisecs), or earlier if much memory is dirty or another file's
fsync includes them. The evidence says what was really lost.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from nemesis.faults.disk.base import (
    DiskFault,
    describe_lost_bytes,
    injection_key,
    keep_evidence,
    kill_and_keep_down,
    measure_kept_evidence,
    require_healthy_disks,
    start_nodes,
)
from nemesis.faults.fault import Ability, Fault, Injection, Measurement
from nemesis.faults.process.base import running
from nemesis.hosts import Hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerLoss(DiskFault):
    """All selected nodes lose power at the same moment, and boot at the heal."""

    name: str = "power-loss"
    about: str = "the nodes lose power at the same moment: data that was not fsynced is lost"
    needs: frozenset[Ability] = frozenset({Ability.SIGNALS, Ability.POWER_LOSS})

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Kill all nodes, then stop all their file systems and let these replay their journals.

        Raises NotApplicable if a disk already refuses writes.
        """
        require_healthy_disks(hosts, injection)
        ending = [
            hosts.task_runner.spawn(
                partial(kill_and_keep_down, hosts, injection, node), f"end of node {node}"
            )
            for node in injection.nodes
        ]
        for each in ending:
            each.wait()
        for each in ending:
            each.result()
        cuts = hosts.disks.cut_power(injection.nodes)
        first_ns = min(cut.at_ns for cut in cuts)
        apart_ms = (max(cut.at_ns for cut in cuts) - first_ns) / 1e6
        together = f", {len(cuts)} nodes within {apart_ms:.1f} ms" if len(cuts) > 1 else ""
        for cut in cuts:
            keep_evidence(
                hosts, injection, cut.node, f"lost {describe_lost_bytes(cut.lost)}{together}"
            )

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Report what the disks lost after the replay of their journals."""
        return measure_kept_evidence(hosts, injection, "its power is on")

    def heal(self, hosts: Hosts, injection: Injection) -> None:
        """Recover the disks that are not recovered yet, and start the nodes."""
        for node in injection.nodes:
            hosts.disks.repair(node)
        start_nodes(hosts, injection)

    def measure_heal(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if the nodes run."""
        return running(hosts, injection)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost(DiskFault):
    """The node comes back with an empty directory: a new disk with a new directory id.

    A voter of the metadata quorum is a node with a certain disk (KIP-853); with a new disk it does
    not vote until an administrator adds it. The heal does what an administrator would do: it
    removes the voter with the lost disk, and adds the node again when it has caught up.
    """

    name: str = "disk.lost"
    about: str = "the node is killed and its disk replaced by an empty one"
    needs: frozenset[Ability] = frozenset({Ability.SIGNALS, Ability.FILES, Ability.ADMINISTRATION})
    selectable: bool = False

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Kill every node and remove its files. Raises NotApplicable if a disk refuses writes."""
        require_healthy_disks(hosts, injection)
        for node in injection.nodes:
            kill_and_keep_down(hosts, injection, node)
            gone: Mapping[str, int] = hosts.disks.wipe(node)
            keep_evidence(hosts, injection, node, f"lost everything: {describe_lost_bytes(gone)}")

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Report what the directories contained."""
        return measure_kept_evidence(hosts, injection, "its files are there")

    def heal(self, hosts: Hosts, injection: Injection) -> None:
        """Start the nodes and replace their votes; their files stay lost."""
        start_nodes(hosts, injection)
        for node in injection.nodes:
            layer = f"{injection_key(injection)}/{node}/vote"
            if hosts.disks.kept_evidence(layer) is None:
                if node in hosts.cluster.voters():
                    hosts.cluster.remove_voter(layer, node)
                hosts.cluster.undo(layer)
                hosts.disks.keep_evidence(
                    layer, "the vote is that of the new disk, or soon will be"
                )

    def measure_heal(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if the nodes run."""
        return running(hosts, injection)


FAULTS: tuple[Fault, ...] = (PowerLoss(), Lost())
