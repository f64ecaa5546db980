"""The indexes of a log's segments agree with its batches.

- An entry of an offset index has the position of a batch and the batch's last offset. Positions
  ascend.
- An entry of a time index has a timestamp and the last offset of the first batch that has it. All
  batches before have smaller timestamps, so a search by time that begins there misses nothing.
- The time index has the largest timestamp of the batches up to the last entry of the offset index;
  from there on the next start reads. That of a sealed segment has the largest timestamp of all.

A segment is checked when one of its indexes was written, and when it was sealed; all segments after
a truncation and at a start. Entries that were right are not checked again.
"""

import struct
from typing import Final

from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.log_copy import Copy
from harness.simulation.invariants.segment_layout import (
    Entries,
    SegmentLayout,
    coverage_problem,
    offset_problem,
    time_problem,
)
from harness.simulation.world.disk import SimDisk
from nodes.log.index import OFFSET_ENTRY, TIME_ENTRY, IndexFile
from nodes.log.log import Log
from nodes.log.segment import Segment

SUFFIXES: Final = (".index", ".timeindex")


class IndexChecker:
    """Checks the indexes of one log."""

    def __init__(self, copy: Copy, log: Log, disk: SimDisk) -> None:
        self._copy = copy
        self._log = log
        self._disk = disk
        self._layouts: dict[int, SegmentLayout] | None = None
        """The layouts at the last check."""
        self._newest = 0
        """The base offset of the active segment at the last check."""
        self._right: dict[str, bytes] = {}
        """The entries that were right, by file."""
        self._written: dict[int, None] = {}
        """The base offsets of segments with an index that was written."""

    def written(self, path: str) -> None:
        """A file of the log was written or truncated."""
        if path.endswith(SUFFIXES):
            self._written[int(path.rpartition("/")[2].partition(".")[0])] = None

    def check(self) -> None:
        """Check what may have changed; `copy` was read before. Raises InvariantBroken."""
        copy, log = self._copy, self._log
        active = log._segments.active
        if copy.layouts is not self._layouts:
            self._layouts, self._newest = copy.layouts, 0
            self._right.clear()
        elif not self._written and active.base_offset == self._newest:
            return
        written, self._written = self._written, {}
        changed_from, self._newest = self._newest, active.base_offset
        for segment in log._segments.all:
            base = segment.base_offset
            if (base in written or base >= changed_from) and base in copy.layouts:
                self._check(segment, copy.layouts[base], sealed=segment is not active)

    def _check(self, segment: Segment, layout: SegmentLayout, *, sealed: bool) -> None:
        offsets, known = self._entries(segment.index, f"{segment.stem}.index", OFFSET_ENTRY)
        times, known_times = self._entries(
            segment.time_index, f"{segment.stem}.timeindex", TIME_ENTRY
        )
        which = "offset index"
        problem = offset_problem(layout, offsets, known)
        if not problem:
            which = "time index"
            problem = time_problem(layout, times, known_times)
            problem = problem or coverage_problem(layout, offsets, times, sealed=sealed)
        if problem:
            raise InvariantBroken(
                "indexes-match-batches",
                f"node {self._copy.node}: {which} of {segment.stem}.log"
                f"{', sealed' if sealed else ''}: {problem}",
            )

    def _entries(self, index: IndexFile, path: str, entry: struct.Struct) -> tuple[Entries, int]:
        """Return all entries, also those that are not written yet, and how many were right."""
        content = self._disk.content
        data = (content.read(path) if content.exists(path) else b"") + bytes(index._buffer)
        right, self._right[path] = self._right.get(path, b""), data
        known = len(right) // entry.size if data.startswith(right) else 0
        return list(entry.iter_unpack(data)), known
