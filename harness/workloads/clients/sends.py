"""The sends of one producer, whatever library sends them: their values, and their rows.

Each send has a value of its own. It is pending from the moment when the library is called until it
has an outcome; what has none at the end is `info`, and never completed.
"""

from dataclasses import dataclass, field
from typing import Final

from harness.workloads.clients.client_history import Ledger
from harness.workloads.clients.outcomes import Outcome
from harness.workloads.clients.payload import MAX_SEQUENCE, value_of

USED_UP: Final = "the client's sequence numbers are used up"
UNFINISHED: Final = "unfinished"
"""The history's `error` for a send that had no outcome when its client ended."""


@dataclass(slots=True, kw_only=True)
class Sends(Ledger):
    """For one strand: the one that sends and takes outcomes."""

    acks: int
    in_flight: dict[int, int] = field(default_factory=dict)
    """Sends without an outcome, by partition."""
    _sequence: int = 0
    _pending: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    # value -> op, invoke_ns, partition

    @property
    def pending(self) -> int:
        """Sends without an outcome."""
        return len(self._pending)

    @property
    def used_up(self) -> bool:
        """Whether there is no value left for another send."""
        return self._sequence + 1 >= MAX_SEQUENCE

    def __contains__(self, value: int) -> bool:
        """Whether the send of this value has no outcome yet."""
        return value in self._pending

    def begin(self, partition: int) -> tuple[int, bytes]:
        """Begin a send; returns its value and its payload."""
        self._sequence += 1
        value = value_of(self.client, self._sequence)
        payload = self.codec.encode(self.client, self._sequence)
        self._pending[value] = (self.writer.next_op(), self.writer.now_ns(), partition)
        self.in_flight[partition] = self.in_flight.get(partition, 0) + 1
        self.tally.sent += 1
        return value, payload

    def end(
        self,
        value: int,
        outcome: Outcome,
        *,
        at_ns: int | None,
        offset: int | None = None,
        node: int | None = None,
        error: str | None = None,
    ) -> None:
        """Record what became of a send at `at_ns` (None: nothing yet), and which broker said so.

        Nothing for one that has its outcome already.
        """
        found = self._pending.pop(value, None)
        if found is None:
            return
        op, invoke_ns, partition = found
        self.in_flight[partition] -= 1
        if error is not None:
            self.note(error)
        if self.acks == 0:
            offset = None  # no broker answered; whatever is reported is no offset
        self._count(outcome, invoke_ns, at_ns)
        self.writer.record(
            op, self.client, "send", outcome.value, invoke_ns, at_ns, self.topic, partition,
            value, offset, None, self.acks, node, error,
        )  # fmt: skip

    def abandon(self) -> None:
        """Record everything that has no outcome as what may happen yet."""
        for value in list(self._pending):
            self.end(value, Outcome.INFO, at_ns=None, error=UNFINISHED)

    def _count(self, outcome: Outcome, invoke_ns: int, complete_ns: int | None) -> None:
        match outcome:
            case Outcome.OK:
                assert complete_ns is not None
                self.tally.acked += 1
                self.tally.latencies_ns.append(complete_ns - invoke_ns)
            case Outcome.FAIL:
                self.tally.failed += 1
            case Outcome.INFO:
                self.tally.info += 1
