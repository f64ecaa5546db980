"""One operation on classic groups: its time, and what it makes."""

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from nodes.coordinators.groups.settings import ClassicSettings
from nodes.coordinators.machine import Answer, Effects, Now, Token
from nodes.coordinators.records import CoordinatorRecord
from nodes.coordinators.timers import Timers


class TimerKind(Enum):
    """What a deadline ends."""

    SESSION = "session"
    INITIAL_DELAY = "initial rebalance delay"
    JOIN = "waiting for members to join"
    SYNC = "waiting for members to sync"


class TimerKey(NamedTuple):
    """A deadline of a group, or of one of its members (a session)."""

    kind: TimerKind
    group_id: str
    member_id: str = ""


@dataclass(slots=True)
class Step:
    """An operation that goes on. Deadlines change at once; records and answers are gathered."""

    now: Now
    settings: ClassicSettings
    timers: Timers[TimerKey]
    records: list[CoordinatorRecord] = field(default_factory=list)
    answers: list[tuple[Token, Answer]] = field(default_factory=list)

    def answer(self, token: Token, answer: Answer) -> None:
        """Give a request its answer, when the operation's records are committed."""
        self.answers.append((token, answer))

    def schedule(self, key: TimerKey, delay_ms: int) -> None:
        """Set a deadline, this long from now; a negative delay is none."""
        self.timers.schedule(key, self.now.ms + max(delay_ms, 0))

    def cancel(self, kind: TimerKind, group_id: str, member_id: str = "") -> None:
        """Remove a deadline, if there is one."""
        self.timers.cancel(TimerKey(kind, group_id, member_id))

    def effects(self) -> Effects:
        """What the operation wants."""
        return Effects(tuple(self.records), tuple(self.answers))
