"""The state that is kept of a history from segment to segment, and the suspects that it shows.

Rows come in the order in which their writers recorded them. The state has, for every producer, the
sequences that were read, as intervals; for every partition, the last offsets that were read, and
the acknowledged offsets that were not read yet; for every consumer, its position. Each part is
bounded and forgets its oldest entries. Then a suspect may be missed, but none is invented. A
suspect is not a verdict: it says where to look.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

import pyarrow as pa

from checkers.detectors.durability import SEQUENCE_BITS
from checkers.following.intervals import Intervals, Seen

K = TypeVar("K")
V = TypeVar("V")

Row: TypeAlias = Mapping[str, Any]
"""A row of a history by column."""

COLUMNS = (
    "f", "type", "op", "client", "invoke_ns", "complete_ns", "topic", "partition", "value",
    "offset", "leader_epoch", "acks", "node",
)  # fmt: skip


WRITES_PER_OFFSET = 3
"""How many writes are kept that were acknowledged at the same offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds of the state. offsets: per partition and kind; producers, consumers: per topic and
    per partition; intervals: per producer."""

    offsets: int = 20_000
    producers: int = 1_000
    consumers: int = 100
    intervals: int = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A suspect: values, the record at an offset, or (evidence) a complete finding."""

    kind: str
    topic: str
    partition: int
    values: tuple[int, ...] = ()
    offset: int | None = None
    evidence: Row | None = None


class Recent(OrderedDict[K, V], Generic[K, V]):
    """The entries that were set last, at most `limit`."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._limit:
            self.popitem(last=False)


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
    _failed: dict[str, Recent[int, None]] = field(default_factory=dict)

    def size(self) -> int:
        """The number of entries; bounded by the limits and the number of partitions."""
        seen = sum(len(each) for known in self._seen.values() for each in known.values())
        failed = sum(map(len, self._failed.values()))
        return seen + failed + sum(each.size() for each in self._partitions.values())

    def take(self, rows: pa.Table) -> Iterator[Suspect]:
        """Add rows (schema HISTORY, in the order of their recording) and yield suspects."""
        for batch in rows.select(list(COLUMNS)).to_batches(max_chunksize=10_000):
            for row in batch.to_pylist():
                yield from self._take(row)

    def _take(self, row: Row) -> Iterator[Suspect]:
        if row["topic"] is None or row["partition"] is None:
            return
        match row["f"], row["type"]:
            case "send", "ok" if row["offset"] is not None and row["acks"] != 0:
                yield from self._acknowledged(row)
            case "send", "fail" if row["value"] is not None:
                yield from self._surely_failed(row)
            case "poll", "ok" if row["offset"] is not None:
                yield from self._polled(row)
            case "assign" | "assigned", "ok":
                offset = row["offset"]
                known = offset is not None and offset >= 0
                positions = self._partition(row).positions
                positions[row["client"]] = (offset, row["op"]) if known else None
            case _:
                return

    def _partition(self, row: Row) -> _Partition:
        key, limits = (row["topic"], row["partition"]), self.limits
        if key not in self._partitions:
            self._partitions[key] = _Partition(
                read=Recent(limits.offsets),
                acked=Recent(limits.offsets),
                positions=Recent(limits.consumers),
                last=Recent(limits.producers),
            )
        return self._partitions[key]

    def _sequences(self, topic: str, client: int) -> Intervals:
        """The sequences of a producer in a topic. It alternates between the partitions, so its
        sequences in one partition have gaps."""
        known = self._seen.setdefault(topic, Recent(self.limits.producers))
        if client not in known:
            known[client] = Intervals(self.limits.intervals)
        known.move_to_end(client)
        return known[client]

    def _acknowledged(self, row: Row) -> Iterator[Suspect]:
        held, offset = self._partition(row), row["offset"]
        if offset > held.high:
            held.acked[offset] = (*held.acked.get(offset, ())[-(WRITES_PER_OFFSET - 1) :], row)
        elif held.read.get(offset, row["value"]) != row["value"]:
            yield _lost(row)

    def _surely_failed(self, row: Row) -> Iterator[Suspect]:
        client, sequence = divmod(row["value"], 1 << SEQUENCE_BITS)
        if self._sequences(row["topic"], client).seen(sequence):
            yield _of_values("aborted-read", row, row["value"])
        failed = self._failed.setdefault(row["topic"], Recent(self.limits.offsets))
        failed[row["value"]] = None

    def _polled(self, row: Row) -> Iterator[Suspect]:
        held, offset, value = self._partition(row), row["offset"], row["value"]
        position = held.positions.get(row["client"])
        held.positions[row["client"]] = (offset + 1, row["op"])
        if position is not None:
            yield from _went_back(row, position)
        if value is None:
            yield _of_offset("phantom", row)
        elif offset in held.read:
            if held.read[offset] != value:
                yield _of_offset("inconsistent-offset", row)
        elif offset > held.high:
            if position is not None:
                yield from _passed_over(held, position[0], row)
            yield from self._appeared(held, row)

    def _appeared(self, held: _Partition, row: Row) -> Iterator[Suspect]:
        """Handle a record at an offset that was not read before."""
        offset, value = row["offset"], row["value"]
        held.high = offset
        held.read[offset] = value
        yield from (_lost(each) for each in held.acked.pop(offset, ()) if each["value"] != value)
        client, sequence = divmod(value, 1 << SEQUENCE_BITS)
        if value in self._failed.get(row["topic"], ()):
            yield _of_values("aborted-read", row, value)
        last = held.last.get(client, -1)
        if self._sequences(row["topic"], client).add(sequence) is Seen.AGAIN:
            yield _of_values("duplicate", row, value)
        elif sequence < last:
            yield _of_values("reordered-send", row, value, client << SEQUENCE_BITS | last)
        held.last[client] = max(last, sequence)


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
        yield _finding("nonmonotonic-poll", evidence)


def _lost(row: Row) -> Suspect:
    return _finding("lost-write", row)


def _finding(kind: str, evidence: Row) -> Suspect:
    at = {"topic": evidence["topic"], "partition": evidence["partition"]}
    return Suspect(kind=kind, evidence=evidence, **at)


def _of_values(kind: str, row: Row, *values: int) -> Suspect:
    return Suspect(kind=kind, topic=row["topic"], partition=row["partition"], values=values)


def _of_offset(kind: str, row: Row) -> Suspect:
    offset = row["offset"]
    return Suspect(kind=kind, topic=row["topic"], partition=row["partition"], offset=offset)
