"""Records that were read at read_committed before anybody asked to end their transaction.

A send in a transaction is recorded when the transaction has ended, behind the request that ended
it. The record may have been read long before, and its poll may be recorded before or after. So the
last of both are kept. Each part is bounded and forgets its oldest entries.
"""

from collections.abc import Iterator

import numpy as np

from checkers.following.columns import MISSING, Flags, Ints, Piece, found_in
from checkers.following.suspects import Recent, Suspect, of_values
from checkers.frames.ended import READ_COMMITTED
from checkers.history.history import ENDS


class OpenReads:
    """The state. limit: how many ends, sends and records are kept."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._ends: Recent[int, int] = Recent(limit)
        """When somebody first asked to end a transaction."""
        self._reads = np.zeros((0, 2), np.int64)
        """Value and time of records that were read."""
        self._sends = np.zeros((0, 2), np.int64)
        """Value and transaction of sends that may be committed."""

    def size(self) -> int:
        """The number of entries."""
        return len(self._ends) + len(self._reads) + len(self._sends)

    def take(self, piece: Piece, polled: Flags) -> Iterator[Suspect]:
        """Add the rows of a piece. polled: records that were read. What ended transactions counts
        as earlier than the rest, and sends count as earlier than records."""
        asked = np.flatnonzero(piece.having("f", *ENDS) & piece.known("txn"))
        for txn, at_ns in zip(
            *(piece[n][asked].tolist() for n in ("txn", "invoke_ns")), strict=True
        ):
            self._ends[txn] = min(at_ns, self._ends.get(txn, at_ns))
        sent = (piece.place >= 0) & piece.having("f", "send") & ~piece.having("type", "fail")
        sends = np.flatnonzero(sent & piece.known("value") & piece.known("txn"))
        known = polled & piece.known("value") & piece.known("complete_ns")
        reads = np.flatnonzero(known & (piece["isolation"] == READ_COMMITTED))
        if len(sends):
            early = self._read_before(piece["value"][sends]) < self._end_of(piece["txn"][sends])
            yield from _suspects(piece, sends[early], piece["txn"][sends[early]])
            self._sends = self._kept(self._sends, piece["value"][sends], piece["txn"][sends])
        if len(reads):
            txns = self._txn_of(piece["value"][reads])
            early = piece["complete_ns"][reads] < self._end_of(txns)
            yield from _suspects(piece, reads[early], txns[early])
            self._reads = self._kept(
                self._reads, piece["value"][reads], piece["complete_ns"][reads]
            )

    def _end_of(self, txns: Ints) -> Ints:
        """When somebody first asked to end transactions; MISSING if that is not known."""
        different, place = np.unique(txns, return_inverse=True)
        ends = [self._ends.get(txn, MISSING) for txn in different.tolist()]
        found: Ints = np.array(ends, np.int64)[place]
        return found

    def _read_before(self, values: Ints) -> Ints:
        """When values were first read, in earlier pieces; a time after all others if never."""
        order = np.lexsort((self._reads[:, 1], self._reads[:, 0]))
        return _found(self._reads[order], values, np.iinfo(np.int64).max)

    def _txn_of(self, values: Ints) -> Ints:
        """The transactions in which values were last sent; MISSING without one."""
        latest = self._sends[::-1]
        return _found(latest[np.argsort(latest[:, 0], kind="stable")], values, MISSING)

    def _kept(self, before: Ints, *columns: Ints) -> Ints:
        kept: Ints = np.concatenate((before, np.column_stack(columns)))[-self._limit :]
        return kept


def _found(table: Ints, values: Ints, otherwise: int) -> Ints:
    """The second column of the first row with each value, in a table that is ordered by values."""
    known, place = found_in(table[:, 0], values)
    found = np.full(len(values), otherwise, np.int64)
    found[known] = table[place[known], 1]
    return found


def _suspects(piece: Piece, at: Ints, txns: Ints) -> Iterator[Suspect]:
    for row, txn in zip(piece.rows(at), txns.tolist(), strict=True):
        yield of_values("aborted-read", row, row["value"]).about(txn=txn)
