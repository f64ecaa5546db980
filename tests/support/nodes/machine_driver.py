"""A fake shell for tests of coordinators: the log is a list, and every answer is given at once.

It does what `nodes.coordinators.machine` asks of the shell: it appends the records of an
operation and replays each. `rebuilt` makes a machine from the log, whole or compacted, to compare
it with the live one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from nodes.coordinators.machine import (
    Answer,
    Effects,
    Machine,
    Now,
    Position,
    ProducerStamp,
    Token,
)
from nodes.coordinators.records import CoordinatorRecord
from nodes.ids import Offset

M = TypeVar("M", bound=Machine)

MOST_TICKS = 10_000
START = Now(ms=1_000.0, wall_ms=1_700_000_000_000)


class Appended(NamedTuple):
    """A record of the log, and the transaction that it belongs to (also if that ended)."""

    record: CoordinatorRecord
    position: Position


class Marker(NamedTuple):
    """The end of a transaction."""

    producer: ProducerStamp
    position: Position
    commit: bool


Entry = Appended | Marker


@dataclass
class MachineDriver(Generic[M]):
    """A coordinator, its log and its clock. `make` makes an empty machine."""

    make: Callable[[], M]
    machine: M = field(init=False)
    log: list[Entry] = field(default_factory=list)
    now: Now = START
    answers: dict[Token, Answer] = field(default_factory=dict)
    """The answers that were given; a token that still waits is not there."""
    _tokens: int = 0

    def __post_init__(self) -> None:
        self.machine = self.make()
        self._apply(self.machine.loaded(self.now))

    def perform(self, operation: Callable[[M, Token, Now], Effects]) -> Token:
        """Run an operation; return its token, which `answers` has if it was answered."""
        self._tokens += 1
        token = Token(self._tokens)
        self._apply(operation(self.machine, token, self.now))
        return token

    def ask(self, operation: Callable[[M, Token, Now], Effects]) -> Answer:
        """Run an operation that is answered at once; return the answer."""
        token = self.perform(operation)
        assert token in self.answers, "the operation was not answered"
        return self.answers[token]

    def advance(self, ms: float) -> None:
        """Move the clock by `ms`, with a tick at each deadline that comes."""
        end = self.now.ms + ms
        for _ in range(MOST_TICKS):
            due = self.machine.deadline_ms()
            if due is None or due > end:
                self._move_to(end)
                return
            self._move_to(max(due, self.now.ms))
            self._apply(self.machine.tick(self.now))
        raise AssertionError(f"{MOST_TICKS} ticks by {self.now.ms} ms: a deadline does not move")

    def end_transaction(self, producer: ProducerStamp, *, commit: bool) -> None:
        """Write a transaction's marker."""
        marker = Marker(producer, self._position(None), commit)
        self.log.append(marker)
        self.machine.end_transaction(producer, marker.position, commit=commit)

    def fail_over(self) -> None:
        """Another broker leads from now on: it loads the log. Who waits is never answered."""
        self.machine = self.rebuilt()
        self._apply(self.machine.loaded(self.now))

    def rebuilt(self, *, compacted: bool = False) -> M:
        """A new machine that replayed the log; `loaded` was not called."""
        machine = self.make()
        for entry in compact(self.log) if compacted else self.log:
            match entry:
                case Appended(record, position):
                    machine.replay(record, position)
                case Marker(producer, position, commit):
                    machine.end_transaction(producer, position, commit=commit)
        return machine

    def _apply(self, effects: Effects) -> None:
        for record in effects.records:
            position = self._position(effects.producer)
            self.log.append(Appended(record, position))
            self.machine.replay(record, position)
        for token, answer in effects.answers:
            assert token not in self.answers, f"{token} was answered twice"
            self.answers[token] = answer

    def _position(self, producer: ProducerStamp | None) -> Position:
        return Position(Offset(len(self.log)), self.now.wall_ms, producer)

    def _move_to(self, ms: float) -> None:
        passed = ms - self.now.ms
        self.now = Now(ms, self.now.wall_ms + round(passed))


def compact(log: list[Entry]) -> list[Entry]:
    """What Kafka's log cleaner may leave of a log.

    That is the last record of each key, and the markers. Records of aborted transactions are
    removed, and hide nothing. From the first open transaction on, everything stays. Tombstones are
    removed too: a coordinator reads the whole log, so it needs none that hides nothing.
    """
    outcomes = dict(_outcomes(log))
    clean_end = min(
        (
            at
            for at, entry in enumerate(log)
            if isinstance(entry, Appended)
            and entry.position.producer is not None
            and at not in outcomes
        ),
        default=len(log),
    )
    last: dict[bytes, int] = {}
    for at, entry in enumerate(log[:clean_end]):
        if isinstance(entry, Appended) and outcomes.get(at, True):
            last[entry.record.key] = at
    return [
        entry
        for at, entry in enumerate(log)
        if at >= clean_end
        or isinstance(entry, Marker)
        or (last.get(entry.record.key) == at and entry.record.value is not None)
    ]


def _outcomes(log: list[Entry]) -> Iterator[tuple[int, bool]]:
    """For each transactional record whose transaction ended: its index, and whether it counts."""
    open_records: dict[int, list[int]] = {}
    for at, entry in enumerate(log):
        match entry:
            case Appended(_, Position(producer=ProducerStamp(producer_id))):
                open_records.setdefault(producer_id, []).append(at)
            case Marker(producer, _, commit):
                yield from ((each, commit) for each in open_records.pop(producer.producer_id, ()))
