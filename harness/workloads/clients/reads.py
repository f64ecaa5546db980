"""The reads of one consumer, whatever library reads: positions, and the rows of polls and jumps."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from harness.workloads.clients.client_history import Ledger
from harness.workloads.clients.counts import REWIND_RECORDS


class Read(NamedTuple):
    """A record as a library hands it out; leader_epoch: None or negative when it does not tell."""

    partition: int
    offset: int
    leader_epoch: int | None
    payload: bytes | None


@dataclass(slots=True, kw_only=True)
class Reads(Ledger):
    """For one strand: the one that polls."""

    _next: dict[int, int] = field(default_factory=dict)

    def assigned(
        self, offsets: Mapping[int, int], invoke_ns: int, *, reason: str | None = None
    ) -> None:
        """Record that the consumer reads on from {partition: next offset}, and nothing else."""
        self._next.clear()
        self.moved(offsets, invoke_ns, reason=reason)

    def moved(
        self, offsets: Mapping[int, int], invoke_ns: int, *, reason: str | None = None
    ) -> None:
        """Record a jump to {partition: next offset}; other partitions are read on as before."""
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
        """Record what one poll returned, in its order, and from which broker; returns how many
        records it were."""
        op, complete_ns = None, self.now_ns()
        read = 0
        for partition, offset, leader_epoch, payload in records:
            read += 1
            if op is None or offset < self._next.get(partition, 0):
                op = self.writer.next_op()  # rows of one poll have no order but their offsets'
            value, error = self.codec.decode(payload)
            self._next[partition] = offset + 1
            self.writer.record(
                op, self.client, "poll", "ok", invoke_ns, complete_ns, self.topic, partition,
                value, offset, leader_epoch, None, node, error,
            )  # fmt: skip
        self.tally.read += read
        return read

    def rewound(self, bounds: Mapping[int, tuple[int, int] | None]) -> dict[int, int]:
        """All positions, after the log was cut below those of some partitions.

        `bounds` are where these begin and end now; None when no leader said so: then it is asked
        again from further back.
        """
        offsets = dict(self._next)
        for partition, found in bounds.items():
            low, high = (0, offsets[partition]) if found is None else found
            offsets[partition] = max(low, min(high, offsets[partition]) - REWIND_RECORDS)
        return offsets
