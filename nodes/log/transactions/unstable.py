"""Where the undecided part of a log begins: the first unstable offset, as in Kafka. Pure.

A transaction is undecided from its first record on until its marker is below the high watermark: a
marker above it may be lost with the leader. The last stable offset (LSO) is the first unstable
offset, but never above the high watermark. Consumers with isolation.level=read_committed read below
the LSO.
"""

from collections import deque
from collections.abc import Iterable

from nodes.ids import Offset


class UnstableTransactions:
    """The open transactions of one log, and those whose markers may not be committed yet."""

    __slots__ = ("_ended", "_open", "_unknown_below")

    def __init__(self) -> None:
        self._open: dict[Offset, int] = {}
        """First offset and producer id, ascending: a transaction begins at the log's end."""
        self._ended: deque[tuple[Offset, Offset]] = deque()
        """First offset and marker's offset, both ascending. A transaction that began later and
        ended earlier than another is left out: the other is unstable for longer, and from an
        earlier offset."""
        self._unknown_below = Offset(0)
        """Which transactions ended below is known only if their markers are committed."""

    def __bool__(self) -> bool:
        return bool(self._open or self._ended)

    def begin(self, producer_id: int, first_offset: Offset) -> None:
        """A producer's transaction begins at `first_offset`, the end of the log."""
        self._open[first_offset] = producer_id

    def end(self, first_offset: Offset, marker: Offset) -> Offset:
        """The marker at the end of the log ends the transaction that began at `first_offset`.

        Return the first offset of the transactions that are still open, or the offset after the
        marker: the LSO as soon as the marker is committed.
        """
        self._open.pop(first_offset, None)
        while self._ended and self._ended[-1][0] >= first_offset:
            self._ended.pop()
        self._ended.append((first_offset, marker))
        return next(iter(self._open), Offset(marker + 1))

    def first_unstable(self, high_watermark: Offset) -> Offset | None:
        """The first unstable offset; None if everything is decided. `high_watermark` must not go
        back, except with a truncation of the log to it.
        """
        ended = self._ended
        while ended and ended[0][1] < high_watermark:
            ended.popleft()
        first = next(iter(self._open), None)
        if not ended:
            return first
        return ended[0][0] if first is None else min(first, ended[0][0])

    def knows_all(self, high_watermark: Offset) -> bool:
        """Whether every undecided transaction is known. After a start, those that ended before the
        snapshot of producers are not: it says only which ones were open.
        """
        return high_watermark >= self._unknown_below

    def loaded(self, begin: Offset) -> None:
        """The log was replayed from `begin` on, where a snapshot of producers was taken."""
        self._unknown_below = begin

    def restore(self, opened: Iterable[tuple[Offset, int]], end: Offset) -> None:
        """Return to the state when the log ended at `end`: first offset and producer id of the
        transactions that were open then, in any order.
        """
        self._open = dict(sorted(opened))
        self._unknown_below = min(self._unknown_below, end)
        while self._ended and self._ended[-1][1] >= end:
            self._ended.pop()
