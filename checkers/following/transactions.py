"""What is kept of transactions while a run goes on, and the suspects that it shows.

For every transactional id the last producers that took it over; the sends of fenced producers; the
values of transactions that are surely not committed. Each part is bounded and forgets its oldest
entries.
"""

from collections.abc import Iterator

from checkers.following.suspects import Recent, Row, Suspect, of_values
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

    def producer(self, row: Row) -> None:
        """Add a row init-producer."""
        if row["transactional_id"] is not None and row["type"] != "fail":
            known = self._inits.get(row["transactional_id"], [])
            self._inits[row["transactional_id"]] = [*known[-(TAKE_OVERS - 1) :], row]

    def concerns(self, send: Row) -> bool:
        """Whether a send may be suspect, or make another row suspect: it surely failed, or its
        transactional id was taken over."""
        if send["txn"] is None:
            return False
        return send["type"] == "fail" or len(self._inits.get(send["transactional_id"], ())) > 1

    def knows(self, value: int) -> bool:
        """Whether a value is of a fenced producer, or of a transaction that is not committed."""
        return value in self._fenced or value in self._of_value

    def sent(self, row: Row, *, seen: bool) -> Iterator[Suspect]:
        """Add a send in a transaction. seen: its value was read before."""
        value, txn = row["value"], row["txn"]
        if row["transactional_id"] is not None and self._is_fenced(row):
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

    def _is_fenced(self, send: Row) -> bool:
        inits = self._inits.get(send["transactional_id"], [])
        own = max(
            (
                _over_ns(r)
                for r in inits
                if r["client"] == send["client"] and r["invoke_ns"] <= send["invoke_ns"]
            ),
            default=None,
        )
        return own is not None and any(
            r["client"] != send["client"]
            and r["type"] == "ok"
            and own < r["invoke_ns"]
            and _over_ns(r) < send["invoke_ns"]
            for r in inits
        )

    def _zombie(self, row: Row) -> Suspect:
        found = of_values("zombie-write", row, row["value"])
        return found.about(transactional_id=self._fenced[row["value"]])

    def _false_abort(self, row: Row, txn: int) -> Iterator[Suspect]:
        values = self._aborted[txn]
        if values and all(values.values()):
            yield of_values("false-abort", row, *values).about(txn=txn)


def _over_ns(row: Row) -> int:
    complete_ns = row["complete_ns"] if row["type"] == "ok" else None
    return FOREVER_NS if complete_ns is None else int(complete_ns)
