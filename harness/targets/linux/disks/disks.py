"""Faults of the nodes' disks. Every call names a node and works on its volume.

All faults but those of files need a file system of the node's own. When the harness itself must
write to a stalled or slow disk, it lifts the fault for that moment, because the write would block
too. Writes of the node that waited may get through then. A killed node is waited for with its disk
released, because the kernel cannot end a process that waits for a disk.
"""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from harness.recording.journal import Journal
from harness.targets.base import NodeState, Unsupported
from harness.targets.linux import kernel, processes
from harness.targets.linux.disks import files, throttles, volumes
from harness.targets.linux.disks.probes import DiskProbe
from harness.targets.linux.disks.throttles import ControlGroup
from harness.targets.linux.disks.volumes import Volume
from nemesis.hosts import PowerCut, Probe

BALLAST = f"{files.HARNESS_PREFIX}ballast"
EVIDENCE = "disk-evidence"
"""Kind of the journal's records of measurements; they need no undoing."""


class _Limit(NamedTuple):
    groups: Sequence[ControlGroup]
    device: str
    bytes_per_s: int
    operations_per_s: int


class LinuxDisks:
    """See `nemesis.hosts.Disks`. Every change is in the journal before it is made."""

    def __init__(
        self,
        volume: Volume,
        data_dir: Callable[[int], Path],
        journal: Journal,
        *,
        groups: Callable[[int], Sequence[ControlGroup]],
    ) -> None:
        """`data_dir` returns a node's mount point and raises UnknownNode. `groups` returns the
        control groups whose limits hold for the node's processes and for the harness.
        """
        self._volume = volume
        self._data_dir = data_dir
        self._journal = journal
        self._groups = groups
        self._frozen: set[int] = set()
        self._limits: dict[int, _Limit] = {}
        self._disk_problems: dict[int, str] = {}
        self._to_drain: set[int] = set()
        self._probes: dict[tuple[int, str], DiskProbe] = {}
        self._notes: dict[str, str] = {}
        self._mutex = threading.RLock()

    @property
    def abilities(self) -> frozenset[str]:
        """The supported abilities: only files, where the disks are plain directories."""
        if self._volume is Volume.DIRECTORY:
            return frozenset({"files"})
        found = {"files", "disk-stalls", "disk-faults", "power-loss"}
        if self._volume is Volume.IMAGE_EXT4:
            found.add("disk-read-only")
        if throttles.groups():
            found.add("disk-speed")
        return frozenset(found)

    # -- stalled and slow

    def flush(self, node: int) -> None:
        """Write all dirty pages to the disk, unless the disk is stalled or broken."""
        hindered = node in self._frozen or node in self._disk_problems
        if self._volume is not Volume.DIRECTORY and not hindered:
            with self._unlimited(node):
                volumes.flush(self._volume, self._data_dir(node))

    def freeze(self, node: int) -> None:
        """Stall the node's disk: writes and fsyncs block until `thaw`. Raises Unsupported."""
        place = self._volume_of(node, "stalled")
        self._frozen.add(node)
        with self._unlimited(node):  # a freeze writes all dirty pages first
            volumes.freeze(place, self._journal)

    def thaw(self, node: int) -> None:
        """Undo `freeze`; a disk that is not frozen is no error."""
        self._frozen.discard(node)
        if self._volume is not Volume.DIRECTORY:
            volumes.thaw(self._data_dir(node))

    def limit(self, node: int, *, bytes_per_s: int, operations_per_s: int) -> None:
        """Limit reads and writes of the disk, each direction on its own; 0 is no limit."""
        self._volume_of(node, "slowed down")
        groups = self._groups(node)
        if not groups:
            raise Unsupported(
                f"the speed of node {node}'s disk cannot be limited: no control group here allows "
                "that. `highwater doctor` says what to do (disk-limits)"
            )
        [device] = kernel.loops_over(self._image(node))
        limit = _Limit(groups, throttles.device_numbers(device), bytes_per_s, operations_per_s)
        for group in groups:
            self._journal.record(
                "local.throttle",
                image=str(self._image(node)),
                directory=str(group.directory),
                unified=group.unified,
                device=limit.device,
            )
        self._limits[node] = limit
        self._apply(limit)

    def unlimit(self, node: int) -> None:
        """Undo `limit`."""
        limit = self._limits.pop(node, None)
        if limit is not None:
            self._apply(limit._replace(bytes_per_s=0, operations_per_s=0))

    def is_limited(self, node: int) -> bool:
        """Whether the kernel has a limit for the disk."""
        return any(
            group.limits(throttles.device_numbers(device))
            for device in kernel.loops_over(self._image(node))
            for group in self._groups(node)
        )

    @contextmanager
    def released(self, node: int) -> Iterator[None]:
        """Release processes that wait for the disk: thaw it, and lift its limit for the block."""
        self.thaw(node)
        with self._unlimited(node):
            yield

    # -- full, read-only, failing

    def fill(self, node: int) -> int:
        """Fill the node's own file system; return the bytes of the filling so far.

        Raises NodeState while that file system is not mounted.
        """
        place = self._volume_of(node, "filled")
        self._journal.record("local.ballast", path=str(place / BALLAST))
        with self._writable(node), volumes.opened(place, self._image(node)) as directory:
            return files.fill(directory, BALLAST)

    def drain(self, node: int) -> None:
        """Undo `fill`; on a broken disk, as soon as the disk is repaired."""
        if node in self._disk_problems:
            self._to_drain.add(node)
            return
        ballast = self._data_dir(node) / BALLAST
        with self._writable(node), suppress(FileNotFoundError):
            # XFS frees the blocks of a removed file later, those of a truncated file at once.
            os.truncate(ballast, 0)
            ballast.unlink()

    def free_bytes(self, node: int) -> int:
        """How many bytes an ordinary user may still write."""
        found = os.statvfs(self._data_dir(node))
        return found.f_bavail * found.f_frsize

    def fail_next_sync(self, node: int) -> None:
        """See the protocol. Raises Unsupported, because no kernel fails an fsync on request."""
        raise Unsupported(
            f"no kernel fails an fsync of node {node} on request: use highwater simulate"
        )

    def stop_sync_failures(self, node: int) -> None:
        """See the protocol."""

    def failed_sync_bytes(self, node: int) -> int | None:
        """See the protocol."""

    def set_read_only(self, node: int) -> None:
        """Sync everything, then make ext4 refuse writes, as it does after an error of its own.

        This works with files open for writing, which a plain remount refuses. Writes between the
        two steps are lost, so no process should be writing.
        """
        place = self._volume_of(node, "made read-only")
        if self._volume is not Volume.IMAGE_EXT4:
            raise Unsupported(
                f"node {node}'s disk is {self._volume}, and only ext4 can become read-only while "
                "files are open for writing"
            )
        with self._writable(node):
            self._break(node, "read-only")
            kernel.sync(place)
            flags = kernel.MS_REMOUNT | kernel.MS_NOATIME
            kernel.mount("none", place, "ext4", flags, "abort,errors=remount-ro")

    def fail(self, node: int) -> None:
        """Sync everything, then make every access fail, reads too."""
        place = self._volume_of(node, "made to fail")
        with self._writable(node):
            self._break(node, "failing")
            _shut_down([place], kernel.SHUTDOWN_SYNCED)

    def disk_problem(self, node: int) -> str:
        """What is wrong with the disk until `repair`; empty when it works."""
        return self._disk_problems.get(node, "")

    def repair(self, node: int) -> None:
        """Unmount and mount a broken disk again. Raises TargetError."""
        if node in self._disk_problems:
            self._restart(node)

    def cut_power(self, nodes: Sequence[int]) -> Sequence[PowerCut]:
        """Lose all data that was not written to the disks, at the same time; then mount them again.

        Raises NodeState for a disk that is broken already, TargetError when a mount fails.
        """
        places = [self._volume_of(node, "cut from power") for node in nodes]
        for node in nodes:
            self.thaw(node)
        before = [files.sizes(place) for place in places]
        for node in nodes:
            self._break(node, "without power")
        moments = _shut_down(places, kernel.SHUTDOWN_AT_ONCE)
        for node in nodes:
            self._restart(node)
        return [
            PowerCut(node, at_ns, files.lost(had, files.sizes(place)))
            for node, at_ns, had, place in zip(nodes, moments, before, places, strict=True)
        ]

    # -- probes

    def probe(self, node: int, name: str, size_bytes: int) -> None:
        """Start a process that writes and fsyncs; end an earlier one with the same name."""
        self.end_probe(node, name)

        def record(pid: int) -> None:
            if (identity := processes.identify(pid)) is not None:
                self._journal.record("local.probe", **asdict(identity))

        path, devices = (
            self._data_dir(node) / f"{files.HARNESS_PREFIX}probe-{name}",
            self._devices(node),
        )
        with self._mutex:
            self._probes[node, name] = DiskProbe(path, size_bytes, devices, record)

    def probed(self, node: int, name: str) -> Probe | None:
        """Return the state of a probe; None when no probe has that name."""
        with self._mutex:
            probe = self._probes.get((node, name))
            return None if probe is None else probe.poll()

    def end_probe(self, node: int, name: str) -> Probe | None:
        """End a probe and return its result; remove its file, unless the disk is frozen."""
        with self._mutex:
            probe = self._probes.pop((node, name), None)
        if probe is None:
            return None
        seen = probe.end()
        if node not in self._frozen:
            with suppress(OSError):
                (self._data_dir(node) / f"{files.HARNESS_PREFIX}probe-{name}").unlink(
                    missing_ok=True
                )
        return seen

    # -- files

    def files(self, node: int) -> Mapping[str, int]:
        """The size of every file in bytes, in the order of the paths."""
        return files.sizes(self._data_dir(node))

    def read(self, node: int, path: str, offset: int, size_bytes: int) -> bytes:
        """A part of a file, shorter at its end."""
        return files.read(self._data_dir(node), path, offset, size_bytes)

    def write(self, node: int, path: str, offset: int, content: bytes) -> None:
        """Overwrite a part of a file, and fsync it."""
        with self._writable(node):
            files.write(self._data_dir(node), path, offset, content)

    def truncate(self, node: int, path: str, size_bytes: int) -> None:
        """Truncate a file, and fsync it."""
        with self._writable(node):
            files.truncate(self._data_dir(node), path, size_bytes)

    def keep_copy(self, node: int, name: str, paths: Sequence[str]) -> None:
        """Copy files to a directory beside the node's data directory."""
        files.copy(self._data_dir(node), paths, self._copy_of(node, name))

    def restore_copy(self, node: int, name: str) -> Mapping[str, tuple[int, int]]:
        """Restore a copy; return path -> (size before, size after) of every changed file."""
        with self._writable(node):
            return files.restore(self._data_dir(node), self._copy_of(node, name))

    def forget_copy(self, node: int, name: str) -> None:
        """Remove a copy; a missing copy is no error."""
        shutil.rmtree(self._copy_of(node, name), ignore_errors=True)

    def wipe(self, node: int) -> Mapping[str, int]:
        """Remove every file; return the bytes that each directory had."""
        with self._writable(node):
            return files.wipe(self._data_dir(node))

    def keep_evidence(self, key: str, evidence: str) -> None:
        """Keep what was measured, in the journal too."""
        self._notes[key] = evidence
        self._journal.record(EVIDENCE, key=key, evidence=evidence)

    def kept_evidence(self, key: str) -> str | None:
        """What was kept under that key."""
        return self._notes.get(key)

    def forget(self, node: int) -> None:
        """Undo the faults of a removed node's disk, and end its probes."""
        self.thaw(node)
        self.unlimit(node)
        for key in [key for key in self._probes if key[0] == node]:
            self.end_probe(*key)
        self._disk_problems.pop(node, None)
        self._to_drain.discard(node)
        shutil.rmtree(self._data_dir(node).with_name("copies"), ignore_errors=True)

    # -- inside

    def _image(self, node: int) -> Path:
        return self._data_dir(node).with_name("data.img")

    def _probe_file(self, node: int, name: str) -> Path:
        return self._data_dir(node) / f"{files.HARNESS_PREFIX}probe-{name}"

    def _devices(self, node: int) -> list[int]:
        """Return the devices (st_dev) that may hold the node's files."""
        if self._volume is Volume.DIRECTORY:
            return [self._data_dir(node).stat().st_dev]
        return volumes.devices(self._image(node))

    def _copy_of(self, node: int, name: str) -> Path:
        return self._data_dir(node).with_name("copies") / name

    def _volume_of(self, node: int, what: str) -> Path:
        """Return the node's mount point.

        Raises Unsupported for a plain directory, NodeState for a broken disk.
        """
        if self._volume is Volume.DIRECTORY:
            raise Unsupported(
                f"node {node}'s disk is a plain directory and cannot be {what}: that takes a file "
                "system of its own. `highwater doctor` says what to do (loop)"
            )
        if node in self._disk_problems:
            raise NodeState(f"node {node}'s disk is {self._disk_problems[node]} already")
        return self._data_dir(node)

    def _break(self, node: int, how: str) -> None:
        self._disk_problems[node] = how
        self._journal.record(EVIDENCE, key=f"node {node}", evidence=f"its disk is {how} from here")

    def _restart(self, node: int) -> None:
        for key in [key for key in self._probes if key[0] == node]:
            self.end_probe(*key)
        with self.released(node):
            volumes.restart(self._volume, self._data_dir(node), self._image(node))
        del self._disk_problems[node]
        if node in self._to_drain:
            self._to_drain.discard(node)
            self.drain(node)

    def _apply(self, limit: _Limit) -> None:
        for group in limit.groups:
            group.set(
                limit.device,
                bytes_per_s=limit.bytes_per_s,
                operations_per_s=limit.operations_per_s,
            )

    @contextmanager
    def _writable(self, node: int) -> Iterator[None]:
        """Thaw a stalled disk, and lift the limit of a slow one, for the block."""
        stalled = node in self._frozen
        try:
            with self.released(node):
                yield
        finally:
            if stalled and node not in self._disk_problems:
                self.freeze(node)

    @contextmanager
    def _unlimited(self, node: int) -> Iterator[None]:
        """Lift the disk's limit for the block."""
        limit = self._limits.get(node)
        if limit is not None:
            self._apply(limit._replace(bytes_per_s=0, operations_per_s=0))
        try:
            yield
        finally:
            if limit is not None and self._limits.get(node) is limit:
                self._apply(limit)


def _shut_down(places: Sequence[Path], how: int) -> list[int]:
    """Shut down the file systems one right after the other; return when each was down.

    Moments are in ns of the monotonic clock.
    """
    moments = []
    with ExitStack() as stack:
        descriptors = []
        for place in places:
            descriptors.append(os.open(place, os.O_RDONLY | os.O_DIRECTORY))
            stack.callback(os.close, descriptors[-1])
        for descriptor in descriptors:
            kernel.shut_down(descriptor, how)
            moments.append(time.monotonic_ns())
    return moments
