"""Rows that are looked at one by one: what concerns failed or fenced sends, or a program.

Of all sends and records only these are relevant here: sends that surely failed, or that a fenced
producer made; and records with the value of such a send.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from checkers.detectors.outputs import OUTPUT, REREAD
from checkers.following.columns import Flags, Ints, Piece, found_in
from checkers.following.outputs import OutputState
from checkers.following.producers import ProducerState
from checkers.following.suspects import Recent, Row, Suspect, of_values
from checkers.following.transactions import TransactionState


class SingleRows:
    """The state that such rows make. The limits are those of `state.Limits`."""

    def __init__(self, *, offsets: int, producers: int, intervals: int, lines: int) -> None:
        self._offsets = offsets
        self._failed: dict[str, Recent[int, int | None]] = {}
        """The transactions of values that surely failed, by topic and value."""
        self._transactions = TransactionState(producers=producers, limit=offsets)
        self._outputs: OutputState | None = None
        self._limits = {
            "offsets": offsets, "producers": producers, "intervals": intervals, "lines": lines,
        }  # fmt: skip

    def follow_program(self, program: Mapping[str, Any]) -> None:
        """Look at the output of this program, too."""
        self._outputs = OutputState(program, **self._limits)

    def size(self) -> int:
        """The number of entries."""
        outputs = 0 if self._outputs is None else self._outputs.size()
        failed = sum(map(len, self._failed.values()))
        return self._transactions.size() + outputs + failed

    def take(
        self, piece: Piece, new: Flags, unexplained: Flags, producers: ProducerState
    ) -> Iterator[Suspect]:
        """Add the rows of a piece. new: records that were read for the first time at their offset;
        unexplained: those, and others that were not read there before. producers: as they were
        before this piece."""
        sends = (piece.place >= 0) & piece.having("f", "send") & piece.known("value")
        fenced = self._transactions.fenced(piece, sends & piece.known("txn"))
        told = sends & (fenced | piece.having("type", "fail"))
        chosen = told.copy()
        chosen[unexplained] |= self._concerns(piece["value"][unexplained], piece["value"][told])
        if self._outputs is not None:
            chosen |= piece.having("f", "send", OUTPUT, REREAD)
        at = np.flatnonzero(chosen)
        shown: set[tuple[str, int]] = set()
        for place, row in zip(at.tolist(), piece.rows(at), strict=True):
            if self._outputs is not None:
                yield from _of_program(self._outputs, row)
            topic, value = row["topic"], row["value"]
            if told[place]:
                seen = (topic, value) in shown or producers.seen(topic, value)
                yield from self._sent(row, fenced=bool(fenced[place]), seen=seen)
            if unexplained[place]:
                if new[place]:
                    shown.add((topic, value))
                    yield from self._transactions.read(row)
                yield from self._aborted(row)

    def _concerns(self, values: Ints, sent: Ints) -> Flags:
        """Whether values are of sends that are known here, or of these."""
        failed = [value for known in self._failed.values() for value in known]
        known = [*failed, *self._transactions.values()]
        found, _ = found_in(np.sort(np.concatenate((np.array(known, np.int64), sent))), values)
        return found

    def _sent(self, row: Row, *, fenced: bool, seen: bool) -> Iterator[Suspect]:
        """Add a send. fenced: its producer was; seen: its value was read before."""
        if row["txn"] is not None:
            yield from self._transactions.sent(row, fenced=fenced, seen=seen)
        if row["type"] == "fail":
            if seen:
                yield of_values("aborted-read", row, row["value"]).about(txn=row["txn"])
            failed = self._failed.setdefault(row["topic"], Recent(self._offsets))
            failed[row["value"]] = row["txn"]

    def _aborted(self, row: Row) -> Iterator[Suspect]:
        """Handle a record that may have failed."""
        failed, value = self._failed.get(row["topic"]), row["value"]
        if failed is not None and value in failed:
            yield of_values("aborted-read", row, value).about(txn=failed[value])


def _of_program(outputs: OutputState, row: Row) -> Iterator[Suspect]:
    """Handle what a row says of a tested program."""
    f = row["f"]
    if f == "send":
        yield from outputs.sent(row)
    elif f == OUTPUT:
        yield from outputs.element(row)
    elif f == REREAD:
        outputs.reread()
