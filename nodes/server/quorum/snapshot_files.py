"""The snapshot files beside the metadata log: writes, checks, reads and removes them.

Guarantees: a file with a snapshot's name is complete and on disk. It is written under another name
(`.part`), synced, and only then renamed; the next start removes what a crash left incomplete. Even
so every snapshot is checked from end to end before it is used.
"""

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from nodes.ids import Offset
from nodes.raft.errors import SnapshotCorrupt
from nodes.raft.positions import SnapshotId
from nodes.raft.snapshot import PART_SUFFIX, SUFFIX, Snapshot, file_name, id_of, read
from nodes.storage.disk import Disk, File

SNAPSHOTS_KEPT: Final = 2
"""The newest snapshot, and the one before in case the newest cannot be read."""

T = TypeVar("T")

log = logging.getLogger("nodes.raft")


class SnapshotStore:
    """The snapshots in `directory`."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self.ids: list[SnapshotId] = []
        """The snapshots on disk, oldest first."""
        self._disk = disk
        self._directory = directory

    def load(self) -> Snapshot | None:
        """Return the newest sound snapshot; None if there is none. Raises OSError.

        Damaged snapshots stay on disk but are not used. Incomplete files are removed.
        """
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
        """Create the file of a new snapshot, to be written or received from its first byte on."""
        path = self._path(snapshot_id).removesuffix(SUFFIX) + PART_SUFFIX
        if self._disk.exists(path):
            self._disk.unlink(path)
        return PartialSnapshot(self._disk, self._directory, snapshot_id, path)

    def add(self, snapshot_id: SnapshotId) -> None:
        """A partial snapshot was completed."""
        self.ids = sorted({*self.ids, snapshot_id})

    def size(self, snapshot_id: SnapshotId) -> int | None:
        """The size of a snapshot in bytes; None if it is not here, or not any more."""
        if snapshot_id not in self.ids:
            return None
        return self._with_file(snapshot_id, lambda file: file.size())

    def part(self, snapshot_id: SnapshotId, position: int, max_bytes: int) -> bytes:
        """Return up to `max_bytes` of a snapshot from `position` on."""
        return self._with_file(snapshot_id, lambda file: file.pread(position, max_bytes))

    def log_needed_from(self) -> Offset | None:
        """The log is needed from this offset on, that of the oldest snapshot to keep; None: all."""
        return self.ids[-SNAPSHOTS_KEPT].offset if len(self.ids) >= SNAPSHOTS_KEPT else None

    def remove_superseded(self, log_start: Offset) -> None:
        """Remove the snapshots that are not kept, and those that the log, which begins at
        `log_start`, does not continue. Raises OSError.
        """
        while len(self.ids) > SNAPSHOTS_KEPT or (self.ids and self.ids[0].offset < log_start):
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
    """A snapshot file that is not complete yet."""

    def __init__(self, disk: Disk, directory: str, snapshot_id: SnapshotId, path: str) -> None:
        self.snapshot_id = snapshot_id
        self._disk = disk
        self._directory = directory
        self._path = path
        self._file = disk.open(path, create=True)

    @property
    def size(self) -> int:
        """The bytes so far."""
        return self._file.size()

    def append(self, data: bytes) -> None:
        """Add to its end."""
        self._file.append(data)

    def content(self) -> Snapshot:
        """Read the snapshot and check it from end to end. Raises SnapshotCorrupt."""
        return read(self.snapshot_id, self._file.pread(0, self.size))

    async def complete(self) -> None:
        """Make it durable under its final name. Raises OSError."""
        await self._disk.sync(self._file)
        self._file.close()
        self._disk.rename(self._path, f"{self._directory}/{file_name(self.snapshot_id)}")
        await self._disk.sync(self._directory)

    def discard(self) -> None:
        """Remove the file, unless it is complete."""
        self._file.close()
        if self._disk.exists(self._path):
            self._disk.unlink(self._path)
