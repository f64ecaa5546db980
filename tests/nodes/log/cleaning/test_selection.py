"""Which log is cleaned, and up to where: the examples follow Kafka's LogCleanerManager."""

from dataclasses import dataclass

import pytest

from nodes.ids import Offset
from nodes.log.cleaning.selection import Cleanable, cleanable, dirtiest, first_dirty
from nodes.log.config import CompactionConfig


@dataclass
class Segment:
    """A segment with records of one time."""

    base_offset: Offset
    size: int = 100
    stamp: int = 1000

    def first_batch_timestamp(self) -> int:
        return self.stamp

    def largest_timestamp(self) -> tuple[int, Offset]:
        return self.stamp, Offset(0)


def segments(*bases: int) -> list[Segment]:
    """The last one is active."""
    return [Segment(Offset(base), stamp=1000 + base) for base in bases]


def found(
    *bases: int, dirty: int = 0, stable: int = 1000, now_ms: int = 2000, **config: int
) -> Cleanable:
    return cleanable(
        segments(*bases),
        Offset(dirty),
        stable_offset=Offset(stable),
        config=CompactionConfig(**config),
        now_ms=now_ms,
    )


@pytest.mark.parametrize(
    ("dirty", "stable", "end", "clean_bytes", "dirty_bytes"),
    [
        (0, 1000, 30, 0, 300),
        (10, 1000, 30, 100, 200),
        (30, 1000, 30, 300, 0),
        (35, 1000, 30, 400, 0),
        (0, 29, 20, 0, 200),
        (0, 20, 20, 0, 200),
        (0, 9, 0, 0, 0),
        (10, 9, 10, 100, 0),
        (15, 1000, 30, 200, 200),
    ],
)
def test_neither_active_segment_nor_unstable_offset_is_cleaned(
    dirty: int, stable: int, end: int, clean_bytes: int, dirty_bytes: int
) -> None:
    """KAFKA-13194: not beyond the high watermark. The end is where a segment begins."""
    got = found(0, 10, 20, 30, dirty=dirty, stable=stable)
    assert (got.end, got.clean_bytes, got.dirty_bytes) == (end, clean_bytes, dirty_bytes)


@pytest.mark.parametrize(("lag_ms", "end"), [(0, 30), (979, 30), (980, 20), (990, 10), (1000, 0)])
def test_records_younger_than_the_minimum_lag_stay(lag_ms: int, end: int) -> None:
    """KIP-58."""
    assert found(0, 10, 20, 30, min_lag_ms=lag_ms, now_ms=2000 - 1).end == end


@pytest.mark.parametrize(("lag_ms", "overdue"), [(989, True), (990, False)])
def test_old_dirty_record_makes_a_log_overdue(lag_ms: int, overdue: bool) -> None:
    """KIP-354: the oldest dirty segment is that at offset 10, of time 1010."""
    got = found(0, 10, 20, 30, dirty=10, max_lag_ms=lag_ms)
    assert got.overdue == overdue
    assert got.is_due(CompactionConfig(min_dirty_ratio=1.0)) == overdue


def test_overdue_log_without_cleanable_bytes_is_not_due() -> None:
    got = found(0, 10, 20, 30, stable=0, max_lag_ms=1)
    assert got.overdue
    assert not got.is_due(CompactionConfig())


def test_ratio_must_be_above_the_minimum() -> None:
    got = found(0, 10, 20, dirty=10)
    assert got.ratio == 0.5
    assert not got.is_due(CompactionConfig(min_dirty_ratio=0.5))
    assert got.is_due(CompactionConfig(min_dirty_ratio=0.49))
    assert not found(0).is_due(CompactionConfig(min_dirty_ratio=0.0))


@pytest.mark.parametrize(
    ("checkpoint", "start"), [(None, 5), (4, 5), (5, 5), (7, 7), (9, 9), (10, 5)]
)
def test_checkpoint_outside_of_the_log_is_not_believed(checkpoint: int | None, start: int) -> None:
    found = None if checkpoint is None else Offset(checkpoint)
    assert first_dirty(found, Offset(5), Offset(9)) == start


def test_dirtiest_of_the_due_logs_is_next() -> None:
    """Whatever the others' ratios are."""
    config = CompactionConfig(min_dirty_ratio=0.4)
    strict = CompactionConfig(min_dirty_ratio=0.9)
    ratios = [found(0, 10, 20, dirty=10), found(0, 10, 20), found(0, 10, 20, 30, dirty=10)]
    assert dirtiest([(ratios[0], config), (ratios[2], config)]) == 1
    assert dirtiest([(ratios[0], config), (ratios[1], config), (ratios[2], config)]) == 1
    assert dirtiest([(ratios[0], config), (ratios[2], strict)]) == 0
    assert dirtiest([(ratios[2], strict)]) is None
    assert dirtiest([]) is None
