"""The metadata log on disk: a log, the snapshots that it continues, and its flushed offset.

The quorum relies on it (LogView), so it must not lose records without an error:
- The flushed offset is itself on disk (`flushed-offsets`) before anything relies on it. A log that
  is shorter than that, or damaged below it, is refused: a voter that continued with a shortened log
  could elect a leader without committed records. Only above that offset is a torn tail cut off.
- At the start every batch from the newest snapshot on is checked, and the snapshot as well. A
  snapshot that cannot be read is skipped if an older one, or the beginning of the log, connects to
  the log. Otherwise the start is refused.
- A snapshot replaces the log only once it is on disk.

The voter set is read from the control records as they are appended (VoterHistory).

Left to others: the decisions, and when to flush, to write snapshots and to trim.
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
from nodes.log.log import Log, LogAppendInfo, LogConfig
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
        self.voter_history = VoterHistory(VoterSet())
        self._disk = disk
        self._directory = directory
        self._log = inner
        self._flushed_file = flushed

    @classmethod
    def open(
        cls, disk: Disk, directory: str, config: LogConfig, *, clean: bool, voters: VoterSet
    ) -> tuple["MetadataLog", Snapshot | None]:
        """Open the log in `directory`, or create it; return it and the snapshot that it continues.

        `voters` are the configured voters, which count until the log records a voter set. Blocks.
        Raises LogCorrupt, ControlRecordError, OSError.
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
            opened._continue_snapshot(snapshot, voters)
        except Exception:
            inner.close()
            raise
        return opened, snapshot

    def _check(self, recorded: Offset, snapshot: Snapshot | None) -> None:
        """Refuse a log that lost records or does not fit its snapshot. Raises LogCorrupt."""
        inner, covered = self._log, snapshot.snapshot_id.offset if snapshot else Offset(0)
        if inner.end_offset < recorded and covered < recorded:
            raise LogCorrupt(
                f"{self._directory} ends at offset {inner.end_offset}, but everything below "
                f"{recorded} had been flushed. {RECOVERY_ADVICE}"
            )
        if inner.start_offset > covered:
            raise LogCorrupt(
                f"{self._directory} begins at offset {inner.start_offset}, and no snapshot that "
                f"can be read reaches that far. {RECOVERY_ADVICE}"
            )
        if snapshot is not None and covered <= inner.end_offset:
            epoch, end = inner.end_offset_for_epoch(snapshot.snapshot_id.epoch)
            behind = inner.last_epoch < snapshot.snapshot_id.epoch
            contains = epoch == snapshot.snapshot_id.epoch and end >= covered
            if not behind and covered > inner.start_offset and not contains:
                raise LogCorrupt(
                    f"{self._directory} does not agree with its snapshot "
                    f"{snapshot.snapshot_id}. {RECOVERY_ADVICE}"
                )

    def _continue_snapshot(self, snapshot: Snapshot | None, voters: VoterSet) -> None:
        """Let the log continue the snapshot, check its batches, and read the voters."""
        start = Offset(0)
        self.voter_history = VoterHistory(voters)
        if snapshot is not None:
            start, epoch = snapshot.snapshot_id
            self.voter_history.restart(start, snapshot.voters or voters)
            inner = self._log
            if inner.end_offset < start or (
                inner.end_offset > inner.start_offset and inner.last_epoch < epoch
            ):
                log.info("the log ends before its snapshot %s: it restarts there", start)
                self._flushed_file.write(start)
                inner.truncate_fully(start)
        for position, header, data in self._batches(start):
            check_crc(data, position, header)
            self._record_voters(data, position, header)
        self._flushed_file.write(self._log.flush())
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

    def _record_voters(self, data: bytes, position: int, header: BatchHeader) -> None:
        for offset, message in control_messages(data, position, header):
            if isinstance(message, VotersRecord):
                self.voter_history.add(Offset(offset), voter_set(message))

    # -- what the quorum reads (LogView)

    @property
    def start_offset(self) -> Offset:
        """The offset at which the log begins."""
        return self._log.start_offset

    @property
    def end_offset(self) -> Offset:
        """The offset of the next record."""
        return self._log.end_offset

    @property
    def flushed_offset(self) -> Offset:
        """Everything below is on disk, and the next start will know that."""
        return min(self._flushed_file.offset, self._log.flushed_offset)

    @property
    def snapshot(self) -> SnapshotId | None:
        """The newest snapshot."""
        return self.snapshots.ids[-1] if self.snapshots.ids else None

    @property
    def oldest_snapshot(self) -> SnapshotId | None:
        """The oldest snapshot that is kept."""
        return self.snapshots.ids[0] if self.snapshots.ids else None

    @property
    def voters(self) -> VoterSet:
        """The latest voter set."""
        return self.voter_history.latest

    @property
    def voters_offset(self) -> Offset:
        """The offset of the record with the latest voter set; -1 for the configured voters."""
        return self.voter_history.latest_offset

    @property
    def last_epoch(self) -> Epoch:
        """The epoch of the last record, which may be in a snapshot."""
        before = self._snapshot_before()
        return before.epoch if before else self._log.last_epoch

    def end_offset_for_epoch(self, epoch: Epoch) -> tuple[Epoch, Offset]:
        """See EpochHistory."""
        before = self._snapshot_before()
        if before is None:
            return self._log.end_offset_for_epoch(epoch)
        if epoch > before.epoch:
            return Epoch(-1), NO_OFFSET
        return epoch, before.offset

    def _snapshot_before(self) -> SnapshotId | None:
        """The snapshot that an empty log continues; None if the log has records."""
        if self._log.end_offset > self._log.start_offset or self.end_offset == 0:
            return None
        return next((s for s in self.snapshots.ids if s.offset == self.end_offset), None)

    # -- reading and writing

    def read(self, offset: Offset, max_bytes: int, upper: Offset) -> bytes:
        """See Log.read."""
        return self._log.read(offset, max_bytes, upper)

    def append_as_leader(self, batch: bytes, epoch: Epoch) -> LogAppendInfo:
        """See Log.append_as_leader."""
        appended = self._log.append_as_leader(batch, epoch)
        self._record_appended_voters(appended.base_offset)
        return appended

    def append_as_follower(self, batches: bytes) -> None:
        """See Log.append_as_follower. Raises ControlRecordError as well."""
        appended = self._log.append_as_follower(batches)
        for position, header in iter_batches(batches):
            if header.base_offset >= appended.base_offset:
                self._record_voters(batches, position, header)

    def _record_appended_voters(self, offset: Offset) -> None:
        data = self._log.read(offset, 1, self.end_offset)
        for position, header in iter_batches(data):
            self._record_voters(data, position, header)

    def truncate_to(self, offset: Offset) -> None:
        """Truncate the log; blocks. Only uncommitted records are removed, so snapshots stay."""
        if offset < self._flushed_file.offset:
            self._flushed_file.write(offset)
        self._log.truncate_to(offset)
        self.voter_history.truncate(self._log.end_offset)

    async def flush_async(self) -> None:
        """Flush the log, and then record its flushed offset on disk, off the loop.

        Raises LogOffline, OSError.
        """
        flushed = await self._log.flush_async()
        if flushed > self._flushed_file.offset:
            await self._flushed_file.advance(flushed)

    @property
    def offline(self) -> str:
        """Why the log refuses appends; empty while it accepts them."""
        return self._log.offline

    def close(self) -> None:
        """Flush and close. Blocks."""
        if not self._log.offline and self._log.flush() > self._flushed_file.offset:
            self._flushed_file.write(self._log.end_offset)
        self._flushed_file.close()
        self._log.close()

    # -- snapshots

    def begin_snapshot(self, snapshot_id: SnapshotId) -> PartialSnapshot:
        """Create a snapshot file, to be written here or fetched from the leader."""
        return self.snapshots.begin(snapshot_id)

    def add_snapshot(self, snapshot_id: SnapshotId) -> None:
        """A snapshot of this node's own state is complete: trim what it replaces."""
        self.snapshots.add(snapshot_id)
        self.trim()

    def install(self, snapshot: Snapshot, configured: VoterSet) -> None:
        """A fetched snapshot is complete: the log restarts after it. Blocks."""
        offset = snapshot.snapshot_id.offset
        self.snapshots.add(snapshot.snapshot_id)
        self._flushed_file.write(offset)
        self._log.truncate_fully(offset)
        self.voter_history.restart(offset, snapshot.voters or configured)
        self.snapshots.remove_superseded(self.start_offset)

    def trim(self) -> None:
        """Delete the log before the oldest snapshot to keep, and the snapshots before it."""
        oldest = self.snapshots.log_needed_from()
        if oldest is not None and self.start_offset < oldest <= self.end_offset:
            self._log.advance_start(oldest)
        self.snapshots.remove_superseded(self.start_offset)


RECOVERY_ADVICE: Final = (
    "The node must not vote with it. Move the directory away and start the node again: it will "
    "fetch the metadata log from the quorum (as a new replica, if it was a voter)."
)


class FlushedOffset:
    """The file with the flushed offset of the log, as entries of an offset and its CRC32C.

    Entries are appended, each larger than the one before; the last complete entry counts. The file
    is written anew at every start, and for a smaller offset.
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
            raise LogCorrupt(f"{self._path} has no offset that can be read. {RECOVERY_ADVICE}")
        self.offset = max(whole)
        return self.offset

    def write(self, offset: Offset) -> None:
        """Write the file anew with only `offset`; blocks."""
        if self._file is not None:
            self._file.close()
        self._disk.write_atomic(self._path, _entry(offset))
        self._file = self._disk.open(self._path)
        self.offset = offset

    async def advance(self, offset: Offset) -> None:
        """Everything below `offset` is on disk: record that in the file, off the loop."""
        assert self._file is not None
        if self._file.size() >= MAX_FLUSHED_BYTES:
            self.write(offset)
            return
        file = self._file
        file.append(_entry(offset))
        await self._disk.sync(file)
        if file is self._file:  # a truncation may have written the file anew meanwhile
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
