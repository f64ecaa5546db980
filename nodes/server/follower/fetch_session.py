"""What a follower asks of one leader: the following side of a fetch session (KIP-227).

Pure. Keeps the partitions followed from one leader and decides what the next request names: those
whose position, leader epoch or log start the leader does not know yet; and which it forgets. What
the leader knows already is not said again, so that a request costs what changed. A request may be
sent while the one before it waits at the leader, so each has a number: an answer counts for a
partition only if the request that last named the partition had been sent by then.

A partition that is answered with an error is left out for a while and holds up no other. When the
session is lost, everything is named again, at most MAX_NAMED at a time. Left to others: logs,
connections, the clock.
"""

import math
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.ids import Epoch, TopicPartition
from nodes.server.requests.fetch.sessions import FULL_AND_NEW_SESSION, NO_SESSION, next_epoch

MAX_NAMED: Final = 500
MAX_NAMED_WITHOUT_SESSION: Final = 2000
"""Where the leader has no room for a session, each request names all; or the next so many."""
FIRST_BACKOFF_MS: Final = 5
BACKOFF_OF_EACH_MS: Final = 0.1
"""Thousands of partitions may wait for a leader that takes them up one by one: to ask for each of
them every few milliseconds would cost both brokers the time that this takes.
"""
_NEVER_NAMED: Final = 1 << 62


@dataclass(slots=True, eq=False)
class Followed:
    """One partition; `named_in` is the number of the request that last named it."""

    partition: TopicPartition
    topic_id: UUID
    leader_epoch: Epoch
    named_in: int = _NEVER_NAMED
    in_session: bool = False
    failures: int = 0
    paused_until_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The next request. `may_wait`: the leader may hold it until there is something to send."""

    number: int
    session_id: int
    session_epoch: int
    named: tuple[Followed, ...]
    forgotten: tuple[tuple[UUID, int], ...]
    may_wait: bool


def backoff_ms(failures: int, most_ms: float) -> float:
    """How long to wait after so many failures in a row: short at first, for most are the moments
    in which one of two brokers has heard of a change and the other has not.
    """
    return min(FIRST_BACKOFF_MS * 2.0 ** min(failures, 16), most_ms)


class Following:
    """See the module."""

    def __init__(self, backoff_max_ms: float) -> None:
        self._backoff_max_ms = backoff_max_ms
        self._followed: dict[TopicPartition, Followed] = {}
        self._to_name: dict[Followed, None] = {}
        self._to_forget: dict[tuple[UUID, int], None] = {}
        self._paused: dict[Followed, None] = {}
        self._resumes_ms = math.inf
        self._session_id = NO_SESSION
        self._epoch = FULL_AND_NEW_SESSION
        self._refused_session = False
        self._number = 0
        self._began = 0

    def __len__(self) -> int:
        return len(self._followed)

    # -- what to follow ------------------------------------------------------------------------

    def follow(self, partition: TopicPartition, topic_id: UUID, leader_epoch: Epoch) -> None:
        """Follow a partition from now on, or in a new leader epoch."""
        self.drop(partition)
        followed = Followed(partition, topic_id, leader_epoch)
        self._followed[partition] = followed
        self._to_name[followed] = None

    def drop(self, partition: TopicPartition) -> None:
        """Follow it no more; fine when it is not followed."""
        followed = self._followed.pop(partition, None)
        if followed is not None:
            self._leave_out(followed)
            self._paused.pop(followed, None)

    def _leave_out(self, followed: Followed) -> None:
        self._to_name.pop(followed, None)
        followed.named_in = _NEVER_NAMED
        if followed.in_session:
            followed.in_session = False
            self._to_forget[followed.topic_id, followed.partition.partition] = None

    # -- requests ------------------------------------------------------------------------------

    def has_news(self, now_ms: float) -> bool:
        """Whether a request would say something that the leader does not know."""
        self._resume(now_ms)
        return bool(self._to_name or self._to_forget)

    @property
    def in_session(self) -> bool:
        """Whether the leader keeps what it was told, so that requests may follow each other."""
        return self._epoch != FULL_AND_NEW_SESSION

    def next_request(self, now_ms: float) -> Plan | None:
        """What to ask next, taken for sent; None while there is nothing to follow."""
        self._resume(now_ms)
        if not self.in_session:
            self._name_all()
        if not self._to_name and (not self.in_session or len(self._paused) == len(self._followed)):
            return None
        named = list(self._to_name)
        del named[MAX_NAMED_WITHOUT_SESSION if self._refused_session else MAX_NAMED :]
        self._number += 1
        for followed in named:
            del self._to_name[followed]
            followed.named_in = self._number
            followed.in_session = True
            # Forgetting comes after naming in the leader's eyes: what is named must not be both.
            self._to_forget.pop((followed.topic_id, followed.partition.partition), None)
        plan = Plan(
            number=self._number,
            session_id=self._session_id,
            session_epoch=self._epoch,
            named=tuple(named),
            forgotten=tuple(self._to_forget),
            may_wait=(self._refused_session or self.in_session) and not self._to_name,
        )
        self._to_forget.clear()
        if self.in_session:
            self._epoch = next_epoch(self._epoch)
        else:
            self._began = self._number
        return plan

    def _name_all(self) -> None:
        self._to_forget.clear()
        for followed in self._followed.values():
            followed.in_session = False
            if followed.paused_until_ms is None:
                self._to_name[followed] = None

    # -- answers -------------------------------------------------------------------------------

    def answered(self, number: int, session_id: int, error: ErrorCode) -> bool:
        """A response to request `number` came; whether its partitions are worth looking at."""
        if error is not ErrorCode.none:
            if number >= self._began:
                self.lost_session()
                if error is ErrorCode.fetch_session_id_not_found:
                    self._session_id = NO_SESSION
            return False
        if session_id == NO_SESSION:
            self._refused_session = number == self._began
            if number >= self._began:
                self.lost_session()
                self._session_id = NO_SESSION
        elif number == self._began:
            self._refused_session = False
            self._session_id, self._epoch = session_id, 1
        return True

    def lost_session(self) -> None:
        """Begin a new session with the next request: after an error nobody knows what counts."""
        self._epoch = FULL_AND_NEW_SESSION

    def accept(self, number: int, partition: TopicPartition) -> Followed | None:
        """Whose answer this is; None when it answers a position or an epoch of the past."""
        followed = self._followed.get(partition)
        return followed if followed is not None and number >= followed.named_in else None

    def moved(self, followed: Followed) -> None:
        """The follower's log changed: its new position is to be named."""
        if followed.paused_until_ms is None and self._is_current(followed):
            followed.failures = 0
            followed.named_in = _NEVER_NAMED
            self._to_name[followed] = None

    def failed(self, followed: Followed, now_ms: float) -> None:
        """It was answered with an error: leave it out, longer each time."""
        least_ms = min(BACKOFF_OF_EACH_MS * len(self._paused), self._backoff_max_ms)
        wait_ms = max(backoff_ms(followed.failures, self._backoff_max_ms), least_ms)
        self.pause(followed, now_ms + wait_ms)
        followed.failures += 1

    def pause(self, followed: Followed, until_ms: float) -> None:
        """Leave it out until `until_ms`."""
        if self._is_current(followed):
            self._leave_out(followed)
            followed.paused_until_ms = until_ms
            self._paused[followed] = None
            self._resumes_ms = min(self._resumes_ms, until_ms)

    def _is_current(self, followed: Followed) -> bool:
        return self._followed.get(followed.partition) is followed

    def _resume(self, now_ms: float) -> None:
        if now_ms < self._resumes_ms:
            return
        for followed in [each for each in self._paused if _pause_end(each) <= now_ms]:
            del self._paused[followed]
            followed.paused_until_ms = None
            self._to_name[followed] = None
        self._resumes_ms = min(map(_pause_end, self._paused), default=math.inf)

    @property
    def resumes_ms(self) -> float:
        """When the next partition that was left out may be due again; infinity: none was."""
        return self._resumes_ms


def _pause_end(followed: Followed) -> float:
    assert followed.paused_until_ms is not None
    return followed.paused_until_ms
