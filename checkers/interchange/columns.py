"""Rows under construction, a few bytes each: columns of numbers that become record batches.

An *entry* has the fields that the rows of one operation share, and the number of these rows. A
*record* has the fields of one row: its partition, value and offset. Entries come in any order and
are sorted by (turn, step); operations are numbered in that order.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from checkers.history.history import HISTORY

Partition: TypeAlias = tuple[str, int]
Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

NONE: Final = -(1 << 63)
"""No number."""

ENTRY: Final = (
    "turn", "step", "client", "f", "type", "invoke_ns", "complete_ns", "txn", "group", "error",
    "way_ns", "first", "count", "copies", "generation", "isolation", "transactional_id",
)  # fmt: skip
"""The columns of an entry. txn: 1 where the entries of its turn are one transaction. way_ns: since
when its client is on its way from the beginning. first, count: its records. The last ones are
columns of HISTORY, and NONE in most entries; copies: the place of the record that was copied."""

UNSAID_COLUMNS: Final = (NONE,) * 4
"""The last columns of an entry of which nothing is said but what every history says."""

_INT64: Final = pa.int64()

_WORDS: Final = ("f", "type", "group", "error", "transactional_id")
"""The columns of an entry that are texts."""

RECORD: Final = ("partition", "value", "offset")

BATCH_ENTRIES: Final = 1 << 16
"""That many entries become one record batch."""


@dataclass(slots=True)
class Words:
    """Texts by number; None is NONE."""

    numbers: dict[str, int] = field(default_factory=dict)

    def number(self, text: str | None) -> int:
        """The number of a text."""
        return NONE if text is None else self.numbers.setdefault(text, len(self.numbers))

    def texts(self, numbers: Numbers) -> pa.Array:
        """The texts of numbers."""
        known = pa.array([*self.numbers], pa.string())
        return known.take(pa.array(numbers, mask=numbers == NONE))


class Columns:
    """Entries and their records, and the words that they use."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        """words: some that have a number from the beginning."""
        self.words = Words({word: number for number, word in enumerate(words)})
        self.entries = array("q")
        self.partitions = array("q")
        self.values = array("q")
        self.offsets = array("q")

    def add(self, partitions: Iterable[int], values: Iterable[int], offsets: Iterable[int]) -> None:
        """Records; as many of each."""
        self.partitions.extend(partitions)
        self.values.extend(values)
        self.offsets.extend(offsets)

    def join(self, begin: int) -> None:
        """All entries from a place in `entries` on are of one transaction."""
        for at in range(begin + ENTRY.index("txn"), len(self.entries), len(ENTRY)):
            self.entries[at] = 1

    def table(self) -> "Entries":
        """What there is, in order; nothing may be added any more."""
        entries = np.frombuffer(self.entries, np.int64).reshape(-1, len(ENTRY))
        order = np.lexsort((entries[:, 1], entries[:, 0]))
        return Entries(
            words=self.words,
            columns={name: entries[order, at] for at, name in enumerate(ENTRY)},
            records={
                name: np.frombuffer(column, np.int64)
                for name, column in zip(
                    RECORD, (self.partitions, self.values, self.offsets), strict=True
                )
            },
        )


@dataclass(slots=True, kw_only=True)
class Entries:
    """Entries in order, and records, as columns of ENTRY and RECORD."""

    words: Words
    columns: dict[str, Numbers]
    records: dict[str, Numbers]

    def __getitem__(self, name: str) -> Numbers:
        return self.columns[name]

    def are(self, **words: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which entries have these words."""
        found = np.ones(len(self["turn"]), dtype=np.bool_)
        for name, word in words.items():
            found &= self[name] == self.words.number(word)
        return found

    def keep(self, those: np.ndarray[Any, np.dtype[np.bool_]]) -> "Entries":
        """Only those."""
        columns = {name: column[those] for name, column in self.columns.items()}
        return Entries(words=self.words, columns=columns, records=self.records)

    def numbered(self) -> tuple[Numbers, Numbers]:
        """The number of each entry's operation, from 1, and of its transaction or NONE."""
        turns, steps = self["turn"], self["step"]
        if not len(turns):
            return turns, turns
        new_turn = np.diff(turns, prepend=turns[0] - 1) != 0
        new = new_turn | (np.diff(steps, prepend=steps[0]) != 0)
        numbers = np.cumsum(new)
        first = np.maximum.accumulate(np.where(new_turn, np.arange(len(turns)), 0))
        return numbers, np.where(self["txn"] == 1, numbers[first], NONE)

    def owners(self, entries: Numbers) -> tuple[Numbers, Numbers]:
        """For some entries, by their places: of each record its entry's place, and its own."""
        counts = self["count"][entries]
        owner = np.repeat(entries, counts)
        before = np.repeat(np.cumsum(counts) - counts, counts)
        place = self["first"][owner] + np.arange(len(owner)) - before
        return owner, place

    def batches(self, places: "Places", *, after_op: int = 0) -> Iterator[pa.RecordBatch]:
        """Record batches of HISTORY, with operations numbered from `after_op` on."""
        ops, txns = self.numbered()
        numbers = ops + after_op, np.where(txns == NONE, NONE, txns + after_op)
        for begin in range(0, len(ops), BATCH_ENTRIES):
            entries = np.arange(begin, min(begin + BATCH_ENTRIES, len(ops)))
            owner, place = self.owners(entries)
            made = self._made(owner, place, numbers, places)
            yield pa.record_batch([*made], schema=HISTORY)

    def _made(
        self,
        owner: Numbers,
        place: Numbers,
        numbers: tuple[Numbers, Numbers],
        of: "Places",
    ) -> Iterator[pa.Array]:
        """The columns of HISTORY for some records."""
        partition = self.records["partition"][place]
        sends = self.are(f="send")[owner]
        acks = np.where(sends, of.acks, NONE)
        made: Mapping[str, pa.Array] = {
            "op": pa.array(numbers[0][owner]),
            "client": self._numbers(self["client"][owner], pa.int32()),
            "invoke_ns": pa.array(self["invoke_ns"][owner]),
            "complete_ns": self._numbers(self["complete_ns"][owner]),
            "topic": of.topics.take(pa.array(partition, mask=partition == NONE)),
            "partition": of.numbers.take(pa.array(partition, mask=partition == NONE)),
            "value": self._numbers(self.records["value"][place]),
            "offset": self._numbers(self.records["offset"][place]),
            "acks": self._numbers(acks, pa.int8()),
            "copies": self._numbers(self._copied(self["copies"][owner])),
            "generation": self._numbers(self["generation"][owner], pa.int32()),
            "isolation": self._numbers(self["isolation"][owner], pa.int8()),
            "txn": self._numbers(numbers[1][owner]),
        }
        for column in HISTORY:
            if column.name in _WORDS:
                yield self.words.texts(self[column.name][owner])
            elif column.name in made:
                yield made[column.name]
            else:
                yield pa.nulls(len(owner), column.type)

    def _copied(self, places: Numbers) -> Numbers:
        """The values of the records at some places, or NONE."""
        there = places != NONE
        found = np.full(len(places), NONE)
        found[there] = self.records["value"][places[there]]
        return found

    @staticmethod
    def _numbers(column: Numbers, kind: pa.DataType = _INT64) -> pa.Array:
        absent = column == NONE
        return pa.array(np.where(absent, 0, column), mask=absent).cast(kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """What the numbers of partitions stand for, and how their sends were to be acknowledged."""

    topics: pa.Array
    numbers: pa.Array
    acks: int

    @classmethod
    def of(cls, partitions: Iterable[Partition], acks: int) -> "Places":
        """Partitions by their place."""
        listed = list(partitions)
        return cls(
            topics=pa.array([topic for topic, _ in listed], pa.string()),
            numbers=pa.array([number for _, number in listed], pa.int32()),
            acks=acks,
        )
