"""What a producer sends to one partition, in which order, and what became of it. Pure.

Messages wait, are cut into batches, and fly: at most IN_FLIGHT batches at once, all to one broker,
and none is further than that ahead of one whose fate is open.
After a failed attempt nothing more flies until all that flew has been answered; then the failed
batches go again, before everything behind them, byte for byte as they were. So the broker, which
remembers a producer's last five batches, tells every repetition (KIP-98), and a batch is never sent
ahead of one that had failed.

A batch that leaves the line without having landed makes a gap in the sequence. Then the line begins
a new producer epoch, for this partition alone and only when nothing flies (KIP-360). What may be in
the log is given up before, its outcome unknown; only what surely is not there goes on, from
sequence 0. Hence no value is ever written under two epochs.

A line that insists sends again, in the new epoch, what may be there, if a broker's refusal made the
gap: as Kafka's Java producer and librdkafka do. A broker that keeps KIP-98 refuses nothing that it
has, and so has nothing twice by that; one that does not has duplicates to show.

Times are seconds of one clock, handed in. Left to others: bytes, brokers, how long to back off.
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
"""Batches whose fate may be open at once: as many as brokers remember."""
MAX_EPOCH: Final = (1 << 15) - 1
TIMED_OUT: Final = "MESSAGE_TIMED_OUT"


class Fate(Enum):
    """What the end of one attempt says of its batch."""

    LANDED = auto()
    """It is in the log."""
    OPEN = auto()
    """It may be in the log, or come there yet."""
    REFUSED = auto()
    """This attempt surely left nothing in the log, and never will; another may."""
    OUT_OF_SEQUENCE = auto()
    """The same, because the broker expected another sequence or epoch."""
    HOPELESS = auto()
    """The same, and every other attempt will end like it."""


class End(Enum):
    """What became of messages."""

    OK = auto()
    FAIL = auto()
    """They surely are not in the log, and never will be."""
    INFO = auto()
    """They may be."""


class Message(NamedTuple):
    """One message; `tag` is its sender's name for it, `since_s` when it was handed over."""

    tag: int
    payload: bytes
    since_s: float


@dataclass(slots=True, kw_only=True)
class Batch:
    """Messages that are sent together. `number` is its place in the line.

    Without idempotence there are no sequences. `encoded` is room for its bytes, which must not
    change while it has a sequence.
    """

    number: int
    messages: Sequence[Message]
    epoch: int = -1
    sequence: int = -1
    uncertain: bool = False
    """Some attempt's fate is open."""
    attempts: int = 0
    encoded: bytes | None = None

    def __lt__(self, other: "Batch") -> bool:
        return self.number < other.number


class Ended(NamedTuple):
    """The outcome of messages; `offset` is the first one's, where it is known."""

    messages: Sequence[Message]
    end: End
    offset: int | None = None
    error: str | None = None


class Bump(NamedTuple):
    """A new epoch was begun: why, the first message that had not landed, how many were given up
    that may be in the log, and whether a broker refused what was next in line."""

    reason: str
    tag: int | None
    given_up: int
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How large a batch may be (one message always fits), how long it is waited for, and how long
    a message may take: after that it is given up."""

    messages: int = 1_000
    bytes: int = 500_000
    linger_s: float = 0.0
    timeout_s: float = 10.0


class Line:
    """See the module. For one partition of one producer."""

    def __init__(self, limits: Limits, *, idempotent: bool, insists: bool = False) -> None:
        self.bumps: list[Bump] = []
        """Epochs begun that nobody took note of yet; whoever does removes them."""
        self.epoch = 0
        self._limits = limits
        self._idempotent = idempotent
        self._insists = insists
        self._waiting: deque[Message] = deque()
        self._waiting_bytes = 0
        self._again: list[Batch] = []
        """Failed batches, in their order."""
        self._flying: list[Batch] = []
        self._node = -1
        self._next_number = 0
        self._next_sequence = 0
        self._draining = False
        self._not_before_s = -inf
        self._gap: str | None = None
        self._gap_tag: int | None = None
        self._refused = False
        """The gap is a broker's doing."""
        self._lost_count = 0

    @property
    def flying(self) -> int:
        """Batches without an answer."""
        return len(self._flying)

    @property
    def exhausted(self) -> bool:
        """There is no further epoch of this producer id: nothing more is sent."""
        return self.epoch > MAX_EPOCH

    def add(self, message: Message) -> None:
        """Let a message wait for its turn."""
        self._waiting.append(message)
        self._waiting_bytes += len(message.payload)

    def due_s(self) -> float:
        """From when on `take` has something for the right broker; inf while an answer is needed."""
        if self._draining or len(self._flying) >= IN_FLIGHT or self.exhausted:
            return inf
        if self._again:
            return self._not_before_s
        if not self._waiting or self._is_far_ahead():
            return inf
        full = (
            self._waiting_bytes >= self._limits.bytes or len(self._waiting) >= self._limits.messages
        )
        ripe_s = -inf if full else self._waiting[0].since_s + self._limits.linger_s
        return max(ripe_s, self._not_before_s)

    def _is_far_ahead(self) -> bool:
        """Whether a new batch could let the broker forget one whose fate is open."""
        oldest = min((batch.number for batch in self._flying), default=self._next_number + 1)
        return self._next_number + 1 - oldest >= IN_FLIGHT

    def expires_s(self) -> float:
        """When `expire` is next due; inf when nothing waits."""
        first = self._again[0].messages if self._again else self._waiting
        return first[0].since_s + self._limits.timeout_s if first else inf

    def take(self, node: int, now_s: float) -> Batch | None:
        """The next batch, which now flies to `node`; None when that has to wait."""
        if self.due_s() > now_s or (self._flying and self._node != node):
            return None
        batch = self._again.pop(0) if self._again else self._cut()
        if self._idempotent and batch.sequence < 0:
            batch.epoch, batch.sequence = self.epoch, self._next_sequence
            self._next_sequence = (self._next_sequence + len(batch.messages)) & MAX_SEQUENCE
        batch.attempts += 1
        self._node = node
        self._flying.append(batch)
        return batch

    def _cut(self) -> Batch:
        messages: list[Message] = []
        size = 0
        while self._waiting and len(messages) < self._limits.messages:
            message = self._waiting[0]
            size += len(message.payload)
            if messages and size > self._limits.bytes:
                break
            messages.append(self._waiting.popleft())
            self._waiting_bytes -= len(message.payload)
        self._next_number += 1
        return Batch(number=self._next_number, messages=messages)

    def attempted(
        self,
        batch: Batch,
        fate: Fate,
        *,
        again_s: float,
        offset: int | None = None,
        error: str | None = None,
    ) -> list[Ended]:
        """An attempt has ended; what can be sent again waits until `again_s`. The outcomes."""
        self._flying.remove(batch)
        ended: list[Ended] = []
        match fate:
            case Fate.LANDED:
                ended.append(Ended(batch.messages, End.OK, offset, error))
            case Fate.HOPELESS:
                ended.append(self._leave(batch, error or "refused"))
            case Fate.OUT_OF_SEQUENCE if self._is_first(batch):
                # Everything before it has landed, or is the gap that the broker speaks of.
                self._begin_gap(batch, error or "refused")
                self._refused = True
                self._back(batch, again_s)
            case Fate.OPEN | Fate.REFUSED | Fate.OUT_OF_SEQUENCE:
                batch.uncertain = batch.uncertain or fate is Fate.OPEN
                self._back(batch, again_s)
        return ended + self._settle()

    def expire(self, now_s: float) -> list[Ended]:
        """Give up what is too old and does not fly; its outcomes."""
        ended: list[Ended] = []
        oldest_s = now_s - self._limits.timeout_s
        while self._again and self._again[0].messages[0].since_s <= oldest_s:
            ended.append(self._leave(self._again.pop(0), TIMED_OUT))
        late: list[Message] = []
        while self._waiting and self._waiting[0].since_s <= oldest_s:
            late.append(self._waiting.popleft())
            self._waiting_bytes -= len(late[-1].payload)
        if late:
            ended.append(Ended(late, End.FAIL, None, TIMED_OUT))
        return ended + self._settle()

    def close(self) -> list[Ended]:
        """Give up everything, without an error where it flies; nothing is to be sent after it."""
        ended = [Ended(batch.messages, End.INFO) for batch in self._flying]
        for batch in self._again:
            end = End.INFO if batch.uncertain else End.FAIL
            ended.append(Ended(batch.messages, end, None, "CLOSED"))
        if self._waiting:
            ended.append(Ended([*self._waiting], End.FAIL, None, "CLOSED"))
        self._again, self._flying = [], []
        self._waiting.clear()
        return ended

    def _is_first(self, batch: Batch) -> bool:
        return self._gap is None and all(batch < other for other in (*self._flying, *self._again))

    def _back(self, batch: Batch, again_s: float) -> None:
        insort(self._again, batch)
        self._draining = True
        self._not_before_s = max(self._not_before_s, again_s)

    def _leave(self, batch: Batch, error: str) -> Ended:
        """A batch goes without having landed."""
        if batch.sequence >= 0:
            self._begin_gap(batch, error)
            self._lost_count += len(batch.messages) if batch.uncertain else 0
            self._draining = True
        return Ended(batch.messages, End.INFO if batch.uncertain else End.FAIL, None, error)

    def _begin_gap(self, batch: Batch, why: str) -> None:
        if self._gap is None:
            self._gap, self._gap_tag = why, batch.messages[0].tag

    def _settle(self) -> list[Ended]:
        """When nothing flies any more, go on: in a new epoch if there is a gap."""
        if self._flying:
            return []
        self._draining = False
        if self._gap is None:
            return []
        doubtful = [batch for batch in self._again if batch.uncertain]
        if self._insists and self._refused:
            doubtful = []
        ended = [
            Ended(batch.messages, End.INFO, None, f"given up after {self._gap}")
            for batch in doubtful
        ]
        given_up = self._lost_count + sum(len(each.messages) for each in ended)
        self._again = [batch for batch in self._again if batch not in doubtful]
        for batch in self._again:
            batch.epoch = batch.sequence = -1
            batch.encoded = None
        self.epoch += 1
        self._next_sequence = 0
        self.bumps.append(Bump(self._gap, self._gap_tag, given_up, self._refused))
        self._gap, self._gap_tag, self._lost_count, self._refused = None, None, 0, False
        return ended
