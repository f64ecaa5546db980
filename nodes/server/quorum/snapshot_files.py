"""The snapshot files beside the metadata log: written, received, checked, served, removed.

Guarantees: a file under a snapshot's name is whole and on disk, for it is made under another name
(`.part`), synced, and only then renamed; what a crash left half done is removed at the next start.
Even so every snapshot is checked from end to end before it is used.
"""

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from nodes.ids import Offset
from nodes.raft.errors import SnapshotCorrupt
from nodes.raft.positions import SnapshotId
from nodes.raft.snapshot import PART_SUFFIX, SUFFIX, Snapshot, file_name, id_of, read
from nodes.storage.disk import Disk, File

KEPT: Final = 2
"""The newest, and one before it in case the newest cannot be read."""

T = TypeVar("T")

log = logging.getLogger("nodes.raft")


class SnapshotStore:
    """The snapshots in `directory`."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self.ids: list[SnapshotId] = []
        """Those that are on disk, oldest first."""
        self._disk = disk
        self._directory = directory

    def load(self) -> Snapshot | None:
        """The newest snapshot that checks out, if there is any; newer ones that do not are left
        on disk and not used. What was never completed is removed. Raises OSError."""
        names = self._disk.listdir(self._directory)
        for name in names:
            if name.endswith(PART_SUFFIX):
                self._disk.unlink(f"{self._directory}/{name}")
        self.ids = sorted(found for name in names if (found := id_of(name)))
        while self.ids:
            newest = self.ids[-1]
            try:
                return read(newest, self._disk.read(self._path(newest)))
            except SnapshotCorrupt as error:
                log.error("a snapshot cannot be used: %s", error)
                self.ids.pop()
        return None

    def begin(self, snapshot_id: SnapshotId) -> "PartialSnapshot":
        """A snapshot to be written or received from its first byte on."""
        path = self._path(snapshot_id).removesuffix(SUFFIX) + PART_SUFFIX
        if self._disk.exists(path):
            self._disk.unlink(path)
        return PartialSnapshot(self._disk, self._directory, snapshot_id, path)

    def add(self, snapshot_id: SnapshotId) -> None:
        """A partial snapshot was completed."""
        self.ids = sorted({*self.ids, snapshot_id})

    def size(self, snapshot_id: SnapshotId) -> int | None:
        """Bytes of a snapshot; None when it is not, or no longer, here."""
        if snapshot_id not in self.ids:
            return None
        return self._with_file(snapshot_id, lambda file: file.size())

    def part(self, snapshot_id: SnapshotId, position: int, max_bytes: int) -> bytes:
        """Some bytes of a snapshot that is here."""
        return self._with_file(snapshot_id, lambda file: file.pread(position, max_bytes))

    def superseded(self) -> Offset | None:
        """From which offset on the log is needed: that of the oldest snapshot to keep."""
        return self.ids[-KEPT].offset if len(self.ids) >= KEPT else None

    def remove_superseded(self) -> None:
        """Remove the snapshots that are not kept. Raises OSError."""
        while len(self.ids) > KEPT:
            self._disk.unlink(self._path(self.ids.pop(0)))

    def _with_file(self, snapshot_id: SnapshotId, use: Callable[[File], T]) -> T:
        file = self._disk.open(self._path(snapshot_id))
        try:
            return use(file)
        finally:
            file.close()

    def _path(self, snapshot_id: SnapshotId) -> str:
        return f"{self._directory}/{file_name(snapshot_id)}"


class PartialSnapshot:
    """A snapshot on its way to the disk."""

    def __init__(self, disk: Disk, directory: str, snapshot_id: SnapshotId, path: str) -> None:
        self.snapshot_id = snapshot_id
        self._disk = disk
        self._directory = directory
        self._path = path
        self._file = disk.open(path, create=True)

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._file.size()

    def append(self, data: bytes) -> None:
        """Add to its end."""
        self._file.append(data)

    def content(self) -> Snapshot:
        """What was received, checked from end to end. Raises SnapshotCorrupt."""
        return read(self.snapshot_id, self._file.pread(0, self.size))

    async def complete(self) -> None:
        """Make it durable under its name. Raises OSError."""
        await self._disk.sync(self._file)
        self._file.close()
        self._disk.rename(self._path, f"{self._directory}/{file_name(self.snapshot_id)}")
        await self._disk.sync(self._directory)

    def discard(self) -> None:
        """Give it up, unless it is complete."""
        self._file.close()
        if self._disk.exists(self._path):
            self._disk.unlink(self._path)
