"""The reads of one consumer of any library: positions, and the rows of polls and jumps."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from harness.workloads.clients.client_history import ClientHistory
from harness.workloads.clients.counts import REWIND_RECORDS


class Read(NamedTuple):
    """A record from a library. `leader_epoch` is None or negative if the library does not know
    it."""

    partition: int
    offset: int
    leader_epoch: int | None
    payload: bytes | None
    key: bytes | None = None


@dataclass(slots=True, kw_only=True)
class Reads(ClientHistory):
    """The reads of one consumer. Only the thread or task that polls may use it."""

    isolation: int | None = None
    """The isolation level: 0 read_uncommitted, 1 read_committed; None: nobody writes transactions.
    """
    group: str | None = None
    """The group that the consumer is a member of."""
    generation: int | None = None
    """The present generation of the group, or epoch of the member."""
    _next: dict[int, int] = field(default_factory=dict)

    def assigned(
        self, offsets: Mapping[int, int], invoke_ns: int, *, reason: str | None = None
    ) -> None:
        """Record that the consumer reads only from {partition: next offset} on."""
        self._next.clear()
        self.moved(offsets, invoke_ns, reason=reason)

    def moved(
        self, offsets: Mapping[int, int], invoke_ns: int, *, reason: str | None = None
    ) -> None:
        """Record a jump to {partition: next offset}; the positions of other partitions stay."""
        self._next |= offsets
        if not offsets:
            return
        op, complete_ns = self.writer.next_op(), self.now_ns()
        for partition, offset in offsets.items():
            self.writer.record(
                op, self.client, "assign", "ok", invoke_ns, complete_ns, self.topic, partition,
                None, offset, error=reason,
            )  # fmt: skip

    def polled(self, records: Iterable[Read], invoke_ns: int, *, node: int | None = None) -> int:
        """Record the records of one poll, in their order, with the broker; return how many."""
        op, complete_ns = None, self.now_ns()
        read = 0
        for partition, offset, leader_epoch, payload, _ in records:
            read += 1
            if op is None or offset < self._next.get(partition, 0):
                op = self.writer.next_op()  # rows of one operation are ordered only by offset
            value, error = self.codec.decode(payload)
            self._next[partition] = offset + 1
            self.writer.record(
                op, self.client, "poll", "ok", invoke_ns, complete_ns, self.topic, partition,
                value, offset, leader_epoch, None, node, error, group=self.group,
                generation=self.generation, isolation=self.isolation,
            )  # fmt: skip
        self.tally.read += read
        return read

    def rewound(self, bounds: Mapping[int, tuple[int, int] | None]) -> dict[int, int]:
        """Return all positions after logs were truncated below the positions of some partitions.

        `bounds` are the first and last offsets of these partitions; None when no leader answered,
        which moves the position further back.
        """
        offsets = dict(self._next)
        for partition, found in bounds.items():
            low, high = (0, offsets[partition]) if found is None else found
            offsets[partition] = max(low, min(high, offsets[partition]) - REWIND_RECORDS)
        return offsets
