"""The sends of one producer of any library: their values, and their rows.

Each send has a unique value. It is pending from the call of the library until it has an outcome. A
send without an outcome at the end is `info`, and has no completion time.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from harness.workloads.clients.client_history import ClientHistory
from harness.workloads.clients.outcomes import Outcome
from harness.workloads.clients.payload import MAX_SEQUENCE, sequence_of, value_of

SEND: Final = "send"
"""The `f` of the row of a send."""
USED_UP: Final = "the client's sequence numbers are used up"
UNFINISHED: Final = "unfinished"
"""The history's `error` for a send that had no outcome when its client ended."""


@dataclass(slots=True, kw_only=True)
class Sends(ClientHistory):
    """The sends of one producer. Only the thread or task that sends may use it."""

    topic: str
    acks: int
    group: str | None = None
    """The group whose records the sends copy."""
    limit: int | None = None
    """After how many sends another producer takes over; None: never."""
    in_flight: dict[int, int] = field(default_factory=dict)
    """Sends without an outcome, by partition."""
    _sequence: int = 0
    _pending: dict[int, tuple[int, int, int, int | None]] = field(default_factory=dict)
    # value -> op, invoke_ns, partition, the value that it copies

    @property
    def pending(self) -> int:
        """Sends without an outcome."""
        return len(self._pending)

    @property
    def used_up(self) -> bool:
        """Whether no value is left for another send."""
        return self._sequence + 1 >= MAX_SEQUENCE

    @property
    def complete(self) -> bool:
        """Whether another producer has to make the next send."""
        return self.limit is not None and self._sequence >= self.limit

    def __contains__(self, value: int) -> bool:
        """Return whether the send of this value is pending."""
        return value in self._pending

    def begin(self, partition: int, *, copies: int | None = None) -> tuple[int, bytes | None]:
        """Begin a send, maybe of a copy; return its value and its payload (None: a tombstone)."""
        self._sequence += 1
        value = value_of(self.client, self._sequence)
        payload = self.payload(value)
        self._pending[value] = (self.writer.next_op(), self.writer.now_ns(), partition, copies)
        self.in_flight[partition] = self.in_flight.get(partition, 0) + 1
        self.tally.sent += 1
        return value, payload

    def payload(self, value: int) -> bytes | None:
        """Return the payload of a send."""
        return self.codec.encode(self.client, sequence_of(value))

    def key(self, value: int, partition: int) -> bytes | None:
        """Return the key of a send; None without one."""
        return self.codec.key(value, partition)

    def row_of(self, value: int) -> tuple[str, int | None]:
        """Return the `f` and the key of the row of a send."""
        return SEND, None

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
        """Record the outcome of a send at `at_ns` (None: not completed), and the broker's answer.

        A second outcome of a send is ignored.
        """
        found = self._pending.pop(value, None)
        if found is None:
            return
        op, invoke_ns, partition, copies = found
        self.in_flight[partition] -= 1
        if error is not None:
            self.note(error)
        if self.acks == 0:
            offset = None  # no broker answered, so a reported offset is not real
        self.tally.ended(outcome, None if at_ns is None else at_ns - invoke_ns)
        f, key = self.row_of(value)
        self.writer.record(
            op, self.client, f, outcome.value, invoke_ns, at_ns, self.topic, partition,
            value, offset, None, self.acks, node, error, copies=copies,
            group=None if copies is None else self.group, key=key,
        )  # fmt: skip

    def abandon(self) -> None:
        """Record all pending sends as `info`."""
        for value in list(self._pending):
            self.end(value, Outcome.INFO, at_ns=None, error=UNFINISHED)


def wait_for_outcomes(sends: Sends, poll: Callable[[float], None], timeout_s: float) -> None:
    """Call `poll` until no send is pending, at most `timeout_s`."""
    deadline_s = time.monotonic() + timeout_s
    while sends.pending and (left_s := deadline_s - time.monotonic()) > 0:
        poll(min(left_s, 0.1))
