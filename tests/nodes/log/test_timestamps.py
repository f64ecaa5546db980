"""Lookups by time agree with a search through all records."""

from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.ids import Epoch, Offset
from nodes.log.config import LogConfig
from nodes.storage.memory import MemoryDisk
from tests.support.nodes.batches import batch, open_log

TIMES = st.integers(1, 8)
BATCHES = st.lists(st.tuples(TIMES, st.integers(1, 3)), min_size=1, max_size=12)
"""The time of each batch, and how many records it has."""


@settings(max_examples=300, deadline=None)
@given(BATCHES, st.integers(0, 36), st.integers(150, 500))
def test_lookups_by_time_find_what_a_search_finds(
    batches: list[tuple[int, int]], start: int, segment_bytes: int
) -> None:
    """In any order of times, in segments of any size, from any start of the log."""
    log = open_log(MemoryDisk(), config=LogConfig(segment_bytes=segment_bytes))
    stamps: list[int] = []
    for stamp, count in batches:
        log.append_as_leader(batch(count, timestamp_ms=stamp), Epoch(0))
        stamps += [stamp] * count
    start = min(start, len(stamps))
    log.advance_start(Offset(start))
    left = [(offset, stamp) for offset, stamp in enumerate(stamps) if offset >= start]
    for wanted in range(10):
        first = next(((o, s) for o, s in left if s >= wanted), None)
        assert log.offset_for_timestamp(wanted) == first
    most = max((s for _, s in left), default=-1)
    newest = next(((o, s) for o, s in left if s == most), (-1, -1))
    assert log.max_timestamp() == newest
