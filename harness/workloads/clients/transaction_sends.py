"""The transactions of one producer of any library: their numbers, their sends, their ends.

A send in a transaction is recorded when the transaction has ended, and has its outcome: ok if the
commit was acknowledged, fail if it is sure that the transaction is not committed, else info. A
transaction is surely not committed if nobody has asked for its commit, or if the first request for
its commit was refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from harness.workloads.clients.client_history import ClientHistory
from harness.workloads.clients.memberships import OFFSET_COMMIT
from harness.workloads.clients.outcomes import Outcome
from harness.workloads.clients.payload import MAX_SEQUENCE, value_of
from nodes.ids import TopicPartition

COMMIT: Final = "commit-transaction"
ABORT: Final = "abort-transaction"
ACKS_ALL: Final = -1
VANISHED: Final = "the producer vanished"
"""The history's `error` for sends of a transaction that its producer left open."""


@dataclass(slots=True)
class _Sent:
    """A send: topic, partition and value of a record, and the value that it copies."""

    op: int
    invoke_ns: int
    topic: str
    partition: int
    value: int
    copies: int | None
    offset: int | None = None
    node: int | None = None


@dataclass(slots=True)
class _Offsets:
    """A commit of offsets of the partitions that a group reads."""

    op: int
    invoke_ns: int
    group: str
    generation: int | None
    offsets: dict[TopicPartition, int]


@dataclass(slots=True, kw_only=True)
class TransactionSends(ClientHistory):
    """The transactions of one producer. Only the thread or task that sends may use it."""

    topic: str
    """The topic of sends that name no other one."""
    transactional_id: str
    group: str | None = None
    """The group whose records the sends copy."""
    transaction: int | None = None
    """The number of the transaction that is open, unique in the run."""
    _begun: int = 0
    _sequence: int = 0
    _sent: dict[int, _Sent] = field(default_factory=dict)
    _offsets: list[_Offsets] = field(default_factory=list)

    @property
    def used_up(self) -> bool:
        """Whether no value is left for another send."""
        return self._sequence + 1 >= MAX_SEQUENCE

    def __contains__(self, value: int) -> bool:
        """Return whether the send of this value is part of the open transaction."""
        return value in self._sent

    def initialized(self, outcome: Outcome, invoke_ns: int, *, error: str | None = None) -> None:
        """Record an init-producer: from now on older producers of the id are fenced."""
        self._record("init-producer", outcome, invoke_ns, error)

    def begin(self) -> int:
        """Begin a transaction; return its number."""
        assert self.transaction is None, "a transaction is open"
        self._begun += 1
        self.transaction = value_of(self.client, self._begun)
        return self.transaction

    def send(
        self, partition: int, *, topic: str | None = None, copies: int | None = None
    ) -> tuple[int, bytes]:
        """Begin a send in the transaction, to the producer's topic or to another one; return its
        value and its payload."""
        self._sequence += 1
        value = value_of(self.client, self._sequence)
        self._sent[value] = _Sent(
            self.writer.next_op(), self.now_ns(), topic or self.topic, partition, value, copies
        )
        self.tally.sent += 1
        return value, self.codec.encode(self.client, self._sequence)

    def appended(self, value: int, offset: int, node: int | None = None) -> None:
        """Note that a broker has appended a record. Its transaction decides its outcome."""
        self._sent[value].offset, self._sent[value].node = offset, node

    def offsets(
        self, group: str, generation: int | None, offsets: Mapping[TopicPartition, int]
    ) -> None:
        """Begin a commit of offsets {partition: position} of a group in the transaction."""
        self._offsets.append(
            _Offsets(self.writer.next_op(), self.now_ns(), group, generation, dict(offsets))
        )

    def committed(self, outcome: Outcome, invoke_ns: int, *, error: str | None = None) -> None:
        """Record the answer to the request for a commit, begun at `invoke_ns`, and all sends."""
        self._record(COMMIT, outcome, invoke_ns, error)
        self._ended(outcome, error)

    def aborted(self, outcome: Outcome, invoke_ns: int, *, error: str | None = None) -> None:
        """Record the answer to the request for an abort, and all sends: nobody has asked for the
        commit of the transaction."""
        self._record(ABORT, outcome, invoke_ns, error)
        self._ended(Outcome.FAIL, error)

    def left_open(self, *, error: str = VANISHED) -> None:
        """Record the sends of a transaction whose end nobody asks for."""
        if self.transaction is not None:
            self._ended(Outcome.FAIL, error)

    def _record(self, f: str, outcome: Outcome, invoke_ns: int, error: str | None) -> None:
        if error is not None:
            self.note(error)
        self.writer.record(
            self.writer.next_op(), self.client, f, outcome.value, invoke_ns, self.now_ns(),
            error=error, txn=self.transaction, transactional_id=self.transactional_id,
        )  # fmt: skip

    def _ended(self, outcome: Outcome, error: str | None) -> None:
        at_ns = self.now_ns()
        known_ns = None if outcome is Outcome.INFO else at_ns  # else it may be committed later
        for sent in self._sent.values():
            self.tally.ended(outcome, at_ns - sent.invoke_ns)
            self.writer.record(
                sent.op, self.client, "send", outcome.value, sent.invoke_ns, at_ns, sent.topic,
                sent.partition, sent.value, sent.offset, None, ACKS_ALL, sent.node, error,
                txn=self.transaction, transactional_id=self.transactional_id, copies=sent.copies,
                group=None if sent.copies is None else self.group,
            )  # fmt: skip
        for each in self._offsets:
            for place, offset in each.offsets.items():
                self.writer.record(
                    each.op, self.client, OFFSET_COMMIT, outcome.value, each.invoke_ns, known_ns,
                    *place, None, offset, error=error, txn=self.transaction, group=each.group,
                    generation=each.generation, transactional_id=self.transactional_id,
                )  # fmt: skip
        self._sent.clear()
        self._offsets.clear()
        self.transaction = None
