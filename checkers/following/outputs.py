"""What is kept of a tested program's output while a run goes on, and the suspects that it shows.

For every producer of inputs: the sequences that the output has, as intervals. For every key: the
place of its last element. The places of the last inputs. Each part is bounded and forgets its
oldest entries.

An element that is there again, or behind a later one of its key, waits until the producers have
recorded sends that ended after the element was seen: by then they have recorded what may excuse it,
such as an input that they wrote twice. What is missing is known at the end only: the program may
still write it.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

from checkers.detectors.durability import SEQUENCE_BITS
from checkers.detectors.outputs import (
    KEYS_OF_PARTITION,
    OUT_OF_ORDER,
    TORN,
    TORN_ELEMENT,
    TWICE,
    UNKNOWN,
)
from checkers.following.intervals import Intervals, Seen
from checkers.following.suspects import Recent, Row, Suspect

WAITING: Final = 1_000
"""How many suspects may wait."""


class OutputState:
    """The state of the program that a plan tests; rows come in the order of their recording.

    offsets: how many inputs are known; producers, intervals: of inputs; lines: keys of an input's
    partition in a partition of the output.
    """

    def __init__(
        self,
        program: Mapping[str, Any],
        *,
        offsets: int,
        producers: int,
        intervals: int,
        lines: int,
    ) -> None:
        self._topic = str(program.get("input"))
        self._group = program.get("group")
        self._intervals = intervals
        self._inputs: Recent[int, tuple[int, int]] = Recent(offsets)
        self._seen: Recent[int, Intervals] = Recent(producers)
        self._lines: Recent[tuple[int, int, int], tuple[int, int, int]] = Recent(lines)
        self._early: Recent[int, tuple[int, int, int]] = Recent(WAITING)
        """First elements whose input is not known yet: partition, position, when it was seen."""
        self._waiting: deque[tuple[int, Suspect]] = deque(maxlen=WAITING)
        self._reread = False

    def size(self) -> int:
        """The number of entries."""
        seen = sum(map(len, self._seen.values()))
        known = len(self._inputs) + len(self._lines) + len(self._early)
        return seen + known + len(self._waiting)

    def sent(self, row: Row) -> Iterator[Suspect]:
        """Add a send, and yield the suspects that it lets go."""
        if row["topic"] != self._topic or self._reread:
            return
        value = row["value"]
        if row["type"] == "ok" and value is not None and row["offset"] is not None:
            self._inputs[value] = (row["partition"], row["offset"])
            if (early := self._early.pop(value, None)) is not None:
                self._in_line(value, *early)
        over_ns = row["complete_ns"] or 0
        while self._waiting and self._waiting[0][0] < over_ns:
            yield self._waiting.popleft()[1]

    def element(self, row: Row) -> Iterator[Suspect]:
        """Add an element of the output."""
        if self._reread:
            return
        value, seen_ns = row["value"], row["invoke_ns"]
        if value is None:
            kind = TORN if row["error"] == TORN_ELEMENT else UNKNOWN
            yield self._suspect(kind, op=row["op"])
            return
        client, sequence = divmod(value, 1 << SEQUENCE_BITS)
        if client not in self._seen:
            self._seen[client] = Intervals(self._intervals)
        match self._seen[client].add(sequence):
            case Seen.AGAIN:
                self._waiting.append((seen_ns, self._suspect(TWICE, value)))
            case Seen.NEW if value in self._inputs:
                self._in_line(value, row["partition"], row["offset"], seen_ns)
            case Seen.NEW:
                self._early[value] = (row["partition"], row["offset"], seen_ns)

    def reread(self) -> None:
        """The program has changed its output, and may change it again: only the end is certain."""
        self._reread = True
        self._waiting.clear()

    def _in_line(self, value: int, out_partition: int, position: int, seen_ns: int) -> None:
        """Compare the first element of an input with the last one of its key."""
        partition, offset = self._inputs[value]
        line = (partition, value % KEYS_OF_PARTITION, out_partition)
        here = (position, offset, value)
        last = self._lines.get(line)
        if last is not None and (last[0] < position) != (last[1] < offset):
            self._waiting.append((seen_ns, self._suspect(OUT_OF_ORDER, last[2], value)))
        self._lines[line] = here if last is None else max(last, here)

    def _suspect(self, kind: str, *values: int, op: int | None = None) -> Suspect:
        found = Suspect(kind=kind, topic=self._topic, partition=0, values=values, op=op)
        return found.about(group=self._group)
