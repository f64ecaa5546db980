"""The log in the end, where a foreign history has no final read of its own.

What any consumer was given was in the log. Where consumers went to the beginning at last and read
as far as anything is known to exist, the log is what they read then; elsewhere it is all that was
ever read. A write that was read once and not by the final polls is lost only in the first case.

What was acknowledged before the last offset that was read, and is not there, is lost. Where nothing
acknowledged lies beyond that, a partition was read *whole*; elsewhere of the rest nobody knows.
(jepsen.tests.kafka draws the same line between `lost-write` and `unseen`.)
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Partition: TypeAlias = tuple[str, int]


@dataclass(slots=True)
class _Seen:
    """What is known of one partition. reads, final: (offset, value); acked: {value: offset}."""

    reads: set[tuple[int, int]] = field(default_factory=set)
    final: set[tuple[int, int]] = field(default_factory=set)
    acked: dict[int, int | None] = field(default_factory=dict)


@dataclass(slots=True)
class LogAsRead:
    """Gathers reads and acknowledgements, then tells the log. partitions: all there are."""

    partitions: tuple[Partition, ...]
    _seen: dict[Partition, _Seen] = field(default_factory=lambda: defaultdict(_Seen))

    def read(self, partition: Partition, offset: int, value: int, *, finally_: bool) -> None:
        """A consumer was given a record; finally_: on its last way from the beginning."""
        seen = self._seen[partition]
        seen.reads.add((offset, value))
        if finally_:
            seen.final.add((offset, value))

    def acknowledged(self, partition: Partition, value: int, offset: int | None) -> None:
        """A producer was told that its record is in the log."""
        self._seen[partition].acked[value] = offset

    def rows(self, *, client: int, first_op: int, at_ns: int) -> Iterator[dict[str, Any]]:
        """The final read, as rows of a history: what `client` would have recorded at `at_ns`."""
        common: Mapping[str, Any] = {
            "client": client,
            "type": "ok",
            "invoke_ns": at_ns,
            "complete_ns": at_ns,
        }
        for op, partition in enumerate(self.partitions, first_op):
            seen = self._seen[partition]
            place = {"op": op, "topic": partition[0], "partition": partition[1]}
            for offset, value in sorted(_log(seen)):
                yield {"f": "final-read", "offset": offset, "value": value, **common, **place}
            end: Mapping[str, Any] = {"f": "final-read-end", "offset": _last(seen.reads) + 1}
            yield {**common, **place, **end, "type": "ok" if _whole(seen) else "info"}


def _log(seen: _Seen) -> set[tuple[int, int]]:
    known = [offset for offset in seen.acked.values() if offset is not None]
    whole = bool(seen.final) and _last(seen.final) >= max([_last(seen.reads), *known])
    return seen.final if whole else seen.reads


def _whole(seen: _Seen) -> bool:
    there = {value for _, value in seen.reads}
    missing = [offset for value, offset in seen.acked.items() if value not in there]
    last = _last(seen.reads)
    return all(offset is not None and offset <= last for offset in missing)


def _last(records: Iterable[tuple[int, int]]) -> int:
    """The last offset; -1 of none."""
    return max((offset for offset, _ in records), default=-1)
