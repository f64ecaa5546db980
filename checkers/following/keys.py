"""What is kept of the keys of compacted topics, and the suspects that passes show.

For every partition: the acknowledged offsets of each key, as far as it matters when they were
acknowledged; the last offset of each key that a whole pass was given; what the passes under way,
and the last whole passes, were given. Each part is bounded and forgets its oldest entries.

Two passes in a row are compared when a third one has begun, and every operation of the writer is
recorded that had begun by then. So the outcome of every write that had begun before the second pass
ended is recorded, and only records that both passes really missed are suspects.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.following.columns import Partition
from checkers.following.intervals import Intervals
from checkers.following.suspects import Recent, Row, Suspect
from checkers.history.history import KEYED_DELETE, KEYED_PASS, KEYED_POLL, KEYED_WRITE, OP_BITS

OF_KEYS: Final = "keyed-pass"
"""The kind of suspects that several passes show: the detectors say what they are."""
OF_RECORDS: Final = "keyed-poll"
"""The kind of suspects that one record shows, which a pass was given."""
OUTSTANDING: Final = 10_000
"""How many operations without an outcome, or runs of them, are known of a writer."""
WRITES: Final = 100
"""How many writes of a key are kept between two passes."""
UNDER_WAY: Final = 4
"""How many passes of a partition are kept that are not over."""
PASSES: Final = 30
"""How many passes of a partition are kept that wait for operations without an outcome."""

_COLUMNS = (
    "f", "type", "op", "invoke_ns", "complete_ns", "topic", "partition", "value", "offset", "error",
    "key",
)  # fmt: skip
_WRITES = (KEYED_WRITE, KEYED_DELETE)
Records = dict[int, tuple[int, int | None]]
"""Key and value by offset."""


@dataclass(slots=True)
class _Pass:
    """A pass: what it was given, by offset, and how far it came."""

    op: int
    began_ns: int
    ended_ns: int
    reached: int
    records: Records

    def last(self) -> dict[int, int]:
        """The last offset of each key."""
        return {key: offset for offset, (key, _) in sorted(self.records.items())}


@dataclass(slots=True)
class _Keys:
    """One partition. acked: when and at which offsets each key was acknowledged; seen: the last
    offset of each key that a whole pass before the last two was given; failed: values of writes
    that surely failed; last: the last whole passes, and ops: the operations of the last passes,
    oldest first."""

    acked: Recent[int, list[tuple[int, int]]]
    seen: Recent[int, int]
    failed: Recent[int, None]
    under_way: Recent[int, Records] = field(default_factory=lambda: Recent(UNDER_WAY))
    last: list[_Pass] = field(default_factory=list)
    ops: list[int] = field(default_factory=list)

    def begun(self, op: int) -> None:
        """A pass has begun, or goes on."""
        if not self.ops or op > self.ops[-1]:
            self.ops = [*self.ops[1 - PASSES :], op]

    def size(self) -> int:
        acked = sum(map(len, self.acked.values()))
        records = [*self.under_way.values(), *(each.records for each in self.last)]
        return acked + len(self.seen) + len(self.failed) + sum(map(len, records))


class KeyState:
    """The state. keys: how many keys, failed writes, and records of a pass a partition keeps."""

    def __init__(self, *, keys: int) -> None:
        self._limit = keys
        self._of: dict[Partition, _Keys] = {}
        self._recorded: dict[int, Intervals] = {}
        """By writer, its operations that have a row."""

    def size(self) -> int:
        """The number of entries."""
        recorded = sum(map(len, self._recorded.values()))
        return recorded + sum(each.size() for each in self._of.values())

    def take(self, rows: pa.Table) -> Iterator[Suspect]:
        """Add rows (schema HISTORY, in the order of their recording) and yield suspects."""
        self._record(rows["op"].to_numpy())
        kinds = pa.array([*_WRITES, KEYED_POLL, KEYED_PASS], pa.string())
        for row in rows.filter(pc.is_in(rows["f"], value_set=kinds)).select(_COLUMNS).to_pylist():
            at = (row["topic"], row["partition"])
            if at not in self._of:
                limit = self._limit
                self._of[at] = _Keys(Recent(limit), Recent(limit), Recent(limit))
            keys = self._of[at]
            if row["f"] in _WRITES:
                _written(keys, row)
            elif row["f"] == KEYED_POLL:
                yield from self._given(keys, row)
            else:
                self._ended(keys, row)

    def settle(self) -> Iterator[Suspect]:
        """Yield what two passes missed, when everything is recorded that may excuse it."""
        for at, keys in self._of.items():
            while len(keys.last) > 1 and self._complete(keys):
                yield from _compared(at, keys)
                _forget(keys)

    def _record(self, ops: Any) -> None:
        writers = ops >> OP_BITS
        for writer in np.unique(writers).tolist():
            known = self._recorded.setdefault(writer, Intervals(OUTSTANDING))
            known.add_all(ops[writers == writer] - (writer << OP_BITS))

    def _complete(self, keys: _Keys) -> bool:
        """Whether a third pass has begun, and every operation before it is recorded."""
        third = next((op for op in keys.ops if op > keys.last[1].op), None)
        if third is None:
            return False
        writer = third >> OP_BITS
        return third <= (writer << OP_BITS) + self._recorded[writer].complete_below

    def _given(self, keys: _Keys, row: Row) -> Iterator[Suspect]:
        keys.begun(row["op"])
        if row["error"] is not None or row["value"] in keys.failed:
            yield _of_record(row)
        records = keys.under_way.setdefault(row["op"], {})
        if row["key"] is not None and row["error"] is None:
            if records and row["offset"] <= next(reversed(records)):
                yield _of_record(row)
            if len(records) < self._limit:
                records[row["offset"]] = (row["key"], row["value"])

    def _ended(self, keys: _Keys, row: Row) -> None:
        keys.begun(row["op"])
        records = keys.under_way.pop(row["op"], {})
        if row["type"] == "ok" and len(records) < self._limit:
            times = (row["invoke_ns"], row["complete_ns"])
            keys.last.append(_Pass(row["op"], *times, row["offset"], records))
            if len(keys.last) > PASSES:
                _forget(keys)


def _written(keys: _Keys, row: Row) -> None:
    if row["type"] == "fail":
        keys.failed[row["value"]] = None
    elif row["type"] == "ok" and row["offset"] is not None and row["complete_ns"] is not None:
        writes = keys.acked.get(row["key"], [])
        keys.acked[row["key"]] = [*writes[1 - WRITES :], (row["complete_ns"], row["offset"])]


def _compared(at: Partition, keys: _Keys) -> Iterator[Suspect]:
    """Compare the two oldest of the last whole passes with what was known before the first one."""
    first, second = keys.last[:2]
    given, then = first.last(), second.last()
    passed = min(first.reached, second.reached)
    for key in {**keys.acked, **keys.seen}:
        acked = [n for over_ns, n in keys.acked.get(key, ()) if over_ns < first.began_ns]
        last = max(given.get(key, -1), then.get(key, -1))
        if any(last < known < passed for known in (max(acked, default=-1), keys.seen.get(key, -1))):
            yield _suspect(at, key, second.op)
    for offset, (key, value) in second.records.items():
        if first.records.get(offset, (key, value)) != (key, value):
            yield _suspect(at, key, second.op)


def _forget(keys: _Keys) -> None:
    """End the comparison of the oldest pass: keep of it, and of what was acknowledged before it,
    the last offset of each key."""
    oldest = keys.last.pop(0)
    for key, offset in oldest.last().items():
        keys.seen[key] = max(offset, keys.seen.get(key, -1))
    for writes in keys.acked.values():
        before = [each for each in writes if each[0] < oldest.began_ns]
        if len(before) > 1:
            later = [each for each in writes if each[0] >= oldest.began_ns]
            writes[:] = [max(before, key=lambda each: each[1]), *later]


def _suspect(at: Partition, key: int, op: int) -> Suspect:
    return Suspect(kind=OF_KEYS, topic=at[0], partition=at[1], key=key, op=op)


def _of_record(row: Row) -> Suspect:
    at = {"topic": row["topic"], "partition": row["partition"]}
    return Suspect(kind=OF_RECORDS, key=row["key"], op=row["op"], **at)


def with_passes(plan: Mapping[str, Any]) -> bool:
    """Whether a plan asks for passes."""
    return any(each.get("passes_every_s") for each in plan.get("more_workloads") or ())
