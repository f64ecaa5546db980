"""Records the elements of a program's output while the program works, each once.

An output that only grows is recorded as it grows. If an element is gone or is another one, which
the last read of the output shows at the latest, the rows up to then do not count. A row
`app-reread` says so, and all elements of the last read follow.
"""

from typing import Final

from harness.recording.history import OperationWriter
from harness.workloads.app.elements import Element, Place
from harness.workloads.app.outputs.base import Elements

OUTPUT: Final = "app-output"
REREAD: Final = "app-reread"


class OutputRows:
    """The rows of one output. client: the number of the supervisor."""

    def __init__(self, elements: Elements, writer: OperationWriter, client: int) -> None:
        self._elements = elements
        self._writer = writer
        self._client = client
        self._recorded = 0

    def record(self) -> None:
        """Record what is new. An output that was changed waits for `finish`."""
        found = self._elements
        while found.fresh and not found.changed:
            element = found.by_place.get(place := found.fresh.popleft())
            if element is not None:  # else it was gone before it could be recorded
                self._row(place, element)

    def finish(self) -> None:
        """Record the rest after the last read of the output."""
        self.record()
        found = self._elements
        if found.changed or self._recorded != len(found.by_place):
            self.discard()
            for place in sorted(found.by_place):
                self._row(place, found.by_place[place])

    def discard(self) -> None:
        """Record that no row up to now counts."""
        if self._recorded:
            now_ns = self._writer.now_ns()
            op = self._writer.next_op()
            self._writer.record(op, self._client, REREAD, "ok", now_ns, now_ns)
        self._recorded = 0

    def _row(self, place: Place, element: Element) -> None:
        self._recorded += 1
        self._writer.record(
            self._writer.next_op(), self._client, OUTPUT, "ok", element.seen_ns, element.seen_ns,
            partition=place.partition, value=element.value, offset=place.position,
            error=element.error,
        )  # fmt: skip
