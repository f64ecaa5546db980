"""The cache of incremental fetch sessions (KIP-227): which requests may continue one; evictions.

Pure. A session is a number, the epoch that its next request has to carry, and the partitions that
its requests need not send again. The cache is bounded. When it is full, a new session evicts one
that was idle for EVICTION_MS, or one of less weight: a client's before a follower's, and among old
sessions one with fewer partitions before one with more. A fetcher that gets no session fetches
without one.

Left to others: the partitions of a session and their data.
"""

from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from kio.schema.errors import ErrorCode

NO_SESSION: Final = 0
FULL_AND_NO_SESSION: Final = -1
"""The epoch of a request that sends all its partitions and asks for no session."""
FULL_AND_NEW_SESSION: Final = 0
CLOSED: Final = -2
"""The epoch of a session that has ended."""
EVICTION_MS: Final = 120_000
_LARGEST: Final = (1 << 31) - 1


class SessionPartitions(Protocol):
    """The partitions of a session."""

    def __len__(self) -> int: ...

    def release(self) -> None:
        """The session was closed."""


P = TypeVar("P", bound=SessionPartitions)


@dataclass(slots=True, eq=False)
class FetchSession(Generic[P]):
    """One session; `epoch` is the one that its next request has to carry."""

    session_id: int
    partitions: P
    by_topic_id: bool
    privileged: bool
    created_ms: float
    used_ms: float
    epoch: int = 1


def next_epoch(epoch: int) -> int:
    """The epoch after `epoch`; it wraps to 1, for 0 asks for a new session."""
    return 1 if epoch >= _LARGEST else epoch + 1


class FetchSessionCache(Generic[P]):
    """The sessions of one broker, at most `slots`.

    `first_id` is the first session id. It differs after each restart of the broker, so that a
    request of an old session is not taken for one of a new session.
    """

    def __init__(self, slots: int, first_id: int) -> None:
        self._slots = slots
        self._next_id = first_id
        self._sessions: dict[int, FetchSession[P]] = {}  # the one longest unused first

    def __len__(self) -> int:
        return len(self._sessions)

    def find(
        self, session_id: int, epoch: int, *, by_topic_id: bool
    ) -> FetchSession[P] | ErrorCode:
        """Return the session that a request may continue, or the error. The session is unchanged.

        A session names its topics either by id (Fetch v13 on) or by name, and cannot change that
        (KIP-516).
        """
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorCode.fetch_session_id_not_found
        if session.epoch != epoch:
            return ErrorCode.invalid_fetch_session_epoch
        if session.by_topic_id != by_topic_id:
            return ErrorCode.fetch_session_topic_id_error
        return session

    def advance(self, session: FetchSession[P], now_ms: float) -> None:
        """The session was used: its next request has to carry the next epoch."""
        session.epoch = next_epoch(session.epoch)
        session.used_ms = now_ms
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)

    def create(
        self, partitions: P, *, by_topic_id: bool, privileged: bool, now_ms: float
    ) -> FetchSession[P] | None:
        """Create a session of `partitions`; None if there is no room for it."""
        if len(self._sessions) >= self._slots and not self._evict(
            len(partitions), privileged, now_ms
        ):
            return None
        session = FetchSession(
            session_id=self._free_id(),
            partitions=partitions,
            by_topic_id=by_topic_id,
            privileged=privileged,
            created_ms=now_ms,
            used_ms=now_ms,
        )
        self._sessions[session.session_id] = session
        return session

    def close(self, session_id: int) -> None:
        """Close the session with this id, if there is one."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.epoch = CLOSED
            session.partitions.release()

    def _free_id(self) -> int:
        while True:
            self._next_id = next_epoch(self._next_id)
            if self._next_id not in self._sessions:
                return self._next_id

    def _evict(self, size: int, privileged: bool, now_ms: float) -> bool:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.used_ms > EVICTION_MS:
            self.close(oldest.session_id)
            return True
        candidates = [
            (session.privileged, len(session.partitions), session.session_id)
            for session in self._sessions.values()
            if (privileged and not session.privileged) or now_ms - session.created_ms > EVICTION_MS
        ]
        least = min(candidates, default=None)
        if least is None or (privileged, size, 0) < least:
            return False
        self.close(least[2])
        return True
