"""The rows that following looks at, a column at a time.

A piece of a history is judged as arrays: whole numbers, and texts by their codes. Only the few rows
that need a closer look become mappings.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from checkers.detectors.outputs import OUTPUT, REREAD
from checkers.following.suspects import Row
from checkers.frames.ownership import ASSIGNED
from checkers.history.history import ENDS, INIT

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Words = npt.NDArray[np.object_]
Partition = tuple[str, int]
"""Topic and number."""

COLUMNS = (
    "f", "type", "op", "client", "invoke_ns", "complete_ns", "topic", "partition", "value",
    "offset", "leader_epoch", "acks", "node", "txn", "group", "generation", "transactional_id",
    "copies", "error", "isolation",
)  # fmt: skip
KINDS = (INIT, *ENDS, "send", "poll", "assign", ASSIGNED, "offset-commit", OUTPUT, REREAD)
"""The kinds of rows of a history that the state is made of."""
AT_A_TIME = 100_000
"""How many rows are converted at once."""
MISSING: Final = int(np.iinfo(np.int64).min)
"""Stands for null. It is less than every number of a history."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of KINDS in the order of their recording. numbers: by column; of a text its code, the
    place in the column's `words`. place: the partition of every row, as its place in `partitions`
    (topic, partition); -1 without one."""

    numbers: Mapping[str, Ints]
    words: Mapping[str, Words]
    place: Ints
    partitions: Sequence[Partition]

    def __len__(self) -> int:
        return len(self.numbers["op"])

    def __getitem__(self, name: str) -> Ints:
        return self.numbers[name]

    def known(self, name: str) -> Flags:
        """Where a column is not null."""
        null = len(self.words[name]) - 1 if name in self.words else MISSING
        known: Flags = self[name] != null
        return known

    def having(self, name: str, *texts: str) -> Flags:
        """Where a column of texts has one of these."""
        wanted = np.array([word in texts for word in self.words[name]], np.bool_)
        return wanted[self[name]]

    def rows(self, at: Ints) -> Iterator[Row]:
        """Yield the rows at these places as mappings, with the columns COLUMNS."""
        columns = [self._values(name, at) for name in COLUMNS]
        for values in zip(*columns, strict=True):
            yield dict(zip(COLUMNS, values, strict=True))

    def _values(self, name: str, at: Ints) -> list[Any]:
        chosen = self[name][at]
        if name in self.words:
            texts: list[Any] = self.words[name][chosen].tolist()
            return texts
        return whole_numbers(chosen)


def whole_numbers(column: Ints) -> list[Any]:
    """Return the numbers of a column; None for MISSING."""
    missing = column == MISSING
    if not missing.any():
        numbers: list[Any] = column.tolist()
        return numbers
    known = column.astype(object)
    known[missing] = None
    values: list[Any] = known.tolist()
    return values


def pieces_of(table: pa.Table, *, at_a_time: int = AT_A_TIME) -> Iterator[Piece]:
    """Yield the rows of KINDS of a table of HISTORY, in order, so many at a time."""
    table = table.select(list(COLUMNS))
    wanted = table.filter(pc.is_in(table["f"], value_set=pa.array(KINDS, pa.string())))
    for start in range(0, wanted.num_rows, at_a_time):
        part = wanted.slice(start, at_a_time)
        numbers, words = {}, {}
        for name in COLUMNS:
            column = part[name].combine_chunks()
            if not pa.types.is_integer(column.type):
                column, words[name] = _coded(column)
            numbers[name] = _numbers(column)
        yield Piece(
            numbers, words, *_placed(numbers["topic"], numbers["partition"], words["topic"])
        )


def _placed(topic: Ints, partition: Ints, words: Words) -> tuple[Ints, list[Partition]]:
    place = np.full(len(topic), -1)
    at = np.flatnonzero((topic != len(words) - 1) & (partition != MISSING))
    codes, place[at] = np.unique(topic[at] << 32 | partition[at], return_inverse=True)
    return place, [(words[code >> 32], code & 0xFFFF_FFFF) for code in codes.tolist()]


def _coded(column: pa.Array) -> tuple[pa.Array, Words]:
    """The codes of a column of texts, and the texts; the last one is None."""
    encoded = column.dictionary_encode()
    words = np.array([*encoded.dictionary.to_pylist(), None], dtype=object)
    return pc.fill_null(encoded.indices, len(words) - 1), words


def _numbers(column: pa.Array) -> Ints:
    wide = column.cast(pa.int64())
    if wide.null_count:
        wide = pc.fill_null(wide, MISSING)
    numbers: Ints = wide.to_numpy(zero_copy_only=False)
    return numbers


def groups(keys: Ints) -> Iterator[tuple[int, Ints]]:
    """Yield each key and the places where it stands, in order."""
    if not len(keys):
        return
    order = np.argsort(keys, kind="stable")
    bounds = np.flatnonzero(np.diff(keys[order])) + 1
    for places in np.split(order, bounds):
        yield int(keys[places[0]]), places


def found_in(ordered: Ints, numbers: Ints) -> tuple[Flags, Ints]:
    """Whether numbers are among those in ascending order, and the place where they first are."""
    at = np.searchsorted(ordered, numbers)
    if not len(ordered):
        return np.zeros(len(numbers), np.bool_), at
    return ordered[np.minimum(at, len(ordered) - 1)] == numbers, at
