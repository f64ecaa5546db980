"""Disks that refuse writes: full, read-only, failing, failing once.

Nothing that was written before is lost. A node may go on without the failed writes, or end; it must
not acknowledge data that it did not write. The heal restarts the node, because such a file system
recovers only when it is not in use, and a node that ended does not start by itself.
"""

import errno
import os
from dataclasses import dataclass

from nemesis.faults.disk.base import (
    DiskFault,
    injection_key,
    keep_evidence,
    kept_evidence,
    kill_and_keep_down,
    require_healthy_disks,
    start_nodes,
)
from nemesis.faults.fault import Ability, Fault, Injection, Measurement, node_list
from nemesis.faults.process.base import running
from nemesis.hosts import Hosts

PROBE_BYTES = 65_536
ROOM_BYTES = 1 << 20
"""How much space must be free before a full disk counts as healed."""
ENDING_MS = 7_000
"""How long a node may still run after an error on a full disk, before it ends: it first hands over
its leaderships."""

_FAULTS = frozenset({Ability.DISK_FAULTS})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refusal(DiskFault):
    """Confirmed by a write that fails with `errno`."""

    errno: int
    needs: frozenset[Ability] = _FAULTS

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if a write fails with the expected error on every node."""
        texts, confirmed = [], True
        for node in injection.nodes:
            probe = hosts.disks.probed(node, injection_key(injection))
            outcome = "is on its way" if probe is None or not probe.done else probe.error or "works"
            confirmed = confirmed and outcome == os.strerror(self.errno)
            ended = "" if hosts.processes.is_running(node) else ", and the node does not run"
            texts.append(f"node {node}: a write: {outcome}{ended}")
        return Measurement(confirmed=confirmed, evidence="; ".join(texts))

    def _start_probes(self, hosts: Hosts, injection: Injection) -> None:
        for node in injection.nodes:
            hosts.disks.probe(node, injection_key(injection), PROBE_BYTES)

    def heal(self, hosts: Hosts, injection: Injection) -> None:
        """Kill the nodes, repair their disks, start them."""
        for node in injection.nodes:
            hosts.disks.end_probe(node, injection_key(injection))
            if hosts.disks.disk_problem(node):
                kill_and_keep_down(hosts, injection, node)
                hosts.disks.repair(node)
        start_nodes(hosts, injection)

    def measure_heal(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if the disks are healthy and the nodes run."""
        for node in injection.nodes:
            if wrong := hosts.disks.disk_problem(node):
                return Measurement(
                    confirmed=False, evidence=f"the disk of node {node} is still {wrong}"
                )
        return running(hosts, injection)


@dataclass(frozen=True, slots=True, kw_only=True)
class Full(_Refusal):
    """All free space is allocated, also the space that the node frees meanwhile."""

    name: str = "disk.full"
    about: str = "all free space on the disk is allocated, so that writes fail (ENOSPC)"
    errno: int = errno.ENOSPC
    tick_ms: int | None = 250
    follow_up_ms: int = ENDING_MS

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Fill every node's disk."""
        require_healthy_disks(hosts, injection)
        for node in injection.nodes:
            hosts.disks.fill(node)
        self._start_probes(hosts, injection)

    def tick(self, hosts: Hosts, injection: Injection, elapsed_ms: int) -> None:
        """Allocate newly freed space, and repeat probes that succeeded."""
        for node in _healthy(hosts, injection):
            hosts.disks.fill(node)
            probe = hosts.disks.probed(node, injection_key(injection))
            if probe is not None and probe.done and not probe.error:
                hosts.disks.probe(node, injection_key(injection), PROBE_BYTES)

    def heal(self, hosts: Hosts, injection: Injection) -> None:
        """Free the space; start ended nodes, unless another fault makes the disk refuse writes."""
        for node in injection.nodes:
            hosts.disks.drain(node)
            hosts.disks.end_probe(node, injection_key(injection))
        start_nodes(hosts, injection, except_nodes=_refusing(hosts, injection))

    def measure_heal(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if all disks have free space, except those that still wait for their repair."""
        free = {node: hosts.disks.free_bytes(node) for node in _healthy(hosts, injection)}
        text = "; ".join(f"node {node}: {room:,} bytes free" for node, room in free.items())
        return Measurement(
            confirmed=all(room >= ROOM_BYTES for room in free.values()), evidence=text
        )

    def follow_up(self, hosts: Hosts, injection: Injection) -> str:
        """Start the nodes that still ran at the heal, and ended later because of the failed write.
        Once for each node: a second end has another reason.
        """
        started = [node for node in injection.nodes if kept_evidence(hosts, injection, node)]
        ended = start_nodes(hosts, injection, except_nodes=[*started, *_refusing(hosts, injection)])
        for node in ended:
            keep_evidence(hosts, injection, node, "started")
        return f"{node_list(ended)} ended later because of it, and was started" if ended else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOnly(_Refusal):
    """The file system refuses writes, as after an internal error (errors=remount-ro)."""

    name: str = "disk.read-only"
    about: str = "the file system turns read-only under open files (EROFS); reads still work"
    needs: frozenset[Ability] = frozenset({Ability.DISK_READ_ONLY, Ability.SIGNALS})
    errno: int = errno.EROFS

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Write everything to the disk, with the node paused meanwhile; then refuse writes."""
        require_healthy_disks(hosts, injection)
        for node in injection.nodes:
            moving = hosts.processes.state(node) not in ("T", "")
            if moving:
                hosts.processes.pause(node)
            try:
                hosts.disks.set_read_only(node)
            finally:
                if moving:
                    hosts.processes.resume(node)
        self._start_probes(hosts, injection)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing(_Refusal):
    """Every access to the file system fails, reads too."""

    name: str = "disk.error"
    about: str = "every read and write on the disk fails (EIO); written data is not lost"
    errno: int = errno.EIO

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Write everything to the disk; then let every access fail."""
        require_healthy_disks(hosts, injection)
        for node in injection.nodes:
            hosts.disks.fail(node)
        self._start_probes(hosts, injection)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedSync(DiskFault):
    """One fsync fails as in real kernels ("fsyncgate"): the unwritten pages count as clean from
    then on, so the next fsync succeeds although a power loss still loses them.
    """

    name: str = "failed-fsync"
    about: str = "one fsync fails (EIO); its data can still be read, but is never written"
    needs: frozenset[Ability] = frozenset({Ability.FAILED_SYNCS, Ability.SIGNALS})

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Let every node's next fsync with something to write fail."""
        require_healthy_disks(hosts, injection)
        for node in injection.nodes:
            hosts.disks.fail_next_sync(node)

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if an fsync has failed on every node."""
        found = {node: hosts.disks.failed_sync_bytes(node) for node in injection.nodes}
        texts = [
            f"node {node}: "
            + ("no fsync yet" if size is None else f"an fsync of {size:,} bytes failed")
            for node, size in found.items()
        ]
        return Measurement(confirmed=None not in found.values(), evidence="; ".join(texts))

    def heal(self, hosts: Hosts, injection: Injection) -> None:
        """Restart the nodes whose fsync failed; the page cache is not changed."""
        for node in injection.nodes:
            if hosts.disks.failed_sync_bytes(node) is not None:
                kill_and_keep_down(hosts, injection, node)
            hosts.disks.stop_sync_failures(node)
        start_nodes(hosts, injection)

    def measure_heal(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if the nodes run."""
        return running(hosts, injection)


def _healthy(hosts: Hosts, injection: Injection) -> list[int]:
    return [node for node in injection.nodes if not hosts.disks.disk_problem(node)]


def _refusing(hosts: Hosts, injection: Injection) -> list[int]:
    return [node for node in injection.nodes if hosts.disks.disk_problem(node)]


FAULTS: tuple[Fault, ...] = (Full(), ReadOnly(), Failing(), FailedSync())
