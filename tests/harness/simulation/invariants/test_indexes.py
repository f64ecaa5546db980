"""Indexes that differ from the batches of their segments are found."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from harness.simulation.invariants import InvariantBroken
from harness.simulation.invariants.segment_layout import (
    SegmentLayout,
    coverage_problem,
    offset_problem,
    time_problem,
)
from harness.zoo.schedules.stage import MessageSchedule, Stage
from nodes.ids import Epoch, Offset
from nodes.log.batch import Record, encode_batch, read_header
from nodes.log.segment import Segment

BASE = 100
TIMES = (10, 30, 30, 20, 40)
"""The timestamps of the segment's batches, of two records each."""


@pytest.fixture
def layout() -> SegmentLayout:
    made = SegmentLayout(BASE)
    position = 0
    for number, timestamp in enumerate(TIMES):
        batch = encode_batch(
            [Record(value=b"a"), Record(value=b"b")],
            base_offset=Offset(BASE + 2 * number),
            leader_epoch=Epoch(0),
            timestamp_ms=timestamp,
        )
        header = read_header(batch)
        made.add(position, header)
        position += header.size
    return made


def entry(layout: SegmentLayout, number: int) -> tuple[int, int]:
    """The right offset index entry of a batch."""
    return 2 * number + 1, list(layout.batches)[number]


def test_right_indexes_have_no_problem(layout: SegmentLayout) -> None:
    """Entries may be sparse; the time index has the first batch with each largest timestamp."""
    offsets = [entry(layout, 1), entry(layout, 3)]
    assert offset_problem(layout, offsets) == ""
    assert time_problem(layout, [(10, 1), (30, 3), (40, 9)]) == ""
    assert coverage_problem(layout, offsets, [(30, 3)], sealed=False) == ""
    assert coverage_problem(layout, offsets, [(30, 3), (40, 9)], sealed=True) == ""
    assert coverage_problem(layout, [], [], sealed=False) == ""
    assert coverage_problem(SegmentLayout(BASE), [], [], sealed=True) == ""


def test_wrong_offset_index_has_a_problem(layout: SegmentLayout) -> None:
    """A wrong offset, a wrong position, an entry beyond the end, two in the wrong order."""
    (relative, position), later = entry(layout, 1), entry(layout, 2)
    assert "a batch with last offset 103" in offset_problem(layout, [(relative - 1, position)])
    assert "no batch begins" in offset_problem(layout, [(relative, position + 1)])
    assert "no batch begins" in offset_problem(layout, [(11, 9999)])
    assert "entry 1 has position" in offset_problem(layout, [later, (relative, position)])
    assert "entry 1 has position" in offset_problem(layout, [later, later])


def test_entries_that_were_right_are_not_checked_again(layout: SegmentLayout) -> None:
    """The first number says where new entries begin."""
    assert offset_problem(layout, [(0, 1), entry(layout, 2)], 1) == ""
    assert time_problem(layout, [(1, 0), (30, 3)], 1) == ""


@pytest.mark.parametrize(
    "entries",
    [
        [(20, 7)],
        [(30, 5)],
        [(30, 2)],
        [(31, 3)],
        [(40, 9), (40, 9)],
        [(40, 9), (30, 3)],
        [(50, 11)],
    ],
    ids=[
        "an earlier batch is newer",
        "an earlier batch has it too",
        "offset is not the last of its batch",
        "no batch has it",
        "twice",
        "descending",
        "beyond the end",
    ],
)
def test_wrong_time_index_has_a_problem(
    layout: SegmentLayout, entries: list[tuple[int, int]]
) -> None:
    """A search by time that begins there could miss a record, or begin too early."""
    assert time_problem(layout, entries)


def test_time_index_without_the_largest_timestamp_has_a_problem(layout: SegmentLayout) -> None:
    """A sealed segment needs the largest of all, the active one what the next start leaves out."""
    offsets = [entry(layout, 1)]
    assert "up to position" in coverage_problem(layout, offsets, [(10, 1)], sealed=False)
    assert "of the segment" in coverage_problem(layout, offsets, [(30, 3)], sealed=True)
    assert "of the segment" in coverage_problem(layout, [], [], sealed=True)


# -- in running clusters, by hand


def _active(stage: Stage) -> Segment:
    return stage.replica(2).log._segments.active


async def _wrong_offset_entry(stage: Stage) -> None:
    _active(stage).index.add(1, 5)
    _active(stage).index.write()


async def _wrong_time_entry(stage: Stage) -> None:
    _active(stage).time_index.add(5, 0)
    _active(stage).time_index.write()


async def _unsealed_segment(stage: Stage) -> None:
    log = stage.replica(2).log
    vars(log._segments.active)["seal"] = lambda: None
    log._roll()
    await stage.send()


async def _wrong_entry_before_a_start(stage: Stage) -> None:
    """A clean start does not read a sealed segment."""
    segment = _active(stage)
    stage.replica(2).log._roll()
    await stage.send()
    stage.host(2).terminate()
    await stage.until("node 2 has ended", lambda: not stage.host(2).running)
    disk = stage.host(2).disk
    assert disk is not None
    index = disk.content.open(f"{segment.stem}.timeindex")
    index.truncate(0)
    index.append(b"\0" * 12)
    index.sync()
    stage.cluster.start(2)


BY_HAND: dict[str, Callable[[Stage], Awaitable[None]]] = {
    "offset index": _wrong_offset_entry,
    "time index": _wrong_time_entry,
    "roll": _unsealed_segment,
    "start": _wrong_entry_before_a_start,
}


@pytest.mark.parametrize("what", BY_HAND)
def test_index_changed_by_hand_breaks_indexes_match_batches(what: str) -> None:
    """When it is written, when its segment is sealed, and when its log is opened."""

    async def play(stage: Stage) -> None:
        await stage.make_topic([2, 3, 4])
        await stage.send(count=3)
        await stage.await_replication()
        await BY_HAND[what](stage)
        await asyncio.sleep(5)

    with pytest.raises(InvariantBroken, match=r"^indexes-match-batches: node 2: "):
        Stage(MessageSchedule(play=play, settles_s=0), 1).run()
