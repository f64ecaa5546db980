"""What can be read of a log: its bounds, leader epochs, records, times and transactions."""

from nodes.ids import Epoch, Offset
from nodes.log import timestamps
from nodes.log.errors import OffsetOutOfRange
from nodes.log.producer_state import Producers
from nodes.log.recovery import Loaded
from nodes.log.transactions.aborted_index import AbortedTransaction


class LogReader:
    """A log without the changes that it is open for (`nodes.log.log.Log`)."""

    def __init__(self, loaded: Loaded) -> None:
        self.producers: Producers = loaded.producer_state.producers
        self._producer_state = loaded.producer_state
        self._segments = loaded.segments
        self._epochs = loaded.epochs
        self._start = loaded.start_offset

    # --- where the log begins and ends

    @property
    def start_offset(self) -> Offset:
        """The offset of the first readable record, or of the next record in an empty log."""
        return self._start

    @property
    def end_offset(self) -> Offset:
        """LEO: the offset that the next record gets."""
        return self._segments.active.next_offset

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self._segments.all)

    @property
    def last_epoch(self) -> Epoch:
        """The epoch of the last record, also if retention has removed it; -1 if it is not known.

        An epoch without records does not count: a follower that reported it would have to truncate
        to its present end. That changes nothing in a log without records.
        """
        return self._epochs.last_before(self.end_offset)

    @property
    def epochs(self) -> tuple[tuple[Epoch, Offset], ...]:
        """Leader epochs and their start offsets, oldest first."""
        return self._epochs.entries

    def end_offset_for_epoch(self, epoch: Epoch) -> tuple[Epoch, Offset]:
        """The largest known epoch not above `epoch`, and where it ends; (-1, -1) when unknown."""
        return self._epochs.end_offset_for(epoch, self.end_offset)

    # --- reading

    def read(
        self, offset: Offset, max_bytes: int, upper: Offset, *, at_least_one: bool = True
    ) -> bytes:
        """Read whole batches from the one that contains `offset`, all entirely below `upper`.

        At most `max_bytes` and within one segment; with `at_least_one` the first batch is returned
        even if it is larger. Empty at the log's end. Raises OffsetOutOfRange, and LogCorrupt if the
        file has changed.
        """
        end = self._segments.active.next_offset
        if not self._start <= offset <= end:
            raise OffsetOutOfRange(f"offset {offset} is not in {self._start}..{end}")
        if offset == end or offset >= upper:
            return b""
        segment = self._segments.of(offset)
        return segment.read(offset, max_bytes, upper, at_least_one=at_least_one)

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[Offset, int] | None:
        """The first record at or after a wall-clock time, and its time; None if there is none."""
        return timestamps.first_at_or_after(self._segments.all, timestamp_ms, self._start)

    def max_timestamp(self) -> tuple[Offset, int]:
        """Offset and time of the first record with the largest timestamp; (-1, -1) if none."""
        return timestamps.largest(self._segments.all, self._start)

    # --- transactions

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """LSO: every transaction with records below it has ended, by a marker below
        `high_watermark`. Never above `high_watermark`.
        """
        if not self.producers.unstable:
            return high_watermark
        return self._producer_state.last_stable_offset(high_watermark, self._start)

    def decided_offset(self, high_watermark: Offset) -> Offset:
        """Below this offset nothing can change any more, so the log may be cleaned. After a start
        it may be lower than the LSO: see `UnstableTransactions.knows_all`.
        """
        return self._producer_state.decided_offset(high_watermark, self._start)

    @property
    def has_aborted(self) -> bool:
        """Whether there may be aborted transactions."""
        return self._producer_state.has_aborted

    def aborted_transactions(self, start: Offset, end: Offset) -> list[AbortedTransaction]:
        """The aborted transactions with records from `start` on and below `end`. Raises OSError."""
        return self._producer_state.aborted_transactions(start, end)
