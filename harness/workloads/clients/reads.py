"""The reads of one consumer of any library: positions, and the rows of polls and jumps.

`Reads` has those of one topic. A member of a group may read several: `MemberReads`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

from harness.workloads.clients.client_history import ClientHistory
from harness.workloads.clients.counts import REWIND_RECORDS
from nodes.ids import TopicPartition

EARLY: Final = "read_uncommitted"


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

    topic: str
    isolation: int | None = None
    """The isolation level: 0 read_uncommitted, 1 read_committed; None: nobody writes transactions.
    """
    group: str | None = None
    """The group that the consumer is a member of."""
    generation: int | None = None
    """The present generation of the group, or epoch of the member."""
    _next: dict[int, int] = field(default_factory=dict)

    @property
    def read_committed(self) -> bool:
        """Whether the consumer reads the records of committed transactions only."""
        return bool(self.isolation)

    @property
    def isolation_level(self) -> str:
        """The `isolation.level` for a client library: `read_uncommitted` only if that is wanted.

        At read_committed a library also waits for the offsets of transactions that are being ended
        (require_stable, KIP-447): a member that copies exactly once needs that, also if nobody
        writes transactions to what it reads.
        """
        return EARLY if self.isolation == 0 else "read_committed"

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


class MemberReads:
    """The reads of a member of a group, which may have several topics. Only the thread or task of
    the member may use it."""

    def __init__(self, reads: Sequence[Reads]) -> None:
        """`reads` has those of each topic; all are of one client."""
        self.of_topic = {each.topic: each for each in reads}
        self._any = reads[0]

    @property
    def topics(self) -> list[str]:
        """The topics that the member reads."""
        return [*self.of_topic]

    @property
    def client(self) -> int:
        """The client's number."""
        return self._any.client

    @property
    def read_committed(self) -> bool:
        """Whether the member reads the records of committed transactions only."""
        return any(each.read_committed for each in self.of_topic.values())

    @property
    def isolation_level(self) -> str:
        """As that of `Reads`: `read_uncommitted` if that is wanted for one of the topics."""
        levels = {each.isolation_level for each in self.of_topic.values()}
        return EARLY if EARLY in levels else "read_committed"

    @property
    def generation(self) -> int | None:
        """The present generation of the group, or epoch of the member."""
        return self._any.generation

    @generation.setter
    def generation(self, generation: int) -> None:
        for each in self.of_topic.values():
            each.generation = generation

    def now_ns(self) -> int:
        """Return ns since the start of the run."""
        return self._any.now_ns()

    def open(self) -> None:
        """See `ClientHistory`."""
        self._any.open()

    def close(self) -> None:
        """See `ClientHistory`."""
        self._any.close()

    def note(self, error: str) -> None:
        """See `ClientHistory`."""
        self._any.note(error)

    def moved(
        self, offsets: Mapping[TopicPartition, int], invoke_ns: int, *, reason: str | None = None
    ) -> None:
        """Record a jump to {partition: next offset}; the positions of other partitions stay. Each
        topic is an operation."""
        for topic, reads in self.of_topic.items():
            here = {place.partition: n for place, n in offsets.items() if place.topic == topic}
            reads.moved(here, invoke_ns, reason=reason)

    def polled(
        self, records: Iterable[tuple[str, Read]], invoke_ns: int, *, node: int | None = None
    ) -> None:
        """Record the records of one poll with their topics, in their order, with the broker. A
        topic's records that follow each other are an operation."""
        for topic, several in groupby(records, itemgetter(0)):
            self.of_topic[topic].polled([read for _, read in several], invoke_ns, node=node)
