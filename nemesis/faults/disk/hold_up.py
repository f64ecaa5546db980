"""Disks that hold writes up: stalled, as by a dying controller or a snapshot, and slow.

What proves it is a write and fsync by a process of its own, which is held up as the node's are.
"""

import math
from dataclasses import dataclass

from nemesis.base import Futile
from nemesis.faults.disk.base import DiskFault, key_of, require_well
from nemesis.faults.fault import Ability, Effect, Fault, Option, Strike, node_list
from nemesis.hosts import Hosts, Probe

STALLED_MS = 50.0
"""How long a write of one block has to be held up before the disk counts as stalled."""
PROBE_BYTES = 4096
PROBE_S = 0.25
"""How long the write that measures a slow disk is to take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall(DiskFault):
    """The file system is frozen: whoever writes or syncs waits, alive, until the heal."""

    name: str = "disk.stall"
    about: str = "the disk takes no write and ends no fsync until the heal; reads go on"
    needs: frozenset[Ability] = frozenset({Ability.DISK_STALLS})
    pulse_ms: int | None = 250

    def prepare(self, hosts: Hosts, strike: Strike) -> None:
        """Let the disks write what waits: the kernel does so before it lets one be frozen."""
        for node in strike.nodes:
            hosts.disks.flush(node)

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Freeze every target's disk. Raises Futile."""
        require_well(hosts, strike)
        for node in strike.nodes:
            hosts.disks.freeze(node)

    def pulse(self, hosts: Hosts, strike: Strike, elapsed_ms: int) -> None:
        """Try again where a write got through: another fault made the disk go on for a moment."""
        for node in strike.nodes:
            probe = hosts.disks.probed(node, key_of(strike))
            if probe is not None and probe.done and not hosts.disks.ailment(node):
                hosts.disks.probe(node, key_of(strike), PROBE_BYTES)

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """Writes, begun when this is asked first, are held up."""
        for node in strike.nodes:
            if hosts.disks.probed(node, key_of(strike)) is None:
                hosts.disks.probe(node, key_of(strike), PROBE_BYTES)
        seen = _probes(hosts, strike)
        stalled = [p is not None and not p.done and p.elapsed_ms >= STALLED_MS for p in seen]
        return Effect(took=bool(seen) and all(stalled), evidence=_told(strike, seen))

    def heal(self, hosts: Hosts, strike: Strike) -> None:
        """Thaw every target's disk."""
        for node in strike.nodes:
            hosts.disks.thaw(node)

    def healing(self, hosts: Hosts, strike: Strike) -> Effect:
        """The writes that were held up ended, or failed by what else is wrong with the disk."""
        seen = [hosts.disks.end_probe(node, key_of(strike)) for node in strike.nodes]
        stuck = [p is not None and not p.done for p in seen]
        return Effect(took=not any(stuck), evidence=_told(strike, seen) or "nothing was held")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow(DiskFault):
    """The block device is limited in bytes and operations a second, each way."""

    name: str = "disk.slow"
    about: str = "the disk reads and writes no more than so many bytes and operations a second"
    needs: frozenset[Ability] = frozenset({Ability.DISK_SPEED})

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Limit every target's disk, then begin a write to it. Raises Futile without a limit."""
        speed, operations = _speed(strike)
        if not speed and not operations:
            raise Futile("neither bytes_per_s nor operations_per_s is a limit")
        require_well(hosts, strike)
        for node in strike.nodes:
            hosts.disks.limit(node, bytes_per_s=speed, operations_per_s=operations)
        for node in strike.nodes:
            hosts.disks.probe(node, key_of(strike), _probe_bytes(strike))

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """The writes take at least half as long as the limits say."""
        seen = _probes(hosts, strike)
        least_ms = _least_ms(strike) / 2
        slow = [p is not None and not p.error and p.elapsed_ms >= least_ms for p in seen]
        return Effect(took=bool(seen) and all(slow), evidence=_told(strike, seen))

    def heal(self, hosts: Hosts, strike: Strike) -> None:
        """Lift the limits."""
        for node in strike.nodes:
            hosts.disks.unlimit(node)

    def healing(self, hosts: Hosts, strike: Strike) -> Effect:
        """The kernel has no limit any more, and the write is through."""
        for node in strike.nodes:
            hosts.disks.end_probe(node, key_of(strike))
        left = [node for node in strike.nodes if hosts.disks.is_limited(node)]
        if left:
            return Effect(took=False, evidence=f"{node_list(left)} still has a slow disk")
        return Effect(took=True, evidence="the kernel has no limit any more")


def _speed(strike: Strike) -> tuple[int, int]:
    return int(strike.detail("bytes_per_s")), int(strike.detail("operations_per_s"))


def _probe_bytes(strike: Strike) -> int:
    speed, _ = _speed(strike)
    return max(PROBE_BYTES, math.ceil(speed * PROBE_S))


def _least_ms(strike: Strike) -> float:
    """How long the probe takes at least: its bytes, and two operations (data and journal)."""
    speed, operations = _speed(strike)
    for_bytes = _probe_bytes(strike) / speed if speed else 0.0
    return 1000 * max(for_bytes, 2 / operations if operations else 0.0)


def _probes(hosts: Hosts, strike: Strike) -> list[Probe | None]:
    return [hosts.disks.probed(node, key_of(strike)) for node in strike.nodes]


def _told(strike: Strike, seen: list[Probe | None]) -> str:
    return "; ".join(
        f"node {node}: a write and fsync of {probe.size_bytes:,} bytes "
        f"{'took' if probe.done else 'has been held up for'} {probe.elapsed_ms:,.0f} ms"
        f"{f' and failed: {probe.error}' if probe.error else ''}"
        for node, probe in zip(strike.nodes, seen, strict=True)
        if probe is not None
    )


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise ValueError("it is a whole number, 0 for no limit")
    return int(text)


FAULTS: tuple[Fault, ...] = (
    Stall(),
    Slow(
        options=(
            Option(
                name="bytes_per_s",
                default="1000000",
                about="bytes a second that the disk reads, and that it writes; 0 is no limit",
                read=_whole,
            ),
            Option(
                name="operations_per_s",
                default="0",
                about="reads a second, and writes a second, that the disk does; 0 is no limit",
                read=_whole,
            ),
        )
    ),
)
