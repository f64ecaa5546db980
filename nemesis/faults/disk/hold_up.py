"""Disks that delay writes: stalled (as by a dying disk controller or a snapshot) and slow.

The effect is measured by a write and fsync of a separate process, which the fault delays as it
delays the node's own.
"""

import math
from dataclasses import dataclass

from nemesis.base import NotApplicable
from nemesis.faults.disk.base import DiskFault, injection_key, require_healthy_disks
from nemesis.faults.fault import Ability, Fault, Injection, Measurement, Option, node_list
from nemesis.hosts import Hosts, Probe

STALLED_MS = 50.0
"""How long a write of one block must be delayed before the disk counts as stalled."""
PROBE_BYTES = 4096
PROBE_S = 0.25
"""How long the write that measures a slow disk should take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall(DiskFault):
    """The file system is frozen: writes and fsyncs wait until the heal; processes stay alive."""

    name: str = "disk.stall"
    about: str = "the disk completes no write and no fsync until the heal; reads still work"
    needs: frozenset[Ability] = frozenset({Ability.DISK_STALLS})
    tick_ms: int | None = 250

    def prepare(self, hosts: Hosts, injection: Injection) -> None:
        """Write dirty pages: the kernel does that before it freezes a file system."""
        for node in injection.nodes:
            hosts.disks.flush(node)

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Freeze every node's disk. Raises NotApplicable."""
        require_healthy_disks(hosts, injection)
        for node in injection.nodes:
            hosts.disks.freeze(node)

    def tick(self, hosts: Hosts, injection: Injection, elapsed_ms: int) -> None:
        """Repeat a probe that got through: another fault let the disk work for a moment."""
        for node in injection.nodes:
            probe = hosts.disks.probed(node, injection_key(injection))
            if probe is not None and probe.done and not hosts.disks.disk_problem(node):
                hosts.disks.probe(node, injection_key(injection), PROBE_BYTES)

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if the probes are delayed; the first call starts them."""
        for node in injection.nodes:
            if hosts.disks.probed(node, injection_key(injection)) is None:
                hosts.disks.probe(node, injection_key(injection), PROBE_BYTES)
        seen = _probes(hosts, injection)
        stalled = [p is not None and not p.done and p.elapsed_ms >= STALLED_MS for p in seen]
        return Measurement(
            confirmed=bool(seen) and all(stalled), evidence=_describe(injection, seen)
        )

    def heal(self, hosts: Hosts, injection: Injection) -> None:
        """Thaw every node's disk."""
        for node in injection.nodes:
            hosts.disks.thaw(node)

    def measure_heal(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if the delayed probes have ended; other disk faults may make them fail."""
        seen = [hosts.disks.end_probe(node, injection_key(injection)) for node in injection.nodes]
        stuck = [p is not None and not p.done for p in seen]
        return Measurement(
            confirmed=not any(stuck), evidence=_describe(injection, seen) or "no write was delayed"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow(DiskFault):
    """The block device is limited in bytes and operations per second, in each direction."""

    name: str = "disk.slow"
    about: str = "the disk's reads and writes are limited in bytes and operations per second"
    needs: frozenset[Ability] = frozenset({Ability.DISK_SPEED})

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Limit every node's disk, then start a probe. Raises NotApplicable without a limit."""
        speed, operations = _speed(injection)
        if not speed and not operations:
            raise NotApplicable("neither bytes_per_s nor operations_per_s is a limit")
        require_healthy_disks(hosts, injection)
        for node in injection.nodes:
            hosts.disks.limit(node, bytes_per_s=speed, operations_per_s=operations)
        for node in injection.nodes:
            hosts.disks.probe(node, injection_key(injection), _probe_bytes(injection))

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if the probes take at least half as long as the limits imply."""
        seen = _probes(hosts, injection)
        least_ms = _least_ms(injection) / 2
        slow = [p is not None and not p.error and p.elapsed_ms >= least_ms for p in seen]
        return Measurement(confirmed=bool(seen) and all(slow), evidence=_describe(injection, seen))

    def heal(self, hosts: Hosts, injection: Injection) -> None:
        """Remove the limits."""
        for node in injection.nodes:
            hosts.disks.unlimit(node)

    def measure_heal(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if the kernel has no limit any more."""
        for node in injection.nodes:
            hosts.disks.end_probe(node, injection_key(injection))
        left = [node for node in injection.nodes if hosts.disks.is_limited(node)]
        if left:
            return Measurement(confirmed=False, evidence=f"{node_list(left)} still has a slow disk")
        return Measurement(confirmed=True, evidence="the kernel has no limit any more")


def _speed(injection: Injection) -> tuple[int, int]:
    return int(injection.detail("bytes_per_s")), int(injection.detail("operations_per_s"))


def _probe_bytes(injection: Injection) -> int:
    speed, _ = _speed(injection)
    return max(PROBE_BYTES, math.ceil(speed * PROBE_S))


def _least_ms(injection: Injection) -> float:
    """The least time that the probe takes: for its bytes, or two operations (data and journal)."""
    speed, operations = _speed(injection)
    for_bytes = _probe_bytes(injection) / speed if speed else 0.0
    return 1000 * max(for_bytes, 2 / operations if operations else 0.0)


def _probes(hosts: Hosts, injection: Injection) -> list[Probe | None]:
    return [hosts.disks.probed(node, injection_key(injection)) for node in injection.nodes]


def _describe(injection: Injection, seen: list[Probe | None]) -> str:
    return "; ".join(
        f"node {node}: a write and fsync of {probe.size_bytes:,} bytes "
        f"{'took' if probe.done else 'has been delayed for'} {probe.elapsed_ms:,.0f} ms"
        f"{f' and failed: {probe.error}' if probe.error else ''}"
        for node, probe in zip(injection.nodes, seen, strict=True)
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
                about="bytes per second that the disk reads, and that it writes; 0 is no limit",
                read=_whole,
            ),
            Option(
                name="operations_per_s",
                default="0",
                about="reads per second, and writes per second; 0 is no limit",
                read=_whole,
            ),
        )
    ),
)
