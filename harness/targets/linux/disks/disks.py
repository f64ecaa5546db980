"""The nodes' disks, to be broken: every call names a node, and reaches its volume.

Everything but the files needs a file system of the node's own. What the harness itself has to write
while the disk is stalled or slow makes it work for that moment, since the harness would wait as
well; what waited meanwhile may get through. A node that is killed is waited for with its disk let
go: the kernel ends nobody who waits for one.
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
from harness.targets.linux.disks.probes import Attempt
from harness.targets.linux.disks.throttles import Group
from harness.targets.linux.disks.volumes import Volume
from nemesis.hosts import PowerCut, Probe

BALLAST = f"{files.OURS}ballast"
EVIDENCE = "disk-evidence"
"""Kind of the journal's records of what was measured; nothing to undo."""


class _Limit(NamedTuple):
    groups: Sequence[Group]
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
        groups: Callable[[int], Sequence[Group]],
    ) -> None:
        """`data_dir` gives a node's mount point, and raises for who is no node; `groups` gives the
        control groups whose limits hold for the node's processes and ours.
        """
        self._volume = volume
        self._data_dir = data_dir
        self._journal = journal
        self._groups = groups
        self._frozen: set[int] = set()
        self._limits: dict[int, _Limit] = {}
        self._ailments: dict[int, str] = {}
        self._to_drain: set[int] = set()
        self._attempts: dict[tuple[int, str], Attempt] = {}
        self._notes: dict[str, str] = {}
        self._mutex = threading.RLock()

    @property
    def abilities(self) -> frozenset[str]:
        """What can be broken: only files, where the disks are plain directories."""
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
        """Write what waits, unless the disk is stalled or refuses."""
        hindered = node in self._frozen or node in self._ailments
        if self._volume is not Volume.DIRECTORY and not hindered:
            with self._quick(node):
                volumes.flush(self._volume, self._data_dir(node))

    def freeze(self, node: int) -> None:
        """Stall the node's disk: writes and fsyncs block until `thaw`. Raises Unsupported."""
        place = self._volume_of(node, "stalled")
        self._frozen.add(node)
        with self._quick(node):  # everything that waits is written first
            volumes.freeze(place, self._journal)

    def thaw(self, node: int) -> None:
        """Undo `freeze`; nothing happens where nothing is frozen."""
        self._frozen.discard(node)
        if self._volume is not Volume.DIRECTORY:
            volumes.thaw(self._data_dir(node))

    def limit(self, node: int, *, bytes_per_s: int, operations_per_s: int) -> None:
        """Let the disk read no more and write no more than that; 0 is no limit."""
        self._volume_of(node, "slowed down")
        groups = self._groups(node)
        if not groups:
            raise Unsupported("no control group of ours may limit disks: see highwater doctor")
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
    def let_go(self, node: int) -> Iterator[None]:
        """Let whoever waits for the disk go: it is thawed for good, and not slow for the block."""
        self.thaw(node)
        with self._quick(node):
            yield

    # -- full, read-only, failing

    def fill(self, node: int) -> int:
        """Take everything that is free; returns the bytes that all of it are by now.

        Only of the node's own file system. Raises NodeState while that is not there.
        """
        place = self._volume_of(node, "filled")
        self._journal.record("local.ballast", path=str(place / BALLAST))
        with self._flowing(node), volumes.opened(place, self._image(node)) as directory:
            return files.fill(directory, BALLAST)

    def drain(self, node: int) -> None:
        """Undo `fill`; on a disk that refuses, only when it is repaired."""
        if node in self._ailments:
            self._to_drain.add(node)
            return
        ballast = self._data_dir(node) / BALLAST
        with self._flowing(node), suppress(FileNotFoundError):
            # XFS gives the room of a removed file back some time later, that of a cut one at once.
            os.truncate(ballast, 0)
            ballast.unlink()

    def free_bytes(self, node: int) -> int:
        """What an ordinary user may still write."""
        found = os.statvfs(self._data_dir(node))
        return found.f_bavail * found.f_frsize

    def drop_sync(self, node: int) -> None:
        """See the protocol. Raises Unsupported: no kernel does that when asked."""
        raise Unsupported(f"no fsync of node {node} can be made to fail here: only simulated ones")

    def keep_syncs(self, node: int) -> None:
        """See the protocol."""

    def dropped(self, node: int) -> int | None:
        """See the protocol."""

    def set_read_only(self, node: int) -> None:
        """Sync everything, then let ext4 refuse writes as it does after an error of its own.

        Open files or not: a remount would refuse to go behind the backs of those. Writes between
        the two are lost; nobody should be writing.
        """
        place = self._volume_of(node, "made read-only")
        if self._volume is not Volume.IMAGE_EXT4:
            raise Unsupported("only ext4 can become read-only while files are open for writing")
        with self._flowing(node):
            self._break(node, "read-only")
            kernel.sync(place)
            flags = kernel.MS_REMOUNT | kernel.MS_NOATIME
            kernel.mount("none", place, "ext4", flags, "abort,errors=remount-ro")

    def fail(self, node: int) -> None:
        """Sync everything, then let everything fail, reads too."""
        place = self._volume_of(node, "made to fail")
        with self._flowing(node):
            self._break(node, "failing")
            _shut_down([place], kernel.SHUTDOWN_SYNCED)

    def ailment(self, node: int) -> str:
        """What is wrong with the disk until `repair`; empty when nothing is."""
        return self._ailments.get(node, "")

    def repair(self, node: int) -> None:
        """Unmount and mount again, where something is wrong. Raises TargetError."""
        if node in self._ailments:
            self._restart(node)

    def cut_power(self, nodes: Sequence[int]) -> Sequence[PowerCut]:
        """Lose what was not brought to the disks, all at once, then mount them again.

        Raises NodeState for a disk that is down already, TargetError when one does not come back.
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
        """Begin to write and fsync in a process of its own; one that goes by the name ends."""
        self.end_probe(node, name)

        def record(pid: int) -> None:
            if (identity := processes.identify(pid)) is not None:
                self._journal.record("local.probe", **asdict(identity))

        path, devices = self._data_dir(node) / f"{files.OURS}probe-{name}", self._devices(node)
        with self._mutex:
            self._attempts[node, name] = Attempt(path, size_bytes, devices, record)

    def probed(self, node: int, name: str) -> Probe | None:
        """How far that is; None when nothing was begun by that name."""
        with self._mutex:
            attempt = self._attempts.get((node, name))
            return None if attempt is None else attempt.look()

    def end_probe(self, node: int, name: str) -> Probe | None:
        """What became of it; nothing of it is left, but its file where nothing can be removed."""
        with self._mutex:
            attempt = self._attempts.pop((node, name), None)
        if attempt is None:
            return None
        seen = attempt.end()
        if node not in self._frozen:
            with suppress(OSError):
                (self._data_dir(node) / f"{files.OURS}probe-{name}").unlink(missing_ok=True)
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
        with self._flowing(node):
            files.write(self._data_dir(node), path, offset, content)

    def truncate(self, node: int, path: str, size_bytes: int) -> None:
        """Cut a file's tail, and fsync it."""
        with self._flowing(node):
            files.truncate(self._data_dir(node), path, size_bytes)

    def keep_copy(self, node: int, name: str, paths: Sequence[str]) -> None:
        """Copy files to a directory of the run's, beside the node's."""
        files.copy(self._data_dir(node), paths, self._copy_of(node, name))

    def restore_copy(self, node: int, name: str) -> Mapping[str, tuple[int, int]]:
        """Put a copy back: path -> (size before, size after) of every file that it changed."""
        with self._flowing(node):
            return files.restore(self._data_dir(node), self._copy_of(node, name))

    def forget_copy(self, node: int, name: str) -> None:
        """Remove a copy; nothing happens where there is none."""
        shutil.rmtree(self._copy_of(node, name), ignore_errors=True)

    def wipe(self, node: int) -> Mapping[str, int]:
        """Remove every file; the bytes that each directory had."""
        with self._flowing(node):
            return files.wipe(self._data_dir(node))

    def note(self, key: str, evidence: str) -> None:
        """Keep what was measured, in the journal too."""
        self._notes[key] = evidence
        self._journal.record(EVIDENCE, key=key, evidence=evidence)

    def noted(self, key: str) -> str | None:
        """What was kept under that key."""
        return self._notes.get(key)

    def forget(self, node: int) -> None:
        """Let go of a node that goes: neither its disk nor anybody waits any more."""
        self.thaw(node)
        self.unlimit(node)
        for key in [key for key in self._attempts if key[0] == node]:
            self.end_probe(*key)
        self._ailments.pop(node, None)
        self._to_drain.discard(node)
        shutil.rmtree(self._data_dir(node).with_name("copies"), ignore_errors=True)

    # -- inside

    def _image(self, node: int) -> Path:
        return self._data_dir(node).with_name("data.img")

    def _devices(self, node: int) -> list[int]:
        """On what the node's files are: its loop device, or wherever a plain directory is."""
        if self._volume is Volume.DIRECTORY:
            return [self._data_dir(node).stat().st_dev]
        return volumes.devices(self._image(node))

    def _copy_of(self, node: int, name: str) -> Path:
        return self._data_dir(node).with_name("copies") / name

    def _volume_of(self, node: int, what: str) -> Path:
        """The node's mount point. Raises Unsupported without one, NodeState when it is down."""
        if self._volume is Volume.DIRECTORY:
            raise Unsupported(f"node {node}'s disk is a plain directory and cannot be {what}")
        if node in self._ailments:
            raise NodeState(f"node {node}'s disk is {self._ailments[node]} already")
        return self._data_dir(node)

    def _break(self, node: int, how: str) -> None:
        self._ailments[node] = how
        self._journal.record(EVIDENCE, key=f"node {node}", evidence=f"its disk is {how} from here")

    def _restart(self, node: int) -> None:
        for key in [key for key in self._attempts if key[0] == node]:
            self.end_probe(*key)
        with self.let_go(node):
            volumes.restart(self._volume, self._data_dir(node), self._image(node))
        del self._ailments[node]
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
    def _flowing(self, node: int) -> Iterator[None]:
        """Let a stalled disk go on, and a slow one be quick, for the block."""
        stalled = node in self._frozen
        try:
            with self.let_go(node):
                yield
        finally:
            if stalled and node not in self._ailments:
                self.freeze(node)

    @contextmanager
    def _quick(self, node: int) -> Iterator[None]:
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
    """End the file systems, one right after the other: when each one was down, monotonic ns."""
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
