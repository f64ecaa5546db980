"""Where the batches of one segment are, and what its two indexes may say about them. Pure.

The format of the indexes is in `nodes.log.index`: entries of an offset index are (relative last
offset, position), entries of a time index are (timestamp in ms, relative last offset).
"""

from collections.abc import Sequence

from nodes.log.batch import BatchHeader

Entries = Sequence[tuple[int, int]]


class SegmentLayout:
    """The batches of the segment that begins at offset `base`."""

    def __init__(self, base: int) -> None:
        self.base = base
        self.batches: dict[int, tuple[int, int]] = {}
        """By position: a batch's last offset, and the largest timestamp up to its end."""
        self.peaks: dict[int, int] = {}
        """The timestamps that were larger than all before, by the last offset of their batch."""
        self.largest = -1
        """The largest timestamp."""

    def add(self, position: int, header: BatchHeader) -> None:
        """Add the next batch."""
        last_offset = header.base_offset + header.last_offset_delta
        if header.max_timestamp > self.largest:
            self.largest = self.peaks[last_offset] = header.max_timestamp
        self.batches[position] = last_offset, self.largest


def offset_problem(layout: SegmentLayout, entries: Entries, first: int = 0) -> str:
    """Return what is wrong with an offset index from entry number `first` on; empty if nothing."""
    for number in range(first, len(entries)):
        relative, position = entries[number]
        if number and entries[number - 1][1] >= position:
            return (
                f"entry {number} has position {position}, but the entry before has position "
                f"{entries[number - 1][1]}"
            )
        batch = layout.batches.get(position)
        if batch is None or batch[0] != layout.base + relative:
            there = (
                "no batch begins" if batch is None else f"a batch with last offset {batch[0]} is"
            )
            return (
                f"entry {number} has last offset {layout.base + relative} at position {position}, "
                f"but {there} there"
            )
    return ""


def time_problem(layout: SegmentLayout, entries: Entries, first: int = 0) -> str:
    """Return what is wrong with a time index from entry number `first` on; empty if nothing."""
    for number in range(first, len(entries)):
        timestamp, relative = entries[number]
        if number and (entries[number - 1][0] >= timestamp or entries[number - 1][1] >= relative):
            return f"entry {number} {entries[number]} follows {entries[number - 1]}"
        if layout.peaks.get(layout.base + relative) != timestamp:
            return (
                f"entry {number} has timestamp {timestamp} for the batch with last offset "
                f"{layout.base + relative}, but no batch there is the first with such a timestamp"
            )
    return ""


def coverage_problem(
    layout: SegmentLayout, offsets: Entries, times: Entries, *, sealed: bool
) -> str:
    """Return what the time index lacks: the largest timestamp of the batches that the next start
    does not read. Empty if it lacks nothing.
    """
    wanted = layout.largest if sealed else -1
    if offsets and not sealed:
        wanted = layout.batches[offsets[-1][1]][1]
    known = times[-1][0] if times else -1
    if known >= wanted:
        return ""
    part = "of the segment" if sealed else f"up to position {offsets[-1][1]}"
    return f"its largest timestamp is {known}, but the largest {part} is {wanted}"
