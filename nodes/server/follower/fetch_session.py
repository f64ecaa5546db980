"""The follower's side of a fetch session (KIP-227) with one leader. Pure.

It keeps the partitions that are followed from one leader, and decides which of them the next
request sends: those whose position, leader epoch or log start the leader does not know yet. It also
decides which partitions the leader should forget. So a request costs what changed.

A request may be sent while the one before it still waits at the leader, so requests are numbered. A
response counts for a partition only if the partition was not sent in a later request.

A partition whose response is an error is paused for a while, and does not delay the others. After
the session is lost, all partitions are sent again, at most MAX_SENT at a time. At most as many are
forgotten at a time. Left to others: logs, connections, the clock.
"""

import math
from dataclasses import dataclass
from itertools import islice
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.ids import Epoch, TopicPartition
from nodes.server.requests.fetch.sessions import FULL_AND_NEW_SESSION, NO_SESSION, next_epoch

MAX_SENT: Final = 500
MAX_SENT_WITHOUT_SESSION: Final = 2000
"""The limit of each request if the leader has no room for a session."""
FIRST_BACKOFF_MS: Final = 5
BACKOFF_PER_PARTITION_MS: Final = 0.1
"""The least pause grows by this for each paused partition. Thousands of partitions may wait for a
new leader that becomes active for one after the other; asking for all of them every few
milliseconds would take the time that both brokers need for it.
"""
_NOT_SENT: Final = 1 << 62


@dataclass(slots=True, eq=False)
class FollowedPartition:
    """One partition; `sent_in` is the number of the last request that sent it."""

    partition: TopicPartition
    topic_id: UUID
    leader_epoch: Epoch
    sent_in: int = _NOT_SENT
    in_session: bool = False
    failures: int = 0
    paused_until_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequestData:
    """The next request. `may_wait`: the leader may delay the response until it has something."""

    number: int
    session_id: int
    session_epoch: int
    to_send: tuple[FollowedPartition, ...]
    to_forget: tuple[tuple[UUID, int], ...]
    may_wait: bool


def backoff_ms(failures: int, most_ms: float) -> float:
    """How long to wait after so many failures in a row.

    The first waits are short, because most failures last only until both brokers know of a change.
    """
    return min(FIRST_BACKOFF_MS * 2.0 ** min(failures, 16), most_ms)


class FetchSessionHandler:
    """See the module."""

    def __init__(self, backoff_max_ms: float) -> None:
        self._backoff_max_ms = backoff_max_ms
        self._followed: dict[TopicPartition, FollowedPartition] = {}
        self._to_send: dict[FollowedPartition, None] = {}
        self._to_forget: dict[tuple[UUID, int], None] = {}
        self._paused: dict[FollowedPartition, None] = {}
        self._next_resume_ms = math.inf
        self._session_id = NO_SESSION
        self._epoch = FULL_AND_NEW_SESSION
        self._session_refused = False
        self._number = 0
        self._first_of_session = 0

    def __len__(self) -> int:
        return len(self._followed)

    # -- the partitions ------------------------------------------------------------------------

    def add(self, partition: TopicPartition, topic_id: UUID, leader_epoch: Epoch) -> None:
        """Follow a partition from now on, or in a new leader epoch."""
        self.remove(partition)
        followed = FollowedPartition(partition, topic_id, leader_epoch)
        self._followed[partition] = followed
        self._to_send[followed] = None

    def remove(self, partition: TopicPartition) -> None:
        """Stop following a partition, if it is followed."""
        followed = self._followed.pop(partition, None)
        if followed is not None:
            self._stop_sending(followed)
            self._paused.pop(followed, None)

    def _stop_sending(self, followed: FollowedPartition) -> None:
        self._to_send.pop(followed, None)
        followed.sent_in = _NOT_SENT
        if followed.in_session:
            followed.in_session = False
            self._to_forget[followed.topic_id, followed.partition.partition] = None

    # -- requests ------------------------------------------------------------------------------

    def has_changes(self, now_ms: float) -> bool:
        """Whether a request would tell the leader anything new."""
        self._resume(now_ms)
        return bool(self._to_send or self._to_forget)

    @property
    def in_session(self) -> bool:
        """Whether the leader keeps a session, so that a request need not wait for a response."""
        return self._epoch != FULL_AND_NEW_SESSION

    def next_request(self, now_ms: float) -> FetchRequestData | None:
        """Return the next request, which then counts as sent; None if there is nothing to fetch."""
        self._resume(now_ms)
        if not self.in_session:
            self._send_all()
        if not self._to_send and (not self.in_session or len(self._paused) == len(self._followed)):
            return None
        to_send = list(self._to_send)
        del to_send[MAX_SENT_WITHOUT_SESSION if self._session_refused else MAX_SENT :]
        self._number += 1
        for followed in to_send:
            del self._to_send[followed]
            followed.sent_in = self._number
            followed.in_session = True
            # The leader adds first and forgets afterwards: no partition may be in both lists.
            self._to_forget.pop((followed.topic_id, followed.partition.partition), None)
        to_forget = tuple(islice(self._to_forget, MAX_SENT))
        for forgotten in to_forget:
            del self._to_forget[forgotten]
        data = FetchRequestData(
            number=self._number,
            session_id=self._session_id,
            session_epoch=self._epoch,
            to_send=tuple(to_send),
            to_forget=to_forget,
            may_wait=(self._session_refused or self.in_session)
            and not (self._to_send or self._to_forget),
        )
        if self.in_session:
            self._epoch = next_epoch(self._epoch)
        else:
            self._first_of_session = self._number
        return data

    def _send_all(self) -> None:
        self._to_forget.clear()
        for followed in self._followed.values():
            followed.in_session = False
            if followed.paused_until_ms is None:
                self._to_send[followed] = None

    # -- responses -----------------------------------------------------------------------------

    def handle_response(self, number: int, session_id: int, error: ErrorCode) -> bool:
        """Handle the response to request `number`; return whether its partitions count."""
        if error is not ErrorCode.none:
            if number >= self._first_of_session:
                self.reset_session()
                if error is ErrorCode.fetch_session_id_not_found:
                    self._session_id = NO_SESSION
            return False
        if session_id == NO_SESSION:
            self._session_refused = number == self._first_of_session
            if number >= self._first_of_session:
                self.reset_session()
                self._session_id = NO_SESSION
        elif number == self._first_of_session:
            self._session_refused = False
            self._session_id, self._epoch = session_id, 1
        return True

    def reset_session(self) -> None:
        """Start a new session with the next request: after an error the old state is unknown."""
        self._epoch = FULL_AND_NEW_SESSION

    def current(self, number: int, partition: TopicPartition) -> FollowedPartition | None:
        """The partition of a response to request `number`; None if the response is stale.

        It is stale if the partition's position or leader epoch was sent again later.
        """
        followed = self._followed.get(partition)
        return followed if followed is not None and number >= followed.sent_in else None

    def position_changed(self, followed: FollowedPartition) -> None:
        """The follower's log changed: send its new position with the next request."""
        if followed.paused_until_ms is None and self._is_current(followed):
            followed.failures = 0
            followed.sent_in = _NOT_SENT
            self._to_send[followed] = None

    def back_off(self, followed: FollowedPartition, now_ms: float) -> None:
        """The response for it was an error: pause it, longer after each error."""
        least_ms = min(BACKOFF_PER_PARTITION_MS * len(self._paused), self._backoff_max_ms)
        wait_ms = max(backoff_ms(followed.failures, self._backoff_max_ms), least_ms)
        self.pause(followed, now_ms + wait_ms)
        followed.failures += 1

    def pause(self, followed: FollowedPartition, until_ms: float) -> None:
        """Do not fetch it until `until_ms`."""
        if self._is_current(followed):
            self._stop_sending(followed)
            followed.paused_until_ms = until_ms
            self._paused[followed] = None
            self._next_resume_ms = min(self._next_resume_ms, until_ms)

    def resume_all(self) -> None:
        """End all pauses: what they waited for may have changed."""
        for followed in self._paused:
            followed.paused_until_ms = None
            self._to_send[followed] = None
        self._paused.clear()
        self._next_resume_ms = math.inf

    def _is_current(self, followed: FollowedPartition) -> bool:
        return self._followed.get(followed.partition) is followed

    def _resume(self, now_ms: float) -> None:
        if now_ms < self._next_resume_ms:
            return
        for followed in [each for each in self._paused if _pause_end(each) <= now_ms]:
            del self._paused[followed]
            followed.paused_until_ms = None
            self._to_send[followed] = None
        self._next_resume_ms = min(map(_pause_end, self._paused), default=math.inf)

    @property
    def next_resume_ms(self) -> float:
        """When the next paused partition may resume; infinity if none is paused."""
        return self._next_resume_ms


def _pause_end(followed: FollowedPartition) -> float:
    assert followed.paused_until_ms is not None
    return followed.paused_until_ms
