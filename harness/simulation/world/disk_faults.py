"""The faults of simulated disks: `nemesis.hosts.Disks`, with the rules of the local target.

Paths begin with `log/`, because a node's directory lies there on its volume. A probe is a write and
sync by no program; a freeze, a limit or an error affects it as it affects a node's write. A node is
killed with its disk thawed, because a kernel cannot end a process that waits for a disk.
"""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from errno import ENOSPC
from pathlib import PurePosixPath
from typing import Final

from harness.simulation.world.disk import SimDisk
from harness.simulation.world.world import MS, World
from harness.targets.base import NodeState
from nemesis.hosts import PowerCut, Probe
from nodes.storage.memory import MemoryDisk

ABILITIES: Final = frozenset(
    {
        *("files", "disk-stalls", "disk-faults", "disk-read-only", "failed-syncs", "disk-speed"),
        "power-loss",
    }
)
PREFIX: Final = "log/"


@dataclass(slots=True, kw_only=True)
class _ProbeState:
    """One probe since its start."""

    size_bytes: int
    began_ns: int
    ends_ns: int | None = None
    """None while the disk is frozen."""
    error: str = ""

    def look(self, now_ns: int) -> Probe:
        done = self.ends_ns is not None and self.ends_ns <= now_ns
        until_ns = self.ends_ns if done and self.ends_ns is not None else now_ns
        return Probe(
            size_bytes=self.size_bytes,
            elapsed_ms=(until_ns - self.began_ns) / MS,
            done=done,
            error=self.error if done else "",
        )


class SimDisks:
    """See the module. `disk_of` gives a node's disk and raises UnknownNode."""

    def __init__(
        self,
        world: World,
        disk_of: Callable[[int], SimDisk],
        record: Callable[..., None],
    ) -> None:
        self._world = world
        self._disk_of = disk_of
        self._record = record
        self._probes: dict[tuple[int, str], _ProbeState] = {}
        self._copies: dict[tuple[int, str], dict[str, bytes]] = {}
        self._notes: dict[str, str] = {}
        self._filled: dict[int, int] = {}
        self.on_damage: Callable[..., None] = _ignore_damage
        """Is called with a node whose files a fault changed, and with `wiped` if the disk is empty.
        """

    @property
    def abilities(self) -> frozenset[str]:
        """What the target can break, by the names of `nemesis.faults.fault.Ability`."""
        return ABILITIES

    # -- stalled and slow

    def flush(self, node: int) -> None:
        """Do nothing: a freeze takes no time here."""

    def freeze(self, node: int) -> None:
        """See the protocol. Raises NodeState for a disk that fails or is read-only."""
        self._healthy_disk(node).freeze()

    def thaw(self, node: int) -> None:
        """See the protocol; blocked probes continue."""
        disk = self._disk_of(node)
        disk.thaw()
        for (where, _), probe_state in self._probes.items():
            if where == node and probe_state.ends_ns is None:
                probe_state.ends_ns = self._world.now_ns + disk.sync_ns(probe_state.size_bytes)

    def limit(self, node: int, *, bytes_per_s: int, operations_per_s: int) -> None:
        """See the protocol. Only writes are limited: reads come from the page cache."""
        self._healthy_disk(node).limit(bytes_per_s=bytes_per_s, operations_per_s=operations_per_s)

    def unlimit(self, node: int) -> None:
        """See the protocol."""
        self._disk_of(node).unlimit()

    def is_limited(self, node: int) -> bool:
        """See the protocol."""
        return self._disk_of(node).limited

    # -- full, read-only, failing

    def fill(self, node: int) -> int:
        """See the protocol."""
        self._filled[node] = self._filled.get(node, 0) + self._healthy_disk(node).fill()
        return self._filled[node]

    def drain(self, node: int) -> None:
        """See the protocol."""
        self._filled.pop(node, None)
        self._disk_of(node).drain()

    def free_bytes(self, node: int) -> int:
        """See the protocol."""
        return self._disk_of(node).free_bytes()

    def set_read_only(self, node: int) -> None:
        """See the protocol."""
        self._healthy_disk(node).set_read_only()

    def fail(self, node: int) -> None:
        """See the protocol."""
        self._healthy_disk(node).fail()

    def fail_next_sync(self, node: int) -> None:
        """See the protocol."""
        disk = self._healthy_disk(node)
        if disk.sync_failure_pending or disk.failed_sync_bytes is not None:
            raise NodeState(f"a sync of node {node} has failed already, or is about to")
        disk.fail_next_sync()

    def stop_sync_failures(self, node: int) -> None:
        """See the protocol."""
        self._disk_of(node).stop_sync_failures()

    def failed_sync_bytes(self, node: int) -> int | None:
        """See the protocol."""
        return self._disk_of(node).failed_sync_bytes

    def disk_problem(self, node: int) -> str:
        """See the protocol."""
        return self._disk_of(node).disk_problem

    def repair(self, node: int) -> None:
        """See the protocol."""
        self._disk_of(node).repair()

    def cut_power(self, nodes: Sequence[int]) -> Sequence[PowerCut]:
        """See the protocol. All nodes lose power at one instant of the world."""
        cuts = []
        for node in nodes:
            self.thaw(node)
            disk, before = self._healthy_disk(node), self.files(node)
            disk.lose_power()
            cuts.append(PowerCut(node, self._world.now_ns, _lost(before, self.files(node))))
        return cuts

    # -- probes

    def probe(self, node: int, name: str, size_bytes: int) -> None:
        """See the protocol."""
        disk = self._disk_of(node)
        probe_state = _ProbeState(size_bytes=size_bytes, began_ns=self._world.now_ns)
        if number := disk.errno or (ENOSPC if disk.full else 0):
            probe_state.error, probe_state.ends_ns = os.strerror(number), self._world.now_ns
        elif not disk.frozen:
            probe_state.ends_ns = self._world.now_ns + disk.sync_ns(size_bytes)
        self._probes[node, name] = probe_state

    def probed(self, node: int, name: str) -> Probe | None:
        """See the protocol."""
        probe_state = self._probes.get((node, name))
        return None if probe_state is None else probe_state.look(self._world.now_ns)

    def end_probe(self, node: int, name: str) -> Probe | None:
        """See the protocol. The result of a probe that is about to end is computed at once."""
        probe_state = self._probes.pop((node, name), None)
        if probe_state is None:
            return None
        return probe_state.look(max(self._world.now_ns, probe_state.ends_ns or 0))

    # -- files

    def files(self, node: int) -> Mapping[str, int]:
        """See the protocol."""
        return {PREFIX + path: size for path, size in self._disk_of(node).content.files()}

    def read(self, node: int, path: str, offset: int, size_bytes: int) -> bytes:
        """See the protocol."""
        return self._content(node).read(_disk_path(path))[offset : offset + size_bytes]

    def write(self, node: int, path: str, offset: int, content: bytes) -> None:
        """See the protocol."""
        disk = self._content(node)
        old = disk.read(_disk_path(path))
        _replace(disk, _disk_path(path), old[:offset] + content + old[offset + len(content) :])
        self.on_damage(node)

    def truncate(self, node: int, path: str, size_bytes: int) -> None:
        """See the protocol."""
        disk = self._content(node)
        _replace(disk, _disk_path(path), disk.read(_disk_path(path))[:size_bytes])
        self.on_damage(node)

    def keep_copy(self, node: int, name: str, paths: Sequence[str]) -> None:
        """See the protocol."""
        disk = self._content(node)
        self._copies[node, name] = {path: disk.read(_disk_path(path)) for path in paths}

    def restore_copy(self, node: int, name: str) -> Mapping[str, tuple[int, int]]:
        """See the protocol. A file that was removed since then stays removed."""
        disk, changed = self._content(node), {}
        for path, content in self._copies[node, name].items():
            if disk.exists(_disk_path(path)) and (old := disk.read(_disk_path(path))) != content:
                changed[path] = (len(old), len(content))
                _replace(disk, _disk_path(path), content)
        if changed:
            self.on_damage(node)
        return changed

    def forget_copy(self, node: int, name: str) -> None:
        """See the protocol."""
        self._copies.pop((node, name), None)

    def wipe(self, node: int) -> Mapping[str, int]:
        """See the protocol. The node gets a new disk."""
        before = self.files(node)
        self._disk_of(node).content = MemoryDisk()
        self.on_damage(node, wiped=True)
        return _lost(before, {})

    # -- the faults' evidence

    def keep_evidence(self, key: str, evidence: str) -> None:
        """See the protocol."""
        self._notes[key] = evidence
        self._record("disk-evidence", key=key, evidence=evidence)

    def kept_evidence(self, key: str) -> str | None:
        """See the protocol."""
        return self._notes.get(key)

    # -- inside

    def _content(self, node: int) -> MemoryDisk:
        return self._disk_of(node).content

    def _healthy_disk(self, node: int) -> SimDisk:
        disk = self._disk_of(node)
        if disk.disk_problem:
            raise NodeState(
                f"the disk of node {node} cannot be broken twice: {disk.disk_problem} already"
            )
        return disk


def _ignore_damage(node: int, *, wiped: bool = False) -> None:
    """Ignore the damage."""


def _disk_path(path: str) -> str:
    return path.removeprefix(PREFIX)


def _replace(disk: MemoryDisk, path: str, content: bytes) -> None:
    file = disk.open(path)
    file.truncate(0)
    file.append(content)
    file.sync()


def _lost(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Return the bytes that files lost, by directory, without directories that lost nothing."""
    missing: Counter[str] = Counter()
    for path, size in before.items():
        missing[str(PurePosixPath(path).parent)] += max(0, size - after.get(path, 0))
    return {directory: size for directory, size in missing.items() if size}
