"""A producer's queue for one partition: the order of batches, repetitions, and results. Pure.

Messages wait, are grouped into batches, and are sent. At most IN_FLIGHT batches are in flight, all
to one broker, and no batch is further than that ahead of one whose result is unknown.
After a failed attempt nothing more is sent until every batch in flight has its answer. Then the
failed batches are sent again, before all later ones and with the same bytes. The broker remembers a
producer's last five batches, so it recognises every repetition (KIP-98), and a batch is never sent
ahead of an earlier one that had failed.

A batch that is given up without having been appended leaves a gap in the sequence. Then the queue
begins a new producer epoch, for this partition only and when nothing is in flight (KIP-360).
Batches that may be in the log are given up first, with an unknown outcome. Only batches that surely
were not appended are sent in the new epoch, from sequence 0 on. So no value is ever written under
two epochs.

With `insists`, a queue sends batches that may be in the log again in the new epoch, if a broker's
refusal caused the gap; Kafka's Java producer and librdkafka do the same. A broker that implements
KIP-98 refuses no batch that it has, so this makes no duplicates there. Another broker shows
duplicates.

Times are seconds of one clock, and come in as arguments. Bytes, brokers and backoff are left to
others.
"""

from bisect import insort
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from math import inf
from typing import Final, NamedTuple

from nodes.log.batch import MAX_SEQUENCE

IN_FLIGHT: Final = 5
"""How many batches may have an unknown result at once: as many as brokers remember."""
MAX_EPOCH: Final = (1 << 15) - 1
TIMED_OUT: Final = "MESSAGE_TIMED_OUT"


class AttemptResult(Enum):
    """The result of one attempt to send a batch."""

    APPENDED = auto()
    """It is in the log."""
    UNKNOWN = auto()
    """It may be in the log, or come there yet."""
    NOT_APPENDED = auto()
    """This attempt surely did not append it, and never will; another attempt may."""
    OUT_OF_SEQUENCE = auto()
    """Not appended, because the broker expected another sequence or epoch."""
    NEVER_APPENDED = auto()
    """Not appended, and every other attempt will end in the same way."""


class MessageOutcome(Enum):
    """The final outcome of messages."""

    OK = auto()
    FAIL = auto()
    """They surely are not in the log, and never will be."""
    INFO = auto()
    """They may be in the log."""


class Message(NamedTuple):
    """One message. `tag` identifies it for the sender; `since_s` is when it was added, and
    `timestamp_ms` is that moment's time of day, in milliseconds since 1970."""

    tag: int
    payload: bytes | None
    since_s: float
    timestamp_ms: int = 0
    key: bytes | None = None

    @property
    def size(self) -> int:
        """The bytes of its payload; a tombstone has none."""
        return len(self.payload or b"")


@dataclass(slots=True, kw_only=True)
class Batch:
    """Messages that are sent together. `number` is the batch's place in the queue.

    Without idempotence there are no sequences. `encoded` keeps the bytes, which must not change
    while the batch has a sequence.
    """

    number: int
    messages: Sequence[Message]
    epoch: int = -1
    sequence: int = -1
    uncertain: bool = False
    """Whether some attempt has an unknown result."""
    attempts: int = 0
    encoded: bytes | None = None

    def __lt__(self, other: "Batch") -> bool:
        return self.number < other.number


class EndedMessages(NamedTuple):
    """The outcome of messages; `offset` is the offset of the first one, if it is known."""

    messages: Sequence[Message]
    end: MessageOutcome
    offset: int | None = None
    error: str | None = None


class PartitionEpochBump(NamedTuple):
    """A new epoch began: the reason, the first message that was not appended, how many messages
    were given up that may be in the log, and whether a broker refused the next batch in order."""

    reason: str
    tag: int | None
    given_up: int
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How large a batch may be (one message always fits), how long it waits for more messages, and
    after which time a message is given up."""

    messages: int = 1_000
    bytes: int = 500_000
    linger_s: float = 0.0
    timeout_s: float = 10.0


class PartitionQueue:
    """The queue of one partition of one producer."""

    def __init__(self, limits: Limits, *, idempotent: bool, insists: bool = False) -> None:
        self.bumps: list[PartitionEpochBump] = []
        """New epochs that the caller has not handled yet; the caller clears the list."""
        self.epoch = 0
        self._limits = limits
        self._idempotent = idempotent
        self._insists = insists
        self._waiting: deque[Message] = deque()
        self._waiting_bytes = 0
        self._again: list[Batch] = []
        """Failed batches that are to be sent again, in order."""
        self._in_flight: list[Batch] = []
        self._node = -1
        self._next_number = 0
        self._next_sequence = 0
        self._draining = False
        self._not_before_s = -inf
        self._gap: str | None = None
        self._gap_tag: int | None = None
        self._refused = False
        """Whether a broker's refusal caused the gap."""
        self._lost_count = 0

    @property
    def exhausted(self) -> bool:
        """Whether the producer id has no further epoch; then nothing more is sent."""
        return self.epoch > MAX_EPOCH

    def add(self, message: Message) -> None:
        """Add a message at the end."""
        self._waiting.append(message)
        self._waiting_bytes += message.size

    def due_s(self) -> float:
        """Return from when on `next_batch` has a batch; inf while an answer must come first."""
        if self._draining or len(self._in_flight) >= IN_FLIGHT or self.exhausted:
            return inf
        if self._again:
            return self._not_before_s
        if not self._waiting or self._is_far_ahead():
            return inf
        full = (
            self._waiting_bytes >= self._limits.bytes or len(self._waiting) >= self._limits.messages
        )
        due_s = -inf if full else self._waiting[0].since_s + self._limits.linger_s
        return max(due_s, self._not_before_s)

    def _is_far_ahead(self) -> bool:
        """Return whether a new batch could make the broker forget one with an unknown result."""
        oldest = min((batch.number for batch in self._in_flight), default=self._next_number + 1)
        return self._next_number + 1 - oldest >= IN_FLIGHT

    def expires_s(self) -> float:
        """Return when `expire` is next due; inf when nothing waits."""
        first = self._again[0].messages if self._again else self._waiting
        return first[0].since_s + self._limits.timeout_s if first else inf

    def next_batch(self, node: int, now_s: float) -> Batch | None:
        """Return the next batch, which is in flight to `node` from now on; None if it must wait."""
        if self.due_s() > now_s or (self._in_flight and self._node != node):
            return None
        batch = self._again.pop(0) if self._again else self._new_batch()
        if self._idempotent and batch.sequence < 0:
            batch.epoch, batch.sequence = self.epoch, self._next_sequence
            self._next_sequence = (self._next_sequence + len(batch.messages)) & MAX_SEQUENCE
        batch.attempts += 1
        self._node = node
        self._in_flight.append(batch)
        return batch

    def _new_batch(self) -> Batch:
        messages: list[Message] = []
        size = 0
        while self._waiting and len(messages) < self._limits.messages:
            message = self._waiting[0]
            size += message.size
            if messages and size > self._limits.bytes:
                break
            messages.append(self._waiting.popleft())
            self._waiting_bytes -= message.size
        self._next_number += 1
        return Batch(number=self._next_number, messages=messages)

    def record_attempt(
        self,
        batch: Batch,
        result: AttemptResult,
        *,
        again_s: float,
        offset: int | None = None,
        error: str | None = None,
    ) -> list[EndedMessages]:
        """Record the result of an attempt; return the outcomes that follow from it.

        A batch that is sent again waits until `again_s`.
        """
        self._in_flight.remove(batch)
        ended: list[EndedMessages] = []
        match result:
            case AttemptResult.APPENDED:
                ended.append(EndedMessages(batch.messages, MessageOutcome.OK, offset, error))
            case AttemptResult.NEVER_APPENDED:
                ended.append(self._leave(batch, error or "refused"))
            case AttemptResult.OUT_OF_SEQUENCE if self._is_first(batch):
                # Everything before it was appended, or is the gap that the broker reports.
                self._begin_gap(batch, error or "refused")
                self._refused = True
                self._back(batch, again_s)
            case AttemptResult.UNKNOWN | AttemptResult.NOT_APPENDED | AttemptResult.OUT_OF_SEQUENCE:
                batch.uncertain = batch.uncertain or result is AttemptResult.UNKNOWN
                self._back(batch, again_s)
        return ended + self._settle()

    def expire(self, now_s: float) -> list[EndedMessages]:
        """Give up messages that are too old and not in flight; return their outcomes."""
        ended: list[EndedMessages] = []
        oldest_s = now_s - self._limits.timeout_s
        while self._again and self._again[0].messages[0].since_s <= oldest_s:
            ended.append(self._leave(self._again.pop(0), TIMED_OUT))
        late: list[Message] = []
        while self._waiting and self._waiting[0].since_s <= oldest_s:
            late.append(self._waiting.popleft())
            self._waiting_bytes -= late[-1].size
        if late:
            ended.append(EndedMessages(late, MessageOutcome.FAIL, None, TIMED_OUT))
        return ended + self._settle()

    def close(self) -> list[EndedMessages]:
        """Give up everything, without an error if it is in flight. Send nothing afterwards."""
        ended = [EndedMessages(batch.messages, MessageOutcome.INFO) for batch in self._in_flight]
        for batch in self._again:
            end = MessageOutcome.INFO if batch.uncertain else MessageOutcome.FAIL
            ended.append(EndedMessages(batch.messages, end, None, "CLOSED"))
        if self._waiting:
            ended.append(EndedMessages([*self._waiting], MessageOutcome.FAIL, None, "CLOSED"))
        self._again, self._in_flight = [], []
        self._waiting.clear()
        return ended

    def _is_first(self, batch: Batch) -> bool:
        return self._gap is None and all(
            batch < other for other in (*self._in_flight, *self._again)
        )

    def _back(self, batch: Batch, again_s: float) -> None:
        insort(self._again, batch)
        self._draining = True
        self._not_before_s = max(self._not_before_s, again_s)

    def _leave(self, batch: Batch, error: str) -> EndedMessages:
        """Give a batch up that was not appended for certain."""
        if batch.sequence >= 0:
            self._begin_gap(batch, error)
            self._lost_count += len(batch.messages) if batch.uncertain else 0
            self._draining = True
        return EndedMessages(
            batch.messages,
            MessageOutcome.INFO if batch.uncertain else MessageOutcome.FAIL,
            None,
            error,
        )

    def _begin_gap(self, batch: Batch, why: str) -> None:
        if self._gap is None:
            self._gap, self._gap_tag = why, batch.messages[0].tag

    def _settle(self) -> list[EndedMessages]:
        """Go on when nothing is in flight any more: in a new epoch if there is a gap."""
        if self._in_flight:
            return []
        self._draining = False
        if self._gap is None:
            return []
        doubtful = [batch for batch in self._again if batch.uncertain]
        if self._insists and self._refused:
            doubtful = []
        ended = [
            EndedMessages(batch.messages, MessageOutcome.INFO, None, f"given up after {self._gap}")
            for batch in doubtful
        ]
        given_up = self._lost_count + sum(len(each.messages) for each in ended)
        self._again = [batch for batch in self._again if batch not in doubtful]
        for batch in self._again:
            batch.epoch = batch.sequence = -1
            batch.encoded = None
        self.epoch += 1
        self._next_sequence = 0
        self.bumps.append(PartitionEpochBump(self._gap, self._gap_tag, given_up, self._refused))
        self._gap, self._gap_tag, self._lost_count, self._refused = None, None, 0, False
        return ended
