"""The last value of each key, as its producer knows, is what a reader of a compacted topic sees.

Each key has one producer, which writes it in transactions, one after the other. A transaction of
unknown end leaves two values possible: its own, and the one before. A deletion is the value None,
and means the same as a key that was never written.

A replica that lags for longer than delete.retention.ms misses the deletions that were compacted
away meanwhile, and the values before them that it did not have yet. When it leads, the keys have
earlier values again; Kafka has the same limit. So if deletions do not stay for the whole run, a key
that was deleted may have any of its earlier values. Such a replica may miss that a transaction was
aborted, too: the producer's next marker ends the transaction there. Then its values are possible
until a later one is committed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.transactions import End

NAME = "compacted-values-stay"

Value = bytes | None


@dataclass(slots=True)
class KeyedTransaction:
    """One transaction; `end` is UNKNOWN from the first attempt to commit until it is known."""

    values: dict[bytes, Value] = field(default_factory=dict)
    end: End = End.ABORTED


class KeyedValues:
    """All that was written to one topic. deletions_stay: no deletion, and no end of a
    transaction, is compacted away in this run. ends_stay: or what is left of an end keeps its
    producer, so that it still ends the transaction of a replica that lagged."""

    def __init__(self, *, deletions_stay: bool = True, ends_stay: bool = True) -> None:
        self._deletions_stay = deletions_stay
        self.ends_stay = ends_stay
        self.begun: list[KeyedTransaction] = []
        self._written = 0

    def begin(self) -> KeyedTransaction:
        """Return a new transaction. It counts as aborted until somebody tries to commit it."""
        self.begun.append(KeyedTransaction())
        return self.begun[-1]

    def next_value(self) -> bytes:
        """Return a value that was not written before."""
        self._written += 1
        return b"%d" % self._written

    def keys(self) -> list[bytes]:
        """Return all keys that were written."""
        return sorted({key for each in self.begun for key in each.values})

    def possible(self, key: bytes) -> list[Value]:
        """Return the values that a key may have, the last written one first."""
        found: list[Value] = []
        for each in reversed(self.begun):
            if key in each.values and (each.end is not End.ABORTED or not self._deletions_stay):
                found.append(each.values[key])
                stays = self._deletions_stay or None not in found
                if each.end is End.COMMITTED and stays:
                    return found
        return [*found, None]

    def check(self, seen: Mapping[bytes, Value]) -> None:
        """Judge the last value that a reader saw of each key. Raises InvariantBroken."""
        for key in self._all(seen):
            allowed = self.possible(key)
            if seen.get(key) not in allowed:
                raise InvariantBroken(
                    NAME, f"key {key!r} has the value {seen.get(key)!r}, not one of {allowed}"
                )

    def _all(self, seen: Iterable[bytes]) -> list[bytes]:
        return sorted({*self.keys(), *seen})
