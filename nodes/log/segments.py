"""The segments of one log, in order: finds, begins and removes them.

Guarantees: after a power loss at any moment the segments have no gap. Files are removed one segment
at a time, and each removal is on disk before the next, because a file system may restore any
unsynced removal. A truncation removes from the newest segment backwards, a deletion of the start
from the oldest forwards. A segment begins only after the names of all earlier ones are on disk.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from nodes.ids import Offset
from nodes.log.batch import BatchHeader
from nodes.log.retention import SegmentInfo
from nodes.log.segment import Segment
from nodes.storage.disk import Disk, parent


class Segments:
    """At least one; the last is the active one."""

    def __init__(
        self, disk: Disk, directory: str, segments: list[Segment], *, new: bool = False
    ) -> None:
        self.disk = disk
        self.directory = directory
        self.all = segments
        self.active = segments[-1]
        self.unsynced_dirs = [directory, parent(directory)] if new else []
        """Directories with unsynced name changes; inner ones first."""
        self._syncing: list[str] = []
        self.cuts = 0
        """How often the log was truncated."""

    @property
    def sealed(self) -> list[Segment]:
        """All but the active one."""
        return self.all[:-1]

    def of(self, offset: Offset) -> Segment:
        """The segment that contains `offset`, or would contain it."""
        if offset >= self.active.base_offset:
            return self.active
        number = bisect_right(self.all, offset, key=lambda segment: segment.base_offset)
        return self.all[number - 1]

    def since(self, offset: Offset) -> list[Segment]:
        """The segments from the one that contains `offset` on."""
        return self.all[self.all.index(self.of(offset)) :]

    def batches(self, start: Offset) -> Iterator[tuple[Segment, int, BatchHeader]]:
        """Segment, position and header of all batches from the one at `start`, which must exist, to
        the end.
        """
        if start >= self.active.next_offset:
            return
        position, _ = self.of(start).batch_at(start)
        for segment in self.since(start):
            for at, header in segment.scan(position):
                yield segment, at, header
            position = 0

    def segment_infos(self, *, with_times: bool) -> list[SegmentInfo]:
        """The properties for retention; a time may need a read of an index."""
        return [
            SegmentInfo(s.next_offset, s.size, s.largest_timestamp()[0] if with_times else -1)
            for s in self.all
        ]

    def begin(self, base_offset: Offset) -> None:
        """Begin a new last segment."""
        interval = self.active.interval
        self.sync_names()
        self.active = Segment(self.disk, self.directory, base_offset, interval)
        self.all.append(self.active)
        self.names_changed()

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Replace neighbours, which are sealed, by one segment with the same offsets."""
        number = self.all.index(old[0])
        assert self.all[number : number + len(old)] == list(old), "segments that are neighbours"
        self.all[number : number + len(old)] = [new]
        self.names_changed()

    def names_changed(self) -> None:
        """A file was created or removed in the log's directory."""
        if self.directory not in self.unsynced_dirs:
            self.unsynced_dirs.insert(0, self.directory)

    def all_names_changed(self) -> None:
        """It is unknown which names are synced, because a process died."""
        self.unsynced_dirs = [self.directory, parent(self.directory)]

    def sync_names(self) -> None:
        """Make all names durable; blocks."""
        for directory in dict.fromkeys((*self._syncing, *self.unsynced_dirs)):
            self.disk.sync_dir(directory)
        self.unsynced_dirs = []

    def take_unsynced_names(self) -> list[str]:
        """The directories to sync off the loop; the caller then calls `names_synced`."""
        self._syncing, self.unsynced_dirs = self.unsynced_dirs, []
        return self._syncing

    def names_synced(self, *, synced: bool) -> None:
        """The directories of `take_unsynced_names` were synced, or were not."""
        if not synced:
            self.unsynced_dirs = list(dict.fromkeys((*self._syncing, *self.unsynced_dirs)))
        self._syncing = []

    def end_before(self, offset: Offset) -> Offset:
        """The log's end after a removal of the batch that contains `offset` and all after it."""
        return self.of(offset).batch_at(offset)[1].base_offset

    def cut(self, offset: Offset) -> None:
        """Remove the batch that contains `offset` and all after it. Durable; blocks."""
        segment = self.of(offset)
        position, header = segment.batch_at(offset)
        self.cuts += 1
        self._remove_after(segment)
        self.active = segment
        self.names_changed()
        self.sync_names()
        segment.cut(position, header.base_offset)
        for file in (*segment.aborted.unsynced(), segment.file):
            file.sync()
        segment.aborted.synced()

    def begin_anew(self, base_offset: Offset) -> None:
        """Remove everything; the log is then empty at `base_offset`. Durable; blocks."""
        self.cuts += 1
        self._remove_after(None)
        self.begin(base_offset)
        self.sync_names()

    def _remove_after(self, kept: Segment | None) -> None:
        while self.all and self.all[-1] is not kept:
            self._remove(self.all.pop())

    def remove_oldest(self, count: int) -> None:
        """Remove the first `count` segments, never the active one. Durable; blocks."""
        for _ in range(min(count, len(self.all) - 1)):
            self._remove(self.all.pop(0))

    def _remove(self, segment: Segment) -> None:
        segment.delete()
        self.disk.sync_dir(self.directory)

    def close(self) -> None:
        """Close the files."""
        for segment in self.all:
            segment.close()
