"""The faults of simulated disks: `nemesis.hosts.Disks`, with the rules of the local target's.

Paths begin with `log/`, where a node's directory lies on its volume. A probe is a write and sync of
nobody's, which a freeze, a limit and a refusal hold up or fail as they do a node's. Who is killed
is waited for with the disk thawed, as a kernel ends nobody who waits for one.
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
class _Attempt:
    """A probe, from its start."""

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
        self._attempts: dict[tuple[int, str], _Attempt] = {}
        self._copies: dict[tuple[int, str], dict[str, bytes]] = {}
        self._notes: dict[str, str] = {}
        self._filled: dict[int, int] = {}
        self.on_damage: Callable[..., None] = _nobody
        """Told of a node whose files were changed behind its back, and whether they are `wiped`."""

    @property
    def abilities(self) -> frozenset[str]:
        """What can be broken, by the names of `nemesis.faults.fault.Ability`."""
        return ABILITIES

    # -- stalled and slow

    def flush(self, node: int) -> None:
        """Nothing waits: a freeze takes no time here."""

    def freeze(self, node: int) -> None:
        """See the protocol. Raises NodeState for a disk that is down."""
        self._well(node).freeze()

    def thaw(self, node: int) -> None:
        """See the protocol; what was held up goes on."""
        disk = self._disk_of(node)
        disk.thaw()
        for (where, _), attempt in self._attempts.items():
            if where == node and attempt.ends_ns is None:
                attempt.ends_ns = self._world.now_ns + disk.sync_ns(attempt.size_bytes)

    def limit(self, node: int, *, bytes_per_s: int, operations_per_s: int) -> None:
        """See the protocol; only writes are limited: what is read is in the page cache."""
        self._well(node).limit(bytes_per_s=bytes_per_s, operations_per_s=operations_per_s)

    def unlimit(self, node: int) -> None:
        """See the protocol."""
        self._disk_of(node).unlimit()

    def is_limited(self, node: int) -> bool:
        """See the protocol."""
        return self._disk_of(node).limited

    # -- full, read-only, failing

    def fill(self, node: int) -> int:
        """See the protocol."""
        self._filled[node] = self._filled.get(node, 0) + self._well(node).fill()
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
        self._well(node).set_read_only()

    def fail(self, node: int) -> None:
        """See the protocol."""
        self._well(node).fail()

    def drop_sync(self, node: int) -> None:
        """See the protocol."""
        disk = self._well(node)
        if disk.drops or disk.dropped is not None:
            raise NodeState(f"a sync of node {node} is to fail already, or has")
        disk.drop_sync()

    def keep_syncs(self, node: int) -> None:
        """See the protocol."""
        self._disk_of(node).keep_syncs()

    def dropped(self, node: int) -> int | None:
        """See the protocol."""
        return self._disk_of(node).dropped

    def ailment(self, node: int) -> str:
        """See the protocol."""
        return self._disk_of(node).ailment

    def repair(self, node: int) -> None:
        """See the protocol."""
        self._disk_of(node).repair()

    def cut_power(self, nodes: Sequence[int]) -> Sequence[PowerCut]:
        """See the protocol: at one instant of the world's."""
        cuts = []
        for node in nodes:
            self.thaw(node)
            disk, before = self._well(node), self.files(node)
            disk.lose_power()
            cuts.append(PowerCut(node, self._world.now_ns, _lost(before, self.files(node))))
        return cuts

    # -- probes

    def probe(self, node: int, name: str, size_bytes: int) -> None:
        """See the protocol."""
        disk = self._disk_of(node)
        attempt = _Attempt(size_bytes=size_bytes, began_ns=self._world.now_ns)
        if number := disk.errno or (ENOSPC if disk.full else 0):
            attempt.error, attempt.ends_ns = os.strerror(number), self._world.now_ns
        elif not disk.frozen:
            attempt.ends_ns = self._world.now_ns + disk.sync_ns(size_bytes)
        self._attempts[node, name] = attempt

    def probed(self, node: int, name: str) -> Probe | None:
        """See the protocol."""
        attempt = self._attempts.get((node, name))
        return None if attempt is None else attempt.look(self._world.now_ns)

    def end_probe(self, node: int, name: str) -> Probe | None:
        """See the protocol; one that is about to end is waited for."""
        attempt = self._attempts.pop((node, name), None)
        if attempt is None:
            return None
        return attempt.look(max(self._world.now_ns, attempt.ends_ns or 0))

    # -- files

    def files(self, node: int) -> Mapping[str, int]:
        """See the protocol."""
        return {PREFIX + path: size for path, size in self._disk_of(node).content.files()}

    def read(self, node: int, path: str, offset: int, size_bytes: int) -> bytes:
        """See the protocol."""
        return self._content(node).read(_inside(path))[offset : offset + size_bytes]

    def write(self, node: int, path: str, offset: int, content: bytes) -> None:
        """See the protocol."""
        disk = self._content(node)
        old = disk.read(_inside(path))
        _replace(disk, _inside(path), old[:offset] + content + old[offset + len(content) :])
        self.on_damage(node)

    def truncate(self, node: int, path: str, size_bytes: int) -> None:
        """See the protocol."""
        disk = self._content(node)
        _replace(disk, _inside(path), disk.read(_inside(path))[:size_bytes])
        self.on_damage(node)

    def keep_copy(self, node: int, name: str, paths: Sequence[str]) -> None:
        """See the protocol."""
        disk = self._content(node)
        self._copies[node, name] = {path: disk.read(_inside(path)) for path in paths}

    def restore_copy(self, node: int, name: str) -> Mapping[str, tuple[int, int]]:
        """See the protocol; what has been removed since stays removed."""
        disk, changed = self._content(node), {}
        for path, content in self._copies[node, name].items():
            if disk.exists(_inside(path)) and (old := disk.read(_inside(path))) != content:
                changed[path] = (len(old), len(content))
                _replace(disk, _inside(path), content)
        if changed:
            self.on_damage(node)
        return changed

    def forget_copy(self, node: int, name: str) -> None:
        """See the protocol."""
        self._copies.pop((node, name), None)

    def wipe(self, node: int) -> Mapping[str, int]:
        """See the protocol: a new disk."""
        before = self.files(node)
        self._disk_of(node).content = MemoryDisk()
        self.on_damage(node, wiped=True)
        return _lost(before, {})

    # -- evidence

    def note(self, key: str, evidence: str) -> None:
        """See the protocol."""
        self._notes[key] = evidence
        self._record("disk-evidence", key=key, evidence=evidence)

    def noted(self, key: str) -> str | None:
        """See the protocol."""
        return self._notes.get(key)

    # -- inside

    def _content(self, node: int) -> MemoryDisk:
        return self._disk_of(node).content

    def _well(self, node: int) -> SimDisk:
        disk = self._disk_of(node)
        if disk.ailment:
            raise NodeState(f"node {node}'s disk cannot be broken twice: {disk.ailment} already")
        return disk


def _nobody(node: int, *, wiped: bool = False) -> None:
    """Nobody wants to know."""


def _inside(path: str) -> str:
    return path.removeprefix(PREFIX)


def _replace(disk: MemoryDisk, path: str, content: bytes) -> None:
    file = disk.open(path)
    file.truncate(0)
    file.append(content)
    file.sync()


def _lost(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Bytes that files had before and have no more, by directory; none that lost nothing."""
    missing: Counter[str] = Counter()
    for path, size in before.items():
        missing[str(PurePosixPath(path).parent)] += max(0, size - after.get(path, 0))
    return {directory: size for directory, size in missing.items() if size}
