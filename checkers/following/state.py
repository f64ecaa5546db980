"""The state that is kept of a history from segment to segment, and the suspects that it shows.

Rows come in the order in which their writers recorded them. The state has, for every producer, the
sequences that were read, as intervals; for every partition, the last offsets that were read, and
the acknowledged offsets that were not read yet; for every consumer, its position. Each part is
bounded and forgets its oldest entries. Then a suspect may be missed, but none is invented. A
suspect is not a verdict: it says where to look.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from checkers.detectors.durability import SEQUENCE_BITS
from checkers.detectors.outputs import OUTPUT, REREAD
from checkers.following.columns import rows_of
from checkers.following.groups import GroupState
from checkers.following.intervals import Intervals, Seen
from checkers.following.outputs import OutputState
from checkers.following.suspects import Recent, Row, Suspect, finding, of_offset, of_values
from checkers.following.transactions import TransactionState
from checkers.frames.ownership import ASSIGNED
from checkers.history.history import INIT

_OF_MEMBERS = (ASSIGNED, "poll", "offset-commit")

WRITES_PER_OFFSET = 3
"""How many writes are kept that were acknowledged at the same offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds of the state. offsets: per partition and kind; producers, consumers: per topic and
    per partition; intervals: per producer; groups: partitions of groups, in all."""

    offsets: int = 20_000
    producers: int = 1_000
    consumers: int = 100
    intervals: int = 1_000
    groups: int = 1_000


@dataclass(slots=True)
class _Partition:
    """The state of one partition. high: the greatest offset that was read. acked: the writes that
    were acknowledged beyond it, by offset (a second leader may use an offset again). last: the last
    sequence of each producer in the log."""

    read: Recent[int, int]
    acked: Recent[int, tuple[Row, ...]]
    positions: Recent[int, tuple[int, int] | None]
    last: Recent[int, int]
    high: int = -1

    def size(self) -> int:
        return len(self.read) + len(self.acked) + len(self.positions) + len(self.last)


@dataclass(slots=True)
class HistoryState:
    """The state. `take` adds rows and may be called any number of times; `size` counts entries."""

    limits: Limits = field(default_factory=Limits)
    _partitions: dict[tuple[str, int], _Partition] = field(default_factory=dict)
    _seen: dict[str, Recent[int, Intervals]] = field(default_factory=dict)
    _failed: dict[str, Recent[int, int | None]] = field(default_factory=dict)
    _transactions: TransactionState = field(init=False)
    _groups: GroupState = field(init=False)
    _outputs: OutputState | None = None

    def __post_init__(self) -> None:
        limits = self.limits
        self._transactions = TransactionState(producers=limits.producers, limit=limits.offsets)
        self._groups = GroupState(
            groups=limits.groups, offsets=limits.offsets, intervals=limits.intervals
        )

    def follow_program(self, program: Mapping[str, Any] | None) -> None:
        """Look at the output of the program that the plan tests, if it tests one. Programs change
        the rows of a database, so these show nothing before the end."""
        if program is not None and (program.get("sink") or {}).get("sql") is None:
            limits = self.limits
            self._outputs = OutputState(
                program,
                offsets=limits.offsets,
                producers=limits.producers,
                intervals=limits.intervals,
                lines=limits.groups,
            )

    def size(self) -> int:
        """The number of entries; bounded by the limits and the number of partitions."""
        seen = sum(len(each) for known in self._seen.values() for each in known.values())
        failed = sum(map(len, self._failed.values()))
        others = self._transactions.size() + self._groups.size()
        others += 0 if self._outputs is None else self._outputs.size()
        return seen + failed + others + sum(each.size() for each in self._partitions.values())

    def take(self, rows: pa.Table) -> Iterator[Suspect]:
        """Add rows (schema HISTORY, in the order of their recording) and yield suspects."""
        for row in rows_of(rows):
            yield from self._take(row)

    def settle(self) -> Iterator[Suspect]:
        """Yield the suspects that are known when the rows of all writers up to the last call are
        there. Call it after each round of `take`."""

        def records(topic: str, partition: int) -> Mapping[int, int]:
            held = self._partitions.get((topic, partition))
            return {} if held is None else held.read

        yield from self._groups.settle(records)

    def _take(self, row: Row) -> Iterator[Suspect]:
        f, ok = row["f"], row["type"] == "ok"
        if f == INIT:
            self._transactions.producer(row)
        if self._outputs is not None:
            yield from _of_program(self._outputs, row)
        if row["topic"] is None or row["partition"] is None:
            return
        if f == "send":
            if row["value"] is not None:
                yield from self._sent(row)
            if ok and row["offset"] is not None and row["acks"] != 0:
                if (lost := self._acknowledged(row)) is not None:
                    yield lost
            elif row["type"] == "fail" and row["value"] is not None:
                yield from self._surely_failed(row)
            return
        if ok and row["group"] is not None and f in _OF_MEMBERS:
            yield from self._of_member(row)
        if ok and f == "poll" and row["offset"] is not None:
            yield from self._polled(row)
        elif ok and f in ("assign", ASSIGNED):
            offset = row["offset"]
            known = offset is not None and offset >= 0
            positions = self._partition(row).positions
            positions[row["client"]] = (offset, row["op"]) if known else None

    def _sent(self, row: Row) -> Iterable[Suspect]:
        """Handle what a send is beside its record: a part of a transaction, or a copy."""
        if row["copies"] is None and not self._transactions.concerns(row):
            return ()
        return self._part_or_copy(row)

    def _part_or_copy(self, row: Row) -> Iterator[Suspect]:
        client, sequence = divmod(row["value"], 1 << SEQUENCE_BITS)
        seen = self._sequences(row["topic"], client).seen(sequence)
        if row["txn"] is not None:
            yield from self._transactions.sent(row, seen=seen)
        if row["copies"] is not None and row["type"] != "fail":
            yield from self._groups.copied(row, seen=seen)

    def _of_member(self, row: Row) -> Iterator[Suspect]:
        if row["f"] == ASSIGNED:
            yield from self._groups.assigned(row)
        elif row["offset"] is not None and row["f"] == "poll":
            yield from self._groups.delivered(row)
        elif row["offset"] is not None:
            yield from self._groups.committed(row)

    def _partition(self, row: Row) -> _Partition:
        key, limits = (row["topic"], row["partition"]), self.limits
        found = self._partitions.get(key)
        if found is None:
            found = self._partitions[key] = _Partition(
                read=Recent(limits.offsets),
                acked=Recent(limits.offsets),
                positions=Recent(limits.consumers),
                last=Recent(limits.producers),
            )
        return found

    def _sequences(self, topic: str, client: int) -> Intervals:
        """The sequences of a producer in a topic. It alternates between the partitions, so its
        sequences in one partition have gaps."""
        known = self._seen.get(topic)
        if known is None:
            known = self._seen[topic] = Recent(self.limits.producers)
        found = known.get(client)
        if found is None:
            found = known[client] = Intervals(self.limits.intervals)
        known.move_to_end(client)
        return found

    def _acknowledged(self, row: Row) -> Suspect | None:
        held, offset = self._partition(row), row["offset"]
        if offset > held.high:
            held.acked[offset] = (*held.acked.get(offset, ())[-(WRITES_PER_OFFSET - 1) :], row)
        elif held.read.get(offset, row["value"]) != row["value"]:
            return _lost(row)
        return None

    def _surely_failed(self, row: Row) -> Iterator[Suspect]:
        client, sequence = divmod(row["value"], 1 << SEQUENCE_BITS)
        if self._sequences(row["topic"], client).seen(sequence):
            yield of_values("aborted-read", row, row["value"]).about(txn=row["txn"])
        failed = self._failed.setdefault(row["topic"], Recent(self.limits.offsets))
        failed[row["value"]] = row["txn"]

    def _polled(self, row: Row) -> Iterator[Suspect]:
        held, offset, value = self._partition(row), row["offset"], row["value"]
        position = held.positions.get(row["client"])
        held.positions[row["client"]] = (offset + 1, row["op"])
        if position is not None and offset < position[0]:
            yield from _went_back(row, position)
        if value is None:
            yield of_offset("phantom", row)
        elif offset in held.read:
            if held.read[offset] != value:
                yield of_offset("inconsistent-offset", row)
        elif offset > held.high:
            if position is not None and held.acked and position[0] < offset:
                yield from _passed_over(held, position[0], row)
            yield from self._appeared(held, row)
        else:
            yield from self._aborted(row)

    def _aborted(self, row: Row) -> Iterator[Suspect]:
        """Handle a record that may have failed, also where earlier readers found no record."""
        failed, value = self._failed.get(row["topic"]), row["value"]
        if failed is not None and value in failed:
            yield of_values("aborted-read", row, value).about(txn=failed[value])

    def _appeared(self, held: _Partition, row: Row) -> Iterator[Suspect]:
        """Handle a record at an offset that was not read before."""
        offset, value = row["offset"], row["value"]
        held.high = offset
        held.read[offset] = value
        for each in held.acked.pop(offset, ()):
            if each["value"] != value:
                yield _lost(each)
        if self._transactions.knows(value):
            yield from self._transactions.read(row)
        if self._groups.knows_copy(value):
            yield from self._groups.read(row)
        client, sequence = divmod(value, 1 << SEQUENCE_BITS)
        yield from self._aborted(row)
        last = held.last.get(client, -1)
        if self._sequences(row["topic"], client).add(sequence) is Seen.AGAIN:
            yield of_values("duplicate", row, value)
        elif sequence < last:
            yield of_values("reordered-send", row, value, client << SEQUENCE_BITS | last)
        held.last[client] = max(last, sequence)


def _of_program(outputs: OutputState, row: Row) -> Iterator[Suspect]:
    """Handle what a row says of a tested program."""
    f = row["f"]
    if f == "send":
        yield from outputs.sent(row)
    elif f == OUTPUT:
        yield from outputs.element(row)
    elif f == REREAD:
        outputs.reread()


def _passed_over(held: _Partition, position: int, row: Row) -> Iterator[Suspect]:
    """Yield acknowledged offsets that a consumer skipped on its way up."""
    first = max(position, held.high + 1)
    if row["offset"] - first > len(held.acked):
        gone = [offset for offset in held.acked if first <= offset < row["offset"]]
    else:
        gone = [offset for offset in range(first, row["offset"]) if offset in held.acked]
    for offset in gone:
        yield from map(_lost, held.acked.pop(offset))


def _went_back(row: Row, position: tuple[int, int]) -> Iterator[Suspect]:
    expected, other_op = position
    # The records of one poll are ordered by offset.
    if row["offset"] < expected and row["op"] != other_op:
        evidence = {**row, "other_offset": expected, "other_op": other_op}
        yield finding("nonmonotonic-poll", evidence)


def _lost(row: Row) -> Suspect:
    return finding("lost-write" if row["txn"] is None else "torn-transaction", row)
