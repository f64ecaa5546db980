"""The producers of one log, and what is on disk of them: their snapshots and the indexes of aborted
transactions. The class has Kafka's name.

Guarantees: the state is that of the batches in the log. An abort marker gets its entry in the index
of its segment right after its append. A loaded log's index of a segment matches the segment: it was
synced with it, or it is rebuilt by a replay that begins at or below the segment.

A truncation removes snapshots and index entries before the records (the caller syncs the names), so
that none outlives its records.
"""

from nodes.ids import Offset
from nodes.log.batch import CONTROL_BIT, HEADER_BYTES, BatchHeader, read_header
from nodes.log.producer_snapshots import Snapshots
from nodes.log.producer_state import Producers
from nodes.log.segment import Segment
from nodes.log.segments import Segments
from nodes.log.transactions.aborted_index import AbortedTransaction
from nodes.log.transactions.markers import Marker, marker_in


class ProducerStateManager:
    """See the module. `load` makes it usable."""

    def __init__(self, segments: Segments, snapshots: Snapshots) -> None:
        self.producers = Producers()
        self.snapshots = snapshots
        self._segments = segments
        self.has_aborted = False
        """Whether an index may have entries; most logs have none, and need no look at the files."""
        self._oldest_timestamp: int | None = None

    # --- loading

    def load(self, end: Offset, rebuilt: int) -> int:
        """Replay the log, which ends at `end`, from the newest snapshot on.

        The indexes of segments from number `rebuilt` on are rebuilt, by a replay that begins at or
        below the first of them; return how many of them differed. A damaged snapshot costs only
        time.
        """
        first = self._segments.all[0].base_offset
        to_rebuild = self._segments.all[rebuilt:]
        begin = self._restore(to_rebuild[0].base_offset if to_rebuild else end, first)
        aborted: dict[Segment, list[AbortedTransaction]] = {each: [] for each in to_rebuild}
        for segment, entry in self._replay(begin):
            if segment in aborted:
                aborted[segment].append(entry)
        newest = self.snapshots.newest(end, first)
        if newest is not None and newest[0] > begin:
            # A cleaner may have removed the marker of a transaction that was open at `begin`.
            self._replay(self._restore(end, first))
        rebuilt = sum(segment.aborted.match(entries) for segment, entries in aborted.items())
        self.has_aborted = any(len(segment.aborted) for segment in self._segments.all)
        return rebuilt

    def _restore(self, end: Offset, first: Offset) -> Offset:
        found = self.snapshots.newest(end, first)
        begin, state = found if found is not None else (first, {})
        self.producers.restore(state.items(), begin)
        self.producers.unstable.loaded(begin)
        return begin

    def _replay(self, begin: Offset) -> list[tuple[Segment, AbortedTransaction]]:
        """Add all batches from `begin` on; return the transactions that they abort."""
        aborted = []
        for segment, position, header in self._segments.batches(begin):
            marker = None
            if header.attributes & CONTROL_BIT:
                marker = marker_in(segment.file.pread(position, header.size))
            if marker is None:
                self.producers.update(header, header.base_offset)
                continue
            entry = self.producers.end_transaction(header, header.base_offset, marker)
            if entry is not None:
                aborted.append((segment, entry))
        return aborted

    # --- appending

    def remembers_all(self, header: BatchHeader, log_start: Offset, expiration_ms: int) -> bool:
        """Whether no producer was forgotten at the time of `header`'s batch: no segment was removed
        from the log's start, and the whole log is younger than the producer expiration.
        """
        oldest = self._segments.all[0]
        if log_start > 0 or not oldest.size:
            return log_start == 0
        if self._oldest_timestamp is None:
            first = read_header(oldest.file.pread(0, HEADER_BYTES))
            self._oldest_timestamp = first.oldest_timestamp
        return header.max_timestamp - self._oldest_timestamp < expiration_ms

    def end_transaction(self, header: BatchHeader, base_offset: Offset, marker: Marker) -> None:
        """Add a marker that was just appended to the active segment. Raises OSError."""
        entry = self.producers.end_transaction(header, base_offset, marker)
        if entry is not None:
            self.has_aborted = True
            if self._segments.active.aborted.add(entry):
                self._segments.names_changed()

    # --- removing

    def truncated(self, end: Offset) -> None:
        """The log was truncated to `end`: return to the state there."""
        self._oldest_timestamp = None
        first = self._segments.all[0].base_offset
        begin = self.producers.rewind(end)
        if begin is None or begin < first:
            begin = self._restore(end, first)
        self._replay(begin)

    def truncated_fully(self) -> None:
        """The log has no more records."""
        self.producers.clear()
        self._oldest_timestamp = None

    def start_removed(self) -> None:
        """Segments were removed from the log's start: remove their snapshots."""
        self.snapshots.remove_below(self._segments.all[0].base_offset)
        self._oldest_timestamp = None

    # --- reading

    def last_stable_offset(self, high_watermark: Offset, log_start: Offset) -> Offset:
        """The LSO of a log that begins at `log_start`."""
        first = self.producers.unstable.first_unstable(high_watermark)
        if first is None or first >= high_watermark:
            return high_watermark
        return max(first, log_start)

    def decided_offset(self, high_watermark: Offset, log_start: Offset) -> Offset:
        """Everything below is surely decided: the LSO, or the log's start as long as a marker from
        before the last start may be above the high watermark.
        """
        if not self.producers.unstable.knows_all(high_watermark):
            return log_start
        return self.last_stable_offset(high_watermark, log_start)

    def aborted_transactions(self, start: Offset, end: Offset) -> list[AbortedTransaction]:
        """The aborted transactions with records from `start` on and below `end`. Raises OSError."""
        found: list[AbortedTransaction] = []
        for segment in self._segments.since(start):
            entries, complete = segment.aborted.overlapping(start, end)
            found += entries
            if complete:
                break
        return found

    # --- snapshots

    def write_snapshot(self, end: Offset) -> None:
        """Write the snapshot of the log, which ends at `end`."""
        self.snapshots.write(end, self.producers)

    def write_last_snapshot(self, end: Offset) -> None:
        """Write the snapshot of a log that is closed, and remove those in the way."""
        if end > self._segments.all[0].base_offset and not self.snapshots.has(end):
            self.write_snapshot(end)
            self.snapshots.keep({end, *(s.base_offset for s in self._segments.all)})
            self._segments.names_changed()
