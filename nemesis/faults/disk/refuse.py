"""Disks that refuse: full, read-only, failing, failing once.

Nothing that was written before is lost. A node may go on without what it cannot write, or end; it
may not acknowledge what it did not write. It is started again at the heal, since a file system that
refused comes back only when nobody uses it, and a node that ended stays down by itself.
"""

import errno
import os
from dataclasses import dataclass

from nemesis.faults.disk.base import (
    DiskFault,
    end_node,
    key_of,
    note,
    noted,
    require_well,
    start_nodes,
)
from nemesis.faults.fault import Ability, Effect, Fault, Strike, node_list
from nemesis.faults.process.base import running
from nemesis.hosts import Hosts

PROBE_BYTES = 65_536
ROOM_BYTES = 1 << 20
"""How much has to be free again before a full disk counts as healed."""
ENDING_MS = 7_000
"""How long a node may go on running that has met a full disk, and is about to end by that: it hands
over what it leads first."""

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

    def heal(self, hosts: Hosts, strike: Strike) -> None:
        """End the nodes, bring their disks back, start them."""
        for node in strike.nodes:
            hosts.disks.end_probe(node, key_of(strike))
            if hosts.disks.ailment(node):
                end_node(hosts, strike, node)
                hosts.disks.repair(node)
        start_nodes(hosts, strike)

    def healing(self, hosts: Hosts, strike: Strike) -> Effect:
        """Nothing is wrong with the disks, and the nodes run."""
        for node in strike.nodes:
            if wrong := hosts.disks.ailment(node):
                return Effect(took=False, evidence=f"the disk of node {node} is still {wrong}")
        return running(hosts, strike)


@dataclass(frozen=True, slots=True, kw_only=True)
class Full(_Refusal):
    """Everything that is free is taken; what the node frees meanwhile is taken too."""

    name: str = "disk.full"
    about: str = "everything that is free on the disk is taken, so that writes fail (ENOSPC)"
    errno: int = errno.ENOSPC
    pulse_ms: int | None = 250
    look_after_ms: int = ENDING_MS

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Fill every target's disk."""
        require_well(hosts, strike)
        for node in strike.nodes:
            hosts.disks.fill(node)
        self._try(hosts, strike)

    def pulse(self, hosts: Hosts, strike: Strike, elapsed_ms: int) -> None:
        """Take what has become free; try again where a write went through."""
        for node in _well(hosts, strike):
            hosts.disks.fill(node)
            probe = hosts.disks.probed(node, key_of(strike))
            if probe is not None and probe.done and not probe.error:
                hosts.disks.probe(node, key_of(strike), PROBE_BYTES)

    def heal(self, hosts: Hosts, strike: Strike) -> None:
        """Give everything back; start whoever ended, unless the disk refuses for other reasons."""
        for node in strike.nodes:
            hosts.disks.drain(node)
            hosts.disks.end_probe(node, key_of(strike))
        start_nodes(hosts, strike, but=_unwell(hosts, strike))

    def healing(self, hosts: Hosts, strike: Strike) -> Effect:
        """There is room again, but for disks that will have it when they are repaired."""
        free = {node: hosts.disks.free_bytes(node) for node in _well(hosts, strike)}
        told = "; ".join(f"node {node}: {room:,} bytes free" for node, room in free.items())
        return Effect(took=all(room >= ROOM_BYTES for room in free.values()), evidence=told)

    def look_after(self, hosts: Hosts, strike: Strike) -> str:
        """Start whoever was still running at the heal, and ended then by the write that failed:
        once, since what ends again has another reason.
        """
        started = [node for node in strike.nodes if noted(hosts, strike, node)]
        ended = start_nodes(hosts, strike, but=[*started, *_unwell(hosts, strike)])
        for node in ended:
            note(hosts, strike, node, "started")
        return f"{node_list(ended)} ended later by it, and was started" if ended else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOnly(_Refusal):
    """The file system refuses writes as after an error of its own (errors=remount-ro)."""

    name: str = "disk.read-only"
    about: str = "the file system turns read-only under open files (EROFS), and still reads"
    needs: frozenset[Ability] = frozenset({Ability.DISK_READ_ONLY, Ability.SIGNALS})
    errno: int = errno.EROFS

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Let everything reach the disk, with the node stopped for that moment; then refuse."""
        require_well(hosts, strike)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing(_Refusal):
    """Every access to the file system fails, reads too."""

    name: str = "disk.error"
    about: str = "everything that reads or writes on the disk fails (EIO); nothing written is lost"
    errno: int = errno.EIO

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Let everything reach the disk; from then on nothing works."""
        require_well(hosts, strike)
        for node in strike.nodes:
            hosts.disks.fail(node)
        self._try(hosts, strike)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedSync(DiskFault):
    """One fsync fails, as kernels let it ("fsyncgate"): the pages that were not written count as
    clean from then on, so that the next fsync succeeds and a loss of power takes them all the same.
    """

    name: str = "failed-fsync"
    about: str = "one fsync fails (EIO); what it was to write is read as if it had been written"
    needs: frozenset[Ability] = frozenset({Ability.FAILED_SYNCS, Ability.SIGNALS})

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Of every target the next one fails that has something to write."""
        require_well(hosts, strike)
        for node in strike.nodes:
            hosts.disks.drop_sync(node)

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """It has failed."""
        found = {node: hosts.disks.dropped(node) for node in strike.nodes}
        told = [
            f"node {node}: "
            + ("no fsync yet" if size is None else f"an fsync of {size:,} bytes failed")
            for node, size in found.items()
        ]
        return Effect(took=None not in found.values(), evidence="; ".join(told))

    def heal(self, hosts: Hosts, strike: Strike) -> None:
        """Whoever was told that it failed is started again; the page cache stays as it is."""
        for node in strike.nodes:
            if hosts.disks.dropped(node) is not None:
                end_node(hosts, strike, node)
            hosts.disks.keep_syncs(node)
        start_nodes(hosts, strike)

    def healing(self, hosts: Hosts, strike: Strike) -> Effect:
        """The nodes run."""
        return running(hosts, strike)


def _well(hosts: Hosts, strike: Strike) -> list[int]:
    return [node for node in strike.nodes if not hosts.disks.ailment(node)]


def _unwell(hosts: Hosts, strike: Strike) -> list[int]:
    return [node for node in strike.nodes if hosts.disks.ailment(node)]


FAULTS: tuple[Fault, ...] = (Full(), ReadOnly(), Failing(), FailedSync())
