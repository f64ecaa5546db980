"""The metadata log on disk: a log, the snapshots that it continues, and what of it is known to be
on disk.

It is what the quorum sees (LogView), so it never shrinks unnoticed:
- How far it was flushed is itself on disk (`flushed-offsets`) before anything counts on it. A log
  that is found shorter than that, or damaged below it, is refused: a voter that went on with a
  shortened log could elect a leader without committed records. Only above it is a torn tail cut.
- At the start every batch from the newest snapshot on is checked, and the snapshot as well. A
  snapshot that cannot be read is passed over as long as an older one, or the log's beginning,
  reaches the log that is there; else the start is refused.
- A snapshot replaces the log once it is on disk, and only then.

The voter set is read from the control records as they are appended (VoterHistory).

Left to others: deciding, and when to flush, to take snapshots and to trim.
"""

import logging
import struct
from collections.abc import Iterator
from typing import Final

from crc32c import crc32c
from kio.schema.voters_record.v0.data import VotersRecord

from nodes.ids import NO_OFFSET, Epoch, Offset
from nodes.log.batch import BatchHeader, check_crc, iter_batches
from nodes.log.errors import CorruptBatch, LogCorrupt
from nodes.log.log import Appended, Log, LogConfig
from nodes.raft.control_records import control_messages, voter_set
from nodes.raft.positions import SnapshotId
from nodes.raft.snapshot import Snapshot
from nodes.raft.voters import VoterHistory, VoterSet
from nodes.server.quorum.snapshot_files import PartialSnapshot, SnapshotStore
from nodes.storage.disk import Disk

FLUSHED_FILE: Final = "flushed-offsets"
SCAN_BYTES: Final = 1 << 20

log = logging.getLogger("nodes.raft")


class MetadataLog:
    """See the module. Use `open`."""

    def __init__(
        self, disk: Disk, directory: str, inner: Log, store: SnapshotStore, flushed: "FlushedOffset"
    ) -> None:
        self.snapshots = store
        self.history = VoterHistory(VoterSet())
        self._disk = disk
        self._directory = directory
        self._log = inner
        self._recorded = flushed

    @classmethod
    def open(
        cls, disk: Disk, directory: str, config: LogConfig, *, clean: bool, voters: VoterSet
    ) -> tuple["MetadataLog", Snapshot | None]:
        """The log in `directory`, made when missing, and the snapshot that its state begins with.

        `voters` are the configured ones, which count until the log records some. Blocks. Raises
        LogCorrupt, ControlRecordError, OSError.
        """
        new = not disk.exists(directory)
        if new:
            disk.makedirs(directory)
            disk.sync_dir("")
        recorded = FlushedOffset(disk, directory)
        store = SnapshotStore(disk, directory)
        snapshot = store.load()
        point = recorded.read()
        inner = Log.open(disk, directory, config, clean=clean and not new, recovery_point=point)
        opened = cls(disk, directory, inner, store, recorded)
        try:
            opened._check(point, snapshot)
            opened._settle(snapshot, voters)
        except Exception:
            inner.close()
            raise
        return opened, snapshot

    def _check(self, recorded: Offset, snapshot: Snapshot | None) -> None:
        """Refuse what is no log of this node's."""
        inner, covered = self._log, snapshot.snapshot_id.offset if snapshot else Offset(0)
        if inner.end_offset < recorded and covered < recorded:
            raise LogCorrupt(
                f"{self._directory} ends at offset {inner.end_offset}, but everything below "
                f"{recorded} had been flushed. {ADVICE}"
            )
        if inner.start_offset > covered:
            raise LogCorrupt(
                f"{self._directory} begins at offset {inner.start_offset}, and no snapshot that "
                f"can be read reaches that far. {ADVICE}"
            )
        if snapshot is not None and covered <= inner.end_offset:
            epoch, end = inner.end_offset_for_epoch(snapshot.snapshot_id.epoch)
            behind = inner.last_epoch < snapshot.snapshot_id.epoch
            contains = epoch == snapshot.snapshot_id.epoch and end >= covered
            if not behind and covered > inner.start_offset and not contains:
                raise LogCorrupt(
                    f"{self._directory} does not agree with its snapshot "
                    f"{snapshot.snapshot_id}. {ADVICE}"
                )

    def _settle(self, snapshot: Snapshot | None, voters: VoterSet) -> None:
        """Let the log continue the snapshot; learn the voters."""
        start = Offset(0)
        self.history = VoterHistory(voters)
        if snapshot is not None:
            start, epoch = snapshot.snapshot_id
            self.history.restart(start, snapshot.voters or voters)
            inner = self._log
            if inner.end_offset < start or (
                inner.end_offset > inner.start_offset and inner.last_epoch < epoch
            ):
                log.info("the log ends before its snapshot %s: it begins anew there", start)
                self._recorded.write(start)
                inner.truncate_fully(start)
        for position, header, data in self._batches(start):
            check_crc(data, position, header)
            self._note_voters(data, position, header)
        self._recorded.write(self._log.flush())
        self.trim()

    def _batches(self, start: Offset) -> Iterator[tuple[int, BatchHeader, bytes]]:
        offset, end = start, self._log.end_offset
        while offset < end:
            data = self._log.read(offset, SCAN_BYTES, end)
            before = offset
            for position, header in iter_batches(data):
                yield position, header, data
                offset = header.next_offset
            if offset == before:
                raise CorruptBatch(f"{self._directory}: nothing can be read at offset {offset}")

    def _note_voters(self, data: bytes, position: int, header: BatchHeader) -> None:
        for offset, message in control_messages(data, position, header):
            if isinstance(message, VotersRecord):
                self.history.add(Offset(offset), voter_set(message))

    # -- what the quorum sees

    @property
    def start_offset(self) -> Offset:
        """Where it begins."""
        return self._log.start_offset

    @property
    def end_offset(self) -> Offset:
        """Where the next record goes."""
        return self._log.end_offset

    @property
    def flushed_offset(self) -> Offset:
        """Below it everything is on disk, and known to be at the next start."""
        return min(self._recorded.offset, self._log.flushed_offset)

    @property
    def snapshot(self) -> SnapshotId | None:
        """The newest snapshot."""
        return self.snapshots.ids[-1] if self.snapshots.ids else None

    @property
    def oldest_snapshot(self) -> SnapshotId | None:
        """The oldest one kept."""
        return self.snapshots.ids[0] if self.snapshots.ids else None

    @property
    def voters(self) -> VoterSet:
        """The latest voter set."""
        return self.history.latest

    @property
    def voters_offset(self) -> Offset:
        """Where it is recorded; -1 for the configured one."""
        return self.history.latest_offset

    @property
    def last_epoch(self) -> Epoch:
        """The epoch of the last record, which may be in a snapshot."""
        before = self._before()
        return before.epoch if before else self._log.last_epoch

    def end_offset_for_epoch(self, epoch: Epoch) -> tuple[Epoch, Offset]:
        """See EpochHistory."""
        before = self._before()
        if before is None:
            return self._log.end_offset_for_epoch(epoch)
        if epoch > before.epoch:
            return Epoch(-1), NO_OFFSET
        return epoch, before.offset

    def _before(self) -> SnapshotId | None:
        """The snapshot that an empty log continues."""
        if self._log.end_offset > self._log.start_offset or self.end_offset == 0:
            return None
        return next((s for s in self.snapshots.ids if s.offset == self.end_offset), None)

    # -- reading and writing

    def read(self, offset: Offset, max_bytes: int, upper: Offset) -> bytes:
        """See Log.read."""
        return self._log.read(offset, max_bytes, upper)

    def append_as_leader(self, batch: bytes, epoch: Epoch) -> Appended:
        """See Log.append_as_leader."""
        appended = self._log.append_as_leader(batch, epoch)
        self._note_appended(appended.base_offset)
        return appended

    def append_as_follower(self, batches: bytes) -> None:
        """See Log.append_as_follower. Raises ControlRecordError as well."""
        appended = self._log.append_as_follower(batches)
        for position, header in iter_batches(batches):
            if header.base_offset >= appended.base_offset:
                self._note_voters(batches, position, header)

    def _note_appended(self, offset: Offset) -> None:
        data = self._log.read(offset, 1, self.end_offset)
        for position, header in iter_batches(data):
            self._note_voters(data, position, header)

    def truncate_to(self, offset: Offset) -> None:
        """Cut the log; blocks. Only uncommitted records are ever cut, so no snapshot is."""
        if offset < self._recorded.offset:
            self._recorded.write(offset)
        self._log.truncate_to(offset)
        self.history.truncate(self._log.end_offset)

    async def flush_async(self) -> None:
        """Make what is in the log now durable, and then known as durable, off the loop.

        Raises LogOffline, OSError.
        """
        flushed = await self._log.flush_async()
        if flushed > self._recorded.offset:
            await self._recorded.advance(flushed)

    @property
    def offline(self) -> str:
        """Why the log refuses appends; empty while it takes them."""
        return self._log.offline

    def close(self) -> None:
        """Flush and close. Blocks."""
        if not self._log.offline and self._log.flush() > self._recorded.offset:
            self._recorded.write(self._log.end_offset)
        self._recorded.close()
        self._log.close()

    # -- snapshots

    def begin_snapshot(self, snapshot_id: SnapshotId) -> PartialSnapshot:
        """A snapshot to be written here, or fetched from the leader."""
        return self.snapshots.begin(snapshot_id)

    def add_snapshot(self, snapshot_id: SnapshotId) -> None:
        """A snapshot of this node's own state is complete: forget what it makes superfluous."""
        self.snapshots.add(snapshot_id)
        self.trim()

    def install(self, snapshot: Snapshot, configured: VoterSet) -> None:
        """A fetched snapshot is complete: the log begins anew behind it. Blocks."""
        offset = snapshot.snapshot_id.offset
        self.snapshots.add(snapshot.snapshot_id)
        self._recorded.write(offset)
        self._log.truncate_fully(offset)
        self.history.restart(offset, snapshot.voters or configured)
        self.snapshots.remove_superseded()

    def trim(self) -> None:
        """Forget the log before the oldest snapshot to keep, and the snapshots before it."""
        oldest = self.snapshots.superseded()
        if oldest is not None and self.start_offset < oldest <= self.end_offset:
            self._log.advance_start(oldest)
        self.snapshots.remove_superseded()


ADVICE: Final = (
    "The node must not vote with it. Move the directory away and start the node again: it will "
    "fetch the metadata log from the quorum (as a new replica, if it was a voter)."
)


class FlushedOffset:
    """A file that says how far the log was flushed, in entries of an offset and its CRC32C.

    Entries are appended, each larger than the one before; the last whole one counts. A smaller
    offset, and every start, begins the file anew.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        self.offset = Offset(0)
        self._disk = disk
        self._path = f"{directory}/{FLUSHED_FILE}"
        self._file = None if not disk.exists(self._path) else disk.open(self._path)

    def read(self) -> Offset:
        """The offset on disk; 0 in a new directory. Raises LogCorrupt."""
        if self._file is None:
            return self.offset
        data = self._file.pread(0, self._file.size())
        whole = [
            Offset(offset)
            for offset, crc in _ENTRY.iter_unpack(data[: len(data) // _ENTRY.size * _ENTRY.size])
            if crc == _checksum(offset)
        ]
        if not whole:
            raise LogCorrupt(f"{self._path} holds no offset that can be read. {ADVICE}")
        self.offset = max(whole)
        return self.offset

    def write(self, offset: Offset) -> None:
        """Begin the file anew with `offset`; blocks."""
        if self._file is not None:
            self._file.close()
        self._disk.write_atomic(self._path, _entry(offset))
        self._file = self._disk.open(self._path)
        self.offset = offset

    async def advance(self, offset: Offset) -> None:
        """Everything below `offset` is on disk: say so on disk as well, off the loop."""
        assert self._file is not None
        if self._file.size() >= MAX_FLUSHED_BYTES:
            self.write(offset)
            return
        file = self._file
        file.append(_entry(offset))
        await self._disk.sync(file)
        if file is self._file:  # it was not begun anew meanwhile, by a truncation
            self.offset = max(self.offset, offset)

    def close(self) -> None:
        """Release the file."""
        if self._file is not None:
            self._file.close()


MAX_FLUSHED_BYTES: Final = 1 << 16
_ENTRY: Final = struct.Struct(">qI")


def _checksum(offset: int) -> int:
    return crc32c(offset.to_bytes(8, "big"))


def _entry(offset: Offset) -> bytes:
    return _ENTRY.pack(offset, _checksum(offset))
