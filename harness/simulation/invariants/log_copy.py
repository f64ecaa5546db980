"""One replica's log, read batch by batch as its file grows.

After an event only the appended batches are read; the whole log is read after a truncation, after a
compaction and at a start. For a node that is down, a copy has what the node had when it died, and
how much of it was on its disk.
"""

from collections.abc import Iterable
from uuid import UUID

from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.compacted_log import Entry, entries_of
from harness.simulation.invariants.partition_history import (
    NEVER,
    Batch,
    Forgets,
    PartitionHistory,
    Sequences,
    forgets_nobody,
)
from harness.simulation.invariants.segment_layout import SegmentLayout
from harness.simulation.invariants.stable_offsets import LogTransactions
from nodes.log.batch import BatchHeader
from nodes.log.errors import LogError
from nodes.log.log import Log
from nodes.log.segment import Segment


class Content:
    """The batches and records that a compacted log has, by their offsets."""

    def __init__(self) -> None:
        self.headers: dict[int, BatchHeader] = {}
        """By base offset."""
        self.entries: dict[int, Entry] = {}


class Copy:
    """See the module."""

    def __init__(self, history: PartitionHistory, node: int) -> None:
        self.history = history
        self.node = node
        self.batches: dict[int, Batch] = {}
        """Batches by the offset after their last record, in order."""
        self.last: Batch | None = None
        self._stood_for: dict[Batch, list[Batch]] = {}
        """Of each batch that an empty one stands for, all that it stands for."""
        self.epoch_starts: list[tuple[int, int]] = []
        """The leader epochs of the batches, and the offset of the first batch of each."""
        self.layouts: dict[int, SegmentLayout] = {}
        """The batches by segment, with the segments' base offsets."""
        self.transactions = LogTransactions()
        self.content = Content()
        """What a compacted log has; empty for other logs."""
        self.earlier_content: Content | None = None
        """What a compacted log had before it was last read as a whole."""
        self.flushed = 0
        """Everything below this offset was seen on the disk."""
        self.lost_before: frozenset[UUID] | None = None
        """The incarnations that the node had had when its disk last lost data; None once it has
        caught up."""
        self.damaged = False
        """Whether the disk lost more than its page cache."""
        self.set_aside = False
        """Whether the node found the log damaged, began a new one, and has not caught up."""
        self.unreadable = False
        """Whether damage makes the log unreadable, in this incarnation."""
        self.retired = False
        """Whether the node was told to remove the replica: it may begin again with an empty log."""
        self.epoch = NEVER
        """The leader epoch that the replica knew after the last event."""
        self._start = 0
        self._log: Log | None = None
        self._segment: Segment | None = None
        self._position = 0
        self._cuts = 0
        self._segments: list[Segment] = []
        """The sealed segments of a compacted log that were read."""
        self._forgets: Forgets = forgets_nobody
        self._sequences = Sequences()

    @property
    def end(self) -> int:
        """The offset after the last batch that was seen."""
        return self._start if self.last is None else self.last.end

    def has(self, batch: Batch) -> bool:
        """Whether the batch is in the log, or was deleted from its beginning."""
        return self.batches.get(batch.end) is batch or self.start >= batch.end

    @property
    def start(self) -> int:
        """The log's start offset."""
        return self._start if self._log is None else self._log.start_offset

    def open(self, log: Log, *, forgets: Forgets = forgets_nobody, set_aside: bool = False) -> None:
        """Read the log that a new incarnation has opened, which `forgets` idle producers.

        The log must have what it had before; after a power loss, what was on its disk. After a
        loss the node may also have `set_aside` the old log, and this is another one.
        """
        self._log, self._forgets, self.set_aside = log, forgets, set_aside
        if log.config.compaction is not None:
            self.history.compact()
        if self.retired:
            self.retired, self.lost_before, self.damaged = False, None, False
            self.batches, self.flushed, self.content = {}, 0, Content()
        self.unreadable, self.epoch = False, NEVER
        gone = self._read_all()
        self.flushed = min(self.flushed, self.end)
        if gone and not (set_aside and self.lost_before is not None):
            what = "had" if self.lost_before is None else "had on its disk at the power loss"
            raise InvariantBroken(
                "a-restart-loses-nothing",
                f"{self.history.name}: node {self.node} lost {len(gone)} batches, from {gone[0]} "
                f"on, that it {what} before its restart",
            )

    def close(self) -> None:
        """Forget the log's objects: the incarnation is gone.

        It may have ended within a truncation, because the disk was full, say. Then what is left is
        what the next incarnation must find.
        """
        log = self._log
        if log is not None and not self.unreadable and log._segments.cuts != self._cuts:
            self._read_all()
            self.flushed = min(self.flushed, self.end)
        self._start = self.start
        self._log = self._segment = None

    def read(self) -> None:
        """Read what was appended, or everything after a truncation."""
        log = self._log
        if log is None or self.unreadable:
            return
        self.history.start = max(self.history.start, log.start_offset)
        segments = log._segments
        if self.history.compacted and self._was_cleaned(segments.all):
            self.history.removed(self.node, self._read_again(), self.epoch)
        elif segments.cuts == self._cuts and segments.active is self._segment:
            self._scan(segments.active, self._position)
        elif segments.cuts == self._cuts and self._segment in segments.all:
            first = segments.all.index(self._segment)
            self._scan(segments.all[first], self._position)
            for segment in segments.all[first + 1 :]:
                self._scan(segment, 0)
        else:
            self.history.removed(self.node, self._read_again(), self.epoch)
            self.flushed = min(self.flushed, self.end)
        self._segments = segments.all[:-1] if self.history.compacted else []

    def _was_cleaned(self, segments: list[Segment]) -> bool:
        """Whether segments that were read have been replaced."""
        known = set(map(id, self._segments))
        newest = self._segments[-1].base_offset if self._segments else -1
        return any(id(each) not in known for each in segments if each.base_offset <= newest)

    def _read_again(self) -> list[Batch]:
        """Read the whole log; return the batches that are missing now and had to be committed to
        stay.

        A truncation removes an empty batch as a whole. If one of those that it stood for is not
        committed any more, the others go with it, and no record does.
        """
        stood_for = self._stood_for
        gone = self._read_all()
        return [each for each in gone if self.history.are_committed(stood_for.get(each, ()))]

    def _read_all(self) -> list[Batch]:
        """Read the whole log; return the batches that are missing now, oldest first."""
        assert self._log is not None
        before, self.batches, self.last, self._stood_for = self.batches, {}, None, {}
        self._sequences = Sequences(self._forgets)
        self.epoch_starts, self.layouts = [], {}
        self.transactions = LogTransactions()
        self.content, self.earlier_content = Content(), self.content
        self._start = self._log.start_offset
        self._cuts = self._log._segments.cuts
        try:
            for segment in self._log._segments.all:
                self._scan(segment, 0)
        except (InvariantBroken, LogError):
            if not self.damaged:
                raise
            self.unreadable = True
            before, self.batches, self.last = {}, {}, None  # nobody knows what it has
        self.transactions.witnessed_from, self.transactions.damaged = self.end, self.damaged
        self._segments = self._log._segments.all[:-1] if self.history.compacted else []
        return [batch for batch in before.values() if not self.has(batch)]

    def _scan(self, segment: Segment, position: int) -> None:
        self._segment, self._position = segment, position
        if segment.size > position:
            layout = self.layouts.get(segment.base_offset)
            if layout is None:
                layout = self.layouts[segment.base_offset] = SegmentLayout(segment.base_offset)
            for at, header in segment.scan(position):
                layout.add(at, header)
                entries = self._entries(segment, at, header) if self.history.compacted else None
                self._append(header, entries)
                self._position = at + header.size

    def _entries(self, segment: Segment, at: int, header: BatchHeader) -> tuple[Entry, ...]:
        """Read the records of a batch of a compacted log."""
        entries = tuple(entries_of(segment.file.pread(at, header.size), 0, header))
        self.content.headers[header.base_offset] = header
        self.content.entries.update((each.offset, each) for each in entries)
        return entries

    def _append(self, header: BatchHeader, entries: tuple[Entry, ...] | None) -> None:
        last = self.last
        if last is not None and last.end != header.base_offset:
            raise InvariantBroken(
                "dense-offsets",
                f"{self.history.name}: on node {self.node}, a batch at {header.base_offset} "
                f"follows {last}, which ends before {last.end}",
            )
        self.transactions.append(header)
        if entries is not None:
            cleaned = self.history.cleaned(self.node, header, last)
            self._stood_for.update(dict.fromkeys(cleaned, cleaned))
            for batch in cleaned:
                self._add(batch)
            if self.last is not last:
                return
        batch = self.history.appended(self.node, header, last, self._sequences)
        if batch.entries is None:
            batch.entries = entries
        self._add(batch)

    def _add(self, batch: Batch) -> None:
        if self.last is None or self.last.epoch != batch.epoch:
            self.epoch_starts.append((batch.epoch, batch.base))
        self.batches[batch.end] = self.last = batch
        if batch.sent is not None:
            self._sequences.note(batch.sent)

    # -- losses

    def mark_lost(self, incarnations: frozenset[UUID], *, everything: bool = False) -> None:
        """Record that the disk may have lost what was not flushed, or `everything`, after these
        incarnations.
        """
        assert self._log is None, f"node {self.node} runs"
        if everything:
            self.flushed, self.damaged = 0, True
        self.lost_before = incarnations
        while self.last is not None and self.last.end > self.flushed:
            del self.batches[self.last.end]
            self.last = next(reversed(self.batches.values()), None)

    def caught_up(self, batch: Batch) -> bool:
        """Whether the log has everything up to `batch`; a past loss is then forgotten."""
        if self.unreadable:
            return True
        if not self.has(batch):
            return False
        if self._log is not None:
            self.lost_before, self.damaged, self.set_aside = None, False, False
        return True


def held_by(copies: Iterable[Copy], batch: Batch) -> list[int]:
    """Return the nodes that have the batch on their disks."""
    return [each.node for each in copies if each.has(batch) and each.flushed >= batch.end]
