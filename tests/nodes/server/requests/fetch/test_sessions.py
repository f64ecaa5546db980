"""The cache of fetch sessions: which requests continue one, and which session is evicted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from nodes.server.requests.fetch.sessions import (
    EVICTION_MS,
    FetchSession,
    FetchSessionCache,
    next_epoch,
)


class Sized:
    """Partitions of a session, as far as the cache cares."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.released = 0

    def __len__(self) -> int:
        return self.size

    def release(self) -> None:
        self.released += 1


def create(
    cache: FetchSessionCache[Sized], size: int = 1, *, privileged: bool = False, now_ms: float = 0
) -> FetchSession[Sized] | None:
    return cache.create(Sized(size), by_topic_id=True, privileged=privileged, now_ms=now_ms)


def test_session_epoch_wraps_to_one() -> None:
    """Zero would ask for a new session."""
    assert (next_epoch(1), next_epoch((1 << 31) - 1)) == (2, 1)


def test_session_continues_only_with_its_next_epoch() -> None:
    """Each epoch is accepted once."""
    cache = FetchSessionCache[Sized](1, 0)
    session = create(cache)
    assert session is not None
    assert cache.find(session.session_id, 1, by_topic_id=True) is session
    cache.advance(session, 0)
    assert cache.find(session.session_id, 1, by_topic_id=True) is (
        ErrorCode.invalid_fetch_session_epoch
    )
    assert cache.find(session.session_id, 2, by_topic_id=True) is session


def test_session_ids_are_unique() -> None:
    """Also after the ids have wrapped."""
    cache = FetchSessionCache[Sized](3, (1 << 31) - 2)
    sessions = [create(cache) for _ in range(3)]
    assert [session and session.session_id for session in sessions] == [(1 << 31) - 1, 1, 2]


@pytest.mark.parametrize(
    ("resident", "newcomer", "later_ms", "evicted"),
    [
        ((5, False), (9, False), 0, False),  # fresh ones stay
        ((5, False), (1, True), 0, True),  # but not before a follower
        ((5, True), (9, True), 0, False),  # followers stay before each other
        ((5, False), (1, False), EVICTION_MS + 1, True),  # idle for long
        ((5, True), (1, False), EVICTION_MS + 1, True),  # even a follower
    ],
)
def test_eviction_takes_idle_sessions_then_clients(
    resident: tuple[int, bool], newcomer: tuple[int, bool], later_ms: float, evicted: bool
) -> None:
    """Idle sessions first, then clients' sessions for a follower; an evicted one is released."""
    cache = FetchSessionCache[Sized](1, 0)
    old = create(cache, resident[0], privileged=resident[1])
    new = create(cache, newcomer[0], privileged=newcomer[1], now_ms=later_ms)
    assert old is not None
    assert (new is not None) is evicted
    assert old.partitions.released == evicted
    assert len(cache) == 1


@pytest.mark.parametrize(("size", "evicted"), [(4, False), (5, False), (6, True)])
def test_old_session_is_evicted_for_a_larger_one(size: int, evicted: bool) -> None:
    """It is in use, but no longer new."""
    cache = FetchSessionCache[Sized](1, 0)
    old = create(cache, 5)
    assert old is not None
    cache.advance(old, EVICTION_MS)
    assert (create(cache, size, now_ms=EVICTION_MS + 1) is not None) is evicted


@given(st.lists(st.tuples(st.integers(1, 9), st.booleans(), st.integers(0, 90_000)), max_size=40))
def test_session_cache_is_bounded(newcomers: list[tuple[int, bool, int]]) -> None:
    """Never more than its slots, and every evicted session is released once."""
    cache = FetchSessionCache[Sized](4, 0)
    now_ms, made = 0.0, []
    for size, privileged, passes_ms in newcomers:
        now_ms += passes_ms
        session = create(cache, size, privileged=privileged, now_ms=now_ms)
        made += [] if session is None else [session]
        assert len(cache) <= 4
    alive = [session for session in made if not session.partitions.released]
    assert len(alive) == len(cache)
    assert all(session.partitions.released <= 1 for session in made)
