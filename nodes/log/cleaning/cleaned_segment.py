"""A segment while it is written by the cleaner: its files have the suffix `.cleaned`.

Nothing of it counts before the swap (`nodes.log.cleaning.swap`); a start removes what a killed
cleaner left.
"""

from collections.abc import Sequence

from nodes.ids import Offset
from nodes.log.batch import BatchHeader, assemble
from nodes.log.cleaning.swap import CLEANED, SWAP, remove_files
from nodes.log.segment import Segment
from nodes.log.transactions.aborted_index import AbortedTransaction
from nodes.storage.disk import Disk, File

WRITE_BYTES = 64 * 1024


class CleanedSegment:
    """The replacement of a group of segments that begins at `base_offset`."""

    def __init__(
        self, disk: Disk, directory: str, base_offset: Offset, index_interval_bytes: int
    ) -> None:
        self._disk = disk
        self._stem = f"{directory}/{base_offset:020d}"
        remove_files(disk, self._stem, CLEANED)
        self._segment = Segment(disk, directory, base_offset, index_interval_bytes, suffix=CLEANED)
        for index in (self._segment.index, self._segment.time_index):
            index.clear()  # makes the file: also an index without entries replaces an old one
        self._segment.aborted.exists_not()
        self._unwritten: list[bytes] = []
        self._written = 0
        """How many bytes the file has."""

    @property
    def size(self) -> int:
        """Bytes of all its batches."""
        return self._segment.size

    @property
    def next_offset(self) -> Offset:
        """Where the next batch has to begin."""
        return self._segment.next_offset

    def append(self, header: BatchHeader, batch: bytes) -> None:
        """Append a batch, of which `header` has the right offsets and largest timestamp."""
        assert header.base_offset == self._segment.next_offset, "cleaned segments have no gap"
        self._segment.add_batch(
            header.base_offset, header.last_offset, len(batch), header.max_timestamp
        )
        self._unwritten.append(batch)
        if self._segment.size - self._written >= WRITE_BYTES:
            self._write()

    def append_empty(self, header: BatchHeader | None) -> None:
        """Append the batch without records of this header; nothing without one."""
        if header is not None:
            self.append(header, assemble(header))

    def _write(self) -> None:
        self._segment.append(b"".join(self._unwritten))
        self._unwritten.clear()
        self._written = self._segment.size

    def finish(self, aborted: Sequence[AbortedTransaction] | None) -> list[File]:
        """Write everything; return the files, which the caller syncs. `aborted` is the content of
        the aborted-transaction index, or None if it gets none.
        """
        self._write()
        self._segment.seal()
        if aborted is not None:  # without an entry too: it replaces an old one
            self._disk.open(f"{self._stem}.txnindex{CLEANED}", create=True).close()
            for entry in aborted:
                self._segment.aborted.add(entry)
        segment = self._segment
        return [segment.file, *segment.lookups_unsynced(), *segment.aborted.unsynced()]

    def close(self) -> None:
        """Close the files."""
        self._segment.close()

    def discard(self) -> None:
        """Close and remove the files."""
        self.close()
        remove_files(self._disk, self._stem, CLEANED)
        remove_files(self._disk, self._stem, SWAP)
