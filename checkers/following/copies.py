"""What is kept of the copies that groups make, and the suspects that it shows.

For the records that were delivered to a group: their places, by value. For every copy that was
sent: the record that it was made from. For every record: the copy of it that was read. Each part is
bounded and forgets its oldest entries.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from checkers.following.columns import (
    MISSING,
    Flags,
    Ints,
    Partition,
    Piece,
    Words,
    found_in,
    groups,
)
from checkers.following.producers import ProducerState
from checkers.following.recent_rows import RecentRows
from checkers.following.suspects import Recent, Suspect, of_values

_PARTITION_BITS = 21
"""Partitions are numbered in the order in which a history names them."""


class CopyState:
    """The state. offsets: how many records and copies are kept; groups: how many lines from a
    partition to a partition."""

    def __init__(self, *, groups: int, offsets: int) -> None:
        self._groups: dict[str | None, int] = {}
        self._partitions: dict[Partition, int] = {}
        self._sources = RecentRows(offsets, 2)
        """Partition and offset of delivered records, by group and value."""
        self._copies = RecentRows(offsets, 2)
        """Group and copied value, by the value of the copy."""
        self._copied = RecentRows(offsets, 0)
        """What was copied, by group and value."""
        self._visible = RecentRows(offsets, 1)
        """The copy that was read first, by group and copied value."""
        self._lines: Recent[int, tuple[int, int, int, int]] = Recent(groups)
        """The last copy in the log: its offset, that of the copied record, and both values."""
        self._examples: Recent[tuple[str, str], int] = Recent(groups)
        """The value of a record that the group copied, by group and topic."""

    def size(self) -> int:
        """The number of entries."""
        tables = (self._sources, self._copies, self._copied, self._visible)
        return sum(map(len, tables)) + len(self._lines) + len(self._examples)

    def example(self, group: str, topic: str) -> int | None:
        """The value of a record of the topic that the group copied."""
        return self._examples.get((group, topic))

    def known(self, group: str, values: Ints) -> Flags:
        """Which values the group copied, as far as is known before the piece is forgotten."""
        known, _ = self._copied.find(np.full(len(values), self._groups.get(group, -1)), values)
        return known

    def take(
        self, piece: Piece, delivered: Ints, new: Flags, producers: ProducerState
    ) -> Iterator[Suspect]:
        """Add the rows of a piece. delivered: the rows of records that a member got for the first
        time; new: records that were read for the first time at their offset; producers: as they
        were before this piece."""
        group = self._numbers_of_groups(piece.words["group"])[piece["group"]]
        place = self._numbers_of(piece.partitions)[piece.place]
        sent = np.flatnonzero(
            (piece.place >= 0)
            & piece.having("f", "send")
            & piece.known("value")
            & piece.known("copies")
            & ~piece.having("type", "fail")
        )
        value, copied = piece["value"], piece["copies"]
        self._sources.add(
            delivered, group[delivered], value[delivered], place[delivered],
            piece["offset"][delivered],
        )  # fmt: skip
        self._copies.add(sent, np.zeros_like(sent), value[sent], group[sent], copied[sent])
        self._copied.add(sent, group[sent], copied[sent])
        self._remember_examples(piece, sent, group)
        seen = sent[_seen(piece, sent, np.flatnonzero(new), producers)]
        read, of_group, of_value = self._copies_that_are_read(piece, np.flatnonzero(new))
        at = np.concatenate((seen, read))
        order = np.argsort(at)
        shown = _Shown(
            at[order],
            np.concatenate((group[seen], of_group))[order],
            np.concatenate((copied[seen], of_value))[order],
        )
        yield from self._look(piece, shown, place)

    def forget(self) -> None:
        """End a piece."""
        for table in (self._sources, self._copies, self._copied, self._visible):
            table.forget()

    def _numbers_of_groups(self, words: Words) -> Ints:
        numbers = [self._groups.setdefault(word, len(self._groups)) for word in words]
        return np.array(numbers, np.int64)

    def _numbers_of(self, partitions: Sequence[Partition]) -> Ints:
        """The numbers of partitions; the last one stands for rows without a partition."""
        known = self._partitions
        return np.array([*(known.setdefault(each, len(known)) for each in partitions), -1])

    def _remember_examples(self, piece: Piece, sent: Ints, group: Ints) -> None:
        """Remember one copied record of every group and topic."""
        known, source = self._sources.find(group[sent], piece["copies"][sent])
        topics = [topic for topic, _ in self._partitions]
        number = np.array([topics.index(topic) for topic in topics], np.int64)
        sent, of_topic = sent[known], number[source[known, 1]]
        for code, rows in groups(group[sent] << _PARTITION_BITS | of_topic):
            at, topic = sent[rows[-1]], topics[code & (1 << _PARTITION_BITS) - 1]
            name = piece.words["group"][piece["group"][at]]
            self._examples[name, topic] = int(piece["copies"][at])

    def _copies_that_are_read(self, piece: Piece, at: Ints) -> tuple[Ints, Ints, Ints]:
        """The records at these rows that are copies whose sends were recorded before: their rows,
        and of each the group and the copied value."""
        known, copies = self._copies.find(np.zeros_like(at), piece["value"][at])
        known &= copies[:, 0] < at
        return at[known], copies[known, 1], copies[known, 2]

    def _look(self, piece: Piece, shown: "_Shown", place: Ints) -> Iterator[Suspect]:
        """Compare copies that are in the log with those that were there before."""
        value, named = piece["value"][shown.at], {n: name for name, n in self._groups.items()}
        first = self._first(shown, value)
        for each in np.flatnonzero(first != value).tolist():
            row = next(piece.rows(shown.at[each : each + 1]))
            copied = int(shown.copied[each])
            found = of_values("copied-twice", row, int(first[each]), row["value"], copied)
            yield found.about(group=named[int(shown.group[each])])
        known, source = self._sources.find(shown.group, shown.copied)
        offset = piece["offset"][shown.at]
        kept = np.flatnonzero(known & (first == value) & (offset != MISSING))
        line = (shown.group << _PARTITION_BITS | source[:, 1]) << _PARTITION_BITS
        line |= place[shown.at]
        here = np.column_stack((offset, source[:, 2], value, shown.copied))
        for key, rows in groups(line[kept]):
            mine = kept[rows]
            for each, other in self._out_of_order(key, here[mine]):
                row = next(piece.rows(shown.at[mine[each : each + 1]]))
                found = of_values(
                    "copied-out-of-order", row, *other, *here[mine[each], 2:].tolist()
                )
                yield found.about(group=named[int(shown.group[mine[each]])])

    def _first(self, shown: "_Shown", value: Ints) -> Ints:
        """The copy of the same record that was read first."""
        known, visible = self._visible.find(shown.group, shown.copied)
        first = np.where(known, visible[:, 1], value)
        for _, rows in groups(shown.group):
            fresh = rows[~known[rows]]
            _, begin, same = np.unique(shown.copied[fresh], return_index=True, return_inverse=True)
            first[fresh] = value[fresh[begin]][same]
            kept = fresh[begin]
            self._visible.add(shown.at[kept], shown.group[kept], shown.copied[kept], value[kept])
        return first

    def _out_of_order(self, line: int, here: Ints) -> Iterator[tuple[int, tuple[int, int]]]:
        """Add copies in the order in which they were read. Yield the places of those that are out
        of order, and the values of the copy that comes before or behind and of its record."""
        last = self._lines.get(line)
        carried = here[:1] if last is None else np.array([last])
        line_of = np.concatenate((carried, here))
        # The copy with the greatest offset so far, for each.
        greatest = np.maximum.accumulate(line_of[:, 0])
        standing = np.where(line_of[:, 0] == greatest, np.arange(len(line_of)), 0)
        before = line_of[np.maximum.accumulate(standing)[:-1]]
        turned = (before[:, 0] < here[:, 0]) != (before[:, 1] < here[:, 1])
        for each in np.flatnonzero(turned).tolist():
            yield each, (int(before[each, 2]), int(before[each, 3]))
        best = line_of[np.maximum.accumulate(standing)[-1]]
        self._lines[line] = (int(best[0]), int(best[1]), int(best[2]), int(best[3]))


@dataclass(frozen=True, slots=True)
class _Shown:
    """Copies that are in the log, in the order in which this is known. at: the row of the record,
    or of the send if the record was read before; group, copied: of what it is a copy."""

    at: Ints
    group: Ints
    copied: Ints


def _seen(piece: Piece, sent: Ints, read: Ints, producers: ProducerState) -> Flags:
    """Which sends have values that were read before, in earlier pieces or in this one."""
    seen = np.zeros(len(sent), np.bool_)
    for code, rows in groups(piece["topic"][sent]):
        value = piece["value"][sent[rows]]
        mine = read[piece["topic"][read] == code]
        values = piece["value"][mine]
        order = np.argsort(values, kind="stable")
        known, first = found_in(values[order], value)
        earlier = np.append(mine[order], len(piece))[first] < sent[rows]
        seen[rows] = known & earlier | producers.all_seen(piece.words["topic"][code], value)
    return seen
