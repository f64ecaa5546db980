"""What a client library with blocking calls does for groups, copies and transactions.

All parts record what they do in the history that they were given. Each instance is for one thread.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from harness.plans.workloads import CopyWorkload, GroupWorkload
from harness.workloads.clients.memberships import Membership
from harness.workloads.clients.outcomes import Outcome
from harness.workloads.clients.reads import MemberReads, Read, Reads
from harness.workloads.clients.sends import Sends
from harness.workloads.clients.transaction_sends import TransactionSends
from harness.workloads.further.rules import Patience
from harness.workloads.threads import WorkloadConsumer, WorkloadProducer
from nodes.ids import TopicPartition

VANISHED: Final = "the member vanished"
"""The history's `error` for partitions of a member that did not leave its group."""

Group = GroupWorkload | CopyWorkload
BeforeRevocation = Callable[[Collection[TopicPartition]], None]
"""Gets the partitions that a member gives up, while it may still commit."""


class Broken(Exception):
    """The producer cannot go on. The message is the name of an error."""


class NotWritten(Exception):
    """A part of the transaction is missing, so that it can only be aborted."""


class Taken(NamedTuple):
    """A record, and when the poll that returned it began."""

    topic: str
    read: Read
    invoke_ns: int

    @property
    def place(self) -> TopicPartition:
        """The record's partition."""
        return TopicPartition(self.topic, self.read.partition)


class Subscribed(Protocol):
    """A consumer that subscribes as a member of a group."""

    positions: dict[TopicPartition, int]
    """The next offset of each partition that the member owns."""
    over: bool
    """Whether this member must not go on: a commit got no answer, and may arrive later."""

    @property
    def generation(self) -> int:
        """The generation of the group, or the member's epoch."""
        ...

    @property
    def metadata(self) -> object:
        """What the library's producer needs to send offsets of this member in a transaction."""
        ...

    def take(self, count: int, timeout_s: float) -> Sequence[Taken]:
        """Return up to `count` records, and move the positions behind them; rebalances happen in
        this call."""
        ...

    def record(self, taken: Sequence[Taken]) -> None:
        """Record that the group's member has got the records, which are of one `take`."""
        ...

    def commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, Outcome]:
        """Commit offsets, and record the outcome of each partition."""
        ...

    def go_back(self) -> bool:
        """Go on from the committed offsets; return whether they are known."""
        ...

    def close(self, *, leave: bool) -> None:
        """Leave the group, or vanish: then the coordinator has to notice."""
        ...


class Written(NamedTuple):
    """A record of a transaction."""

    topic: str
    partition: int
    payload: bytes


class TransactionalProducer(Protocol):
    """A producer with a transactional id that records its transactions."""

    def begin_producer(self) -> bool:
        """Take over the transactional id, and record it; return whether that was answered."""
        ...

    def begin(self) -> None:
        """Begin a transaction. Raises Broken."""
        ...

    def write(self, records: Sequence[Written]) -> None:
        """Write records, and wait for all. Raises Broken, NotWritten."""
        ...

    def send_offsets(
        self, offsets: Mapping[TopicPartition, int], group: str, metadata: object | None
    ) -> None:
        """Commit offsets of a group in the transaction, with the `metadata` of a member, or of
        nobody. Raises Broken, NotWritten."""
        ...

    def commit(self) -> bool:
        """Commit, and record the outcome; return whether the producer may go on."""
        ...

    def abort(self) -> bool:
        """Abort, and record the outcome; return whether the producer may go on."""
        ...

    def close(self) -> None:
        """End the client. A transaction that is open stays open."""
        ...


class CopyingProducer(WorkloadProducer, Protocol):
    """A producer without transactions, whose records may be copies."""

    def send(self, partition: int, *, copies: int | None = None) -> None:
        """Start one send, maybe of a copy of a value."""
        ...


class Library(Protocol):
    """Makes the clients of a further workload."""

    def member(
        self,
        wanted: Group,
        index: int,
        reads: MemberReads,
        membership: Membership,
        before_revocation: BeforeRevocation,
    ) -> Subscribed:
        """Make the member number `index` of a group."""
        ...

    def transactional(
        self, sends: TransactionSends, timeout_ms: int, patience: Patience
    ) -> TransactionalProducer:
        """Make a producer whose transactions may take `timeout_ms`."""
        ...

    def producer(self, sends: Sends, timeout_ms: int) -> CopyingProducer:
        """Make an idempotent producer that gives a record up after `timeout_ms`. Raises
        NotConnected."""
        ...

    def consumer(self, reads: Reads) -> WorkloadConsumer:
        """Make a consumer of committed records that assigns itself partitions. Raises
        NotConnected."""
        ...
