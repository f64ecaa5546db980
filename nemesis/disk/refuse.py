"""Disks that refuse: full, read-only, failing.

Nothing that was written before is lost. A node may go on without what it cannot write, or end; it
may not acknowledge what it did not write. It is started again at the heal, since a file system that
refused comes back only when nobody uses it, and a node that ended stays down by itself.
"""

import errno
import os
from dataclasses import dataclass

from nemesis.disk.base import DiskFault, end_node, key_of, start_nodes
from nemesis.fault import Ability, Effect, Fault, Strike, node_list
from nemesis.hosts import Hosts

PROBE_BYTES = 65_536
ROOM_BYTES = 1 << 20
"""How much has to be free again before a full disk counts as healed."""

_FAULTS = frozenset({Ability.DISK_FAULTS})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refusal(DiskFault):
    """Proven by a write that fails with `errno`."""

    errno: int
    needs: frozenset[Ability] = _FAULTS

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """A write fails, in the way that it should."""
        told, took = [], True
        for node in strike.nodes:
            probe = hosts.disks.probed(node, key_of(strike))
            said = "is on its way" if probe is None or not probe.done else probe.error or "works"
            took = took and said == os.strerror(self.errno)
            goes_on = "" if hosts.processes.is_running(node) else ", and the node does not run"
            told.append(f"node {node}: a write: {said}{goes_on}")
        return Effect(took=took, evidence="; ".join(told))

    def _try(self, hosts: Hosts, strike: Strike) -> None:
        for node in strike.nodes:
            hosts.disks.probe(node, key_of(strike), PROBE_BYTES)

    def _repair(self, hosts: Hosts, strike: Strike) -> None:
        """Bring back disks that are down, under nodes that are; start whoever does not run."""
        for node in strike.nodes:
            hosts.disks.end_probe(node, key_of(strike))
            if hosts.disks.ailment(node):
                end_node(hosts, node)
                hosts.disks.repair(node)
        start_nodes(hosts, strike.nodes)

    def healing(self, hosts: Hosts, strike: Strike) -> Effect:
        """Nothing is wrong with the disks, and the nodes run."""
        told = []
        for node in strike.nodes:
            wrong = hosts.disks.ailment(node) or (
                "" if hosts.processes.is_running(node) else "well, but the node does not run"
            )
            if wrong:
                return Effect(took=False, evidence=f"node {node}'s disk is {wrong}")
            told.append(f"node {node}: {hosts.disks.free_bytes(node):,} bytes free, runs")
        return Effect(took=True, evidence="; ".join(told) or "others hold it")


@dataclass(frozen=True, slots=True, kw_only=True)
class Full(_Refusal):
    """Everything that is free is taken; what the node frees meanwhile is taken too."""

    name: str = "disk.full"
    about: str = "everything that is free on the disk is taken, so that writes fail (ENOSPC)"
    errno: int = errno.ENOSPC
    pulse_ms: int | None = 250

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Fill every target's disk."""
        for node in strike.nodes:
            hosts.disks.fill(node)
        self._try(hosts, strike)

    def pulse(self, hosts: Hosts, strike: Strike, elapsed_ms: int) -> None:
        """Take what has become free; try again where a write went through."""
        for node in strike.nodes:
            hosts.disks.fill(node)
            probe = hosts.disks.probed(node, key_of(strike))
            if probe is not None and probe.done and not probe.error:
                hosts.disks.probe(node, key_of(strike), PROBE_BYTES)

    def heal(self, hosts: Hosts, strike: Strike) -> None:
        """Give everything back; start whoever ended."""
        for node in strike.nodes:
            hosts.disks.drain(node)
        self._repair(hosts, strike)

    def healing(self, hosts: Hosts, strike: Strike) -> Effect:
        """There is room again, and the nodes run."""
        full = [node for node in strike.nodes if hosts.disks.free_bytes(node) < ROOM_BYTES]
        if full:
            return Effect(took=False, evidence=f"the disk of {node_list(full)} is still full")
        # Spelled out: a dataclass with slots is not the class that `super()` would look for.
        return _Refusal.healing(self, hosts, strike)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOnly(_Refusal):
    """The file system refuses writes as after an error of its own (errors=remount-ro)."""

    name: str = "disk.read-only"
    about: str = "the file system turns read-only under open files (EROFS), and still reads"
    needs: frozenset[Ability] = frozenset({Ability.DISK_READ_ONLY, Ability.SIGNALS})
    errno: int = errno.EROFS

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Let everything reach the disk, with the node stopped for that moment; then refuse."""
        for node in strike.nodes:
            moving = hosts.processes.state(node) not in ("T", "")
            if moving:
                hosts.processes.pause(node)
            try:
                hosts.disks.set_read_only(node)
            finally:
                if moving:
                    hosts.processes.resume(node)
        self._try(hosts, strike)

    def heal(self, hosts: Hosts, strike: Strike) -> None:
        """End the nodes, bring their disks back, start them."""
        self._repair(hosts, strike)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing(_Refusal):
    """Every access to the file system fails, reads too."""

    name: str = "disk.error"
    about: str = "everything that reads or writes on the disk fails (EIO); nothing written is lost"
    errno: int = errno.EIO

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Let everything reach the disk; from then on nothing works."""
        for node in strike.nodes:
            hosts.disks.fail(node)
        self._try(hosts, strike)

    def heal(self, hosts: Hosts, strike: Strike) -> None:
        """End the nodes, bring their disks back, start them."""
        self._repair(hosts, strike)


FAULTS: tuple[Fault, ...] = (Full(), ReadOnly(), Failing())
