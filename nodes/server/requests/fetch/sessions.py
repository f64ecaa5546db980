"""Incremental fetch sessions (KIP-227): who may continue one, and which must make room for others.

Pure. A session is a number, the epoch that its next request has to carry, and the partitions that
its requests need not name again. The cache is bounded: when it is full, a newcomer takes the place
of a session that was idle for EVICTION_MS, or of a lesser one: clients' before followers', old ones
with fewer partitions before those with more. Whoever gets no session fetches without one.

Left to others: what a session's partitions are, and what they have to tell.
"""

from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from kio.schema.errors import ErrorCode

NO_SESSION: Final = 0
FULL_AND_NO_SESSION: Final = -1
"""The epoch of a request that names all it wants and asks for no session."""
FULL_AND_NEW_SESSION: Final = 0
OVER: Final = -2
"""The epoch of a session that has ended."""
EVICTION_MS: Final = 120_000
_LARGEST: Final = (1 << 31) - 1


class Parts(Protocol):
    """The partitions of a session."""

    def __len__(self) -> int: ...

    def release(self) -> None:
        """The session is over."""


P = TypeVar("P", bound=Parts)


@dataclass(slots=True, eq=False)
class FetchSession(Generic[P]):
    """One session; `epoch` is what its next request has to carry."""

    session_id: int
    parts: P
    by_topic_id: bool
    privileged: bool
    created_ms: float
    used_ms: float
    epoch: int = 1


def next_epoch(epoch: int) -> int:
    """The epoch after `epoch`; it wraps to 1, for 0 asks for a new session."""
    return 1 if epoch >= _LARGEST else epoch + 1


class SessionCache(Generic[P]):
    """The sessions of one broker, at most `slots`.

    `first_id`: where to begin numbering, different in every life of the broker, so that an old
    session's requests are not taken for those of a new one.
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
        """The session that a request may continue, or why it may not. The session stays as it is.

        Whether topics are named by id (Fetch v13 on) cannot change within a session (KIP-516).
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
        """The session was used: its next request carries the next epoch."""
        session.epoch = next_epoch(session.epoch)
        session.used_ms = now_ms
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)

    def create(
        self, parts: P, *, by_topic_id: bool, privileged: bool, now_ms: float
    ) -> FetchSession[P] | None:
        """A new session of `parts`, or None when there is no room for it."""
        if len(self._sessions) >= self._slots and not self._evict(len(parts), privileged, now_ms):
            return None
        session = FetchSession(
            session_id=self._free_id(),
            parts=parts,
            by_topic_id=by_topic_id,
            privileged=privileged,
            created_ms=now_ms,
            used_ms=now_ms,
        )
        self._sessions[session.session_id] = session
        return session

    def close(self, session_id: int) -> None:
        """End a session; fine when there is none of this number."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.epoch = OVER
            session.parts.release()

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
            (session.privileged, len(session.parts), session.session_id)
            for session in self._sessions.values()
            if (privileged and not session.privileged) or now_ms - session.created_ms > EVICTION_MS
        ]
        least = min(candidates, default=None)
        if least is None or (privileged, size, 0) < least:
            return False
        self.close(least[2])
        return True
