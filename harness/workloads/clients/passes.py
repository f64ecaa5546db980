"""The passes of the reader of a compacted topic of any library, and their rows.

A pass reads a partition from its beginning to the end that the log had when the pass began. A pass
whose log was truncated meanwhile, or that did not reach the end, is recorded as `info`, and nobody
is judged by it. Passes of different partitions may overlap.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from checkers.history.history import KEYED_PASS, KEYED_POLL
from harness.workloads.clients.client_history import ClientHistory
from harness.workloads.clients.keyed_sends import read_keyed
from harness.workloads.clients.reads import Read

PASS_S: Final = 30.0
"""How long a pass may take. Later it would compare records of too different times."""
RETRY_S: Final = 0.5
"""The pause after a pass that could not begin, because no leader said where its log ends."""
CUT_SHORT: Final = "cut short"
"""The error of a pass that reached no end in its time, or before the stop."""


@dataclass(slots=True, kw_only=True)
class Pass:
    """A pass that has begun. next: the position; why: why it is not whole, if that is known."""

    op: int
    began_ns: int
    partition: int
    next: int
    end: int
    why: str | None = None

    @property
    def over(self) -> bool:
        """Whether nothing is left to read."""
        return self.why is not None or self.next >= self.end


@dataclass(slots=True, kw_only=True)
class Passes(ClientHistory):
    """The passes of one reader. Only the thread or task that reads may use it."""

    topic: str
    under_way: dict[int, Pass] = field(default_factory=dict)
    """The passes that have begun, by partition."""

    def begin(self, partition: int, began_ns: int, low: int, end: int) -> Pass:
        """Begin a pass from offset `low` to `end`, for which a leader was asked at `began_ns`."""
        made = Pass(
            op=self.writer.next_op(), began_ns=began_ns, partition=partition, next=low, end=end
        )
        self.under_way[partition] = made
        return made

    def polled(self, records: Iterable[Read], invoke_ns: int, *, node: int | None = None) -> None:
        """Record the records of one poll, in their order, with the broker.

        The rows of one poll are ordered by offset. So what comes behind a step back counts as
        polled anew.
        """
        complete_ns = self.now_ns()
        for partition, offset, leader_epoch, payload, key in records:
            reading = self.under_way[partition]
            if offset < reading.next:
                invoke_ns = complete_ns = self.now_ns()
            value, error, number = read_keyed(self.codec, payload, key)
            self.writer.record(
                reading.op, self.client, KEYED_POLL, "ok", invoke_ns, complete_ns, self.topic,
                partition, value, offset, leader_epoch, None, node, error, key=number,
            )  # fmt: skip
            reading.next = offset + 1
            self.tally.read += 1

    def ended(self, partition: int) -> None:
        """Record the pass of a partition, which is over or cut short."""
        done = self.under_way.pop(partition)
        why = done.why if done.over else CUT_SHORT
        self.writer.record(
            done.op, self.client, KEYED_PASS, "ok" if why is None else "info", done.began_ns,
            self.now_ns(), self.topic, partition, None, done.next, error=why,
        )  # fmt: skip
