"""What is kept of transactions while a run goes on, and the suspects that it shows.

For every transactional id the last producers that took it over; the sends of fenced producers; the
values of transactions that are surely not committed. Each part is bounded and forgets its oldest
entries.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from checkers.following.columns import MISSING, Flags, Ints, Piece, groups
from checkers.following.suspects import Recent, Row, Suspect, of_values
from checkers.history.history import INIT
from checkers.history.settings import FOREVER_NS

TAKE_OVERS = 10
"""How many producers of one transactional id are kept."""
VALUES = 1_000
"""How many values of one transaction are kept."""


class TransactionState:
    """The state; rows come in the order in which their writers recorded them."""

    def __init__(self, *, producers: int, limit: int) -> None:
        self._inits: Recent[str, list[Row]] = Recent(producers)
        self._fenced: Recent[int, str] = Recent(limit)
        self._aborted: Recent[int, dict[int, bool]] = Recent(limit)
        self._of_value: Recent[int, int] = Recent(limit)

    def size(self) -> int:
        """The number of entries."""
        lists = [*self._inits.values(), *self._aborted.values()]
        return sum(map(len, lists)) + len(self._fenced) + len(self._of_value)

    def fenced(self, piece: Piece, sends: Flags) -> Flags:
        """Add the producers that begin in a piece, and return which sends are of a producer that
        another one had fenced before."""
        for row in piece.rows(np.flatnonzero(piece.having("f", INIT))):
            if row["transactional_id"] is not None and row["type"] != "fail":
                known = self._inits.get(row["transactional_id"], [])
                self._inits[row["transactional_id"]] = [*known, row]
        ids = piece.words["transactional_id"].tolist()
        taken_over = np.array([len(self._inits.get(each, ())) > 1 for each in ids], np.bool_)
        found = np.zeros(len(piece), np.bool_)
        at = np.flatnonzero(sends & taken_over[piece["transactional_id"]])
        for key, rows in groups(piece["transactional_id"][at] << 32 | piece["client"][at]):
            mine, inits = at[rows], self._inits[ids[key >> 32]]
            found[mine] = _fenced(inits, key & 0xFFFF_FFFF, piece["invoke_ns"][mine])
        for inits in self._inits.values():
            del inits[:-TAKE_OVERS]
        return found

    def values(self) -> list[int]:
        """The values of fenced producers, and of transactions that are not committed."""
        return [*self._fenced, *self._of_value]

    def sent(self, row: Row, *, fenced: bool, seen: bool) -> Iterator[Suspect]:
        """Add a send in a transaction. fenced: its producer was; seen: its value was read."""
        value, txn = row["value"], row["txn"]
        if fenced:
            self._fenced[value] = row["transactional_id"]
            if seen:
                yield self._zombie(row)
        if row["type"] == "fail" and txn is not None:
            values = self._aborted.setdefault(txn, {})
            if len(values) < VALUES:
                values[value] = seen
                self._aborted[txn] = values
                self._of_value[value] = txn
            yield from self._false_abort(row, txn)

    def read(self, row: Row) -> Iterator[Suspect]:
        """Add a record that was read for the first time."""
        value = row["value"]
        if value in self._fenced:
            yield self._zombie(row)
        txn = self._of_value.get(value)
        if txn is not None and txn in self._aborted:
            self._aborted[txn][value] = True
            yield from self._false_abort(row, txn)

    def _zombie(self, row: Row) -> Suspect:
        found = of_values("zombie-write", row, row["value"])
        return found.about(transactional_id=self._fenced[row["value"]])

    def _false_abort(self, row: Row, txn: int) -> Iterator[Suspect]:
        values = self._aborted[txn]
        if values and all(values.values()):
            yield of_values("false-abort", row, *values).about(txn=txn)


def _fenced(inits: Sequence[Row], client: int, sent_ns: Ints) -> Flags:
    """Whether a client that sends at these times had been fenced: another producer began after its
    own beginning was over, and had begun before the send."""
    own = [row for row in inits if row["client"] == client]
    others = [row for row in inits if row["client"] != client and row["type"] == "ok"]
    own_ns = _greatest(
        [row["invoke_ns"] for row in own], list(map(_over_ns, own)), sent_ns, side="right"
    )
    other_ns = _greatest(
        list(map(_over_ns, others)), [row["invoke_ns"] for row in others], sent_ns, side="left"
    )
    fenced: Flags = (own_ns != MISSING) & (own_ns < other_ns)
    return fenced


def _greatest(
    times: Sequence[int], numbers: Sequence[int], until: Ints, *, side: Literal["left", "right"]
) -> Ints:
    """The greatest of the numbers whose times are before `until` (side right: or equal); MISSING
    without one."""
    order = np.argsort(times, kind="stable")
    greatest = np.maximum.accumulate([MISSING, *np.array(numbers, np.int64)[order]])
    found: Ints = greatest[np.searchsorted(np.array(times, np.int64)[order], until, side=side)]
    return found


def _over_ns(row: Row) -> int:
    complete_ns = row["complete_ns"] if row["type"] == "ok" else None
    return FOREVER_NS if complete_ns is None else int(complete_ns)
