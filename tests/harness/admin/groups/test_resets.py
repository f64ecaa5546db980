"""Which offsets a reset commits."""

import pytest

from harness.admin.errors import BadRequest
from harness.admin.groups import resets
from harness.admin.groups.descriptions import CommittedOffset
from harness.admin.groups.resets import PartitionOffsets, Reset, Target
from nodes.ids import TopicPartition

A0 = TopicPartition("a", 0)


def known(committed: int | None = 40, at_time: int = -1) -> PartitionOffsets:
    """A log from 10 to 50."""
    offset = None
    if committed is not None:
        offset = CommittedOffset(offset=committed, leader_epoch=None, metadata="")
    return PartitionOffsets(start=10, end=50, committed=offset, at_time=at_time)


@pytest.mark.parametrize(
    ("reset", "of", "offset"),
    [
        (Reset(Target.EARLIEST), known(), 10),
        (Reset(Target.LATEST), known(), 50),
        (Reset(Target.CURRENT), known(), 40),
        (Reset(Target.CURRENT), known(None), 50),
        (Reset(Target.OFFSET, 11), known(), 11),
        (Reset(Target.SHIFT, -30), known(), 10),
        (Reset(Target.SHIFT, 10), known(), 50),
        (Reset(Target.TIME, 1), known(at_time=33), 33),
    ],
    ids=str,
)
def test_reset_within_the_log_commits_the_offset(
    reset: Reset, of: PartitionOffsets, offset: int
) -> None:
    assert resets.plan(reset, {A0: of}) == ({A0: offset}, [])


@pytest.mark.parametrize(
    ("reset", "of", "offset", "warning"),
    [
        (Reset(Target.OFFSET, 9), known(), 10, "9 of a-0 is lower than the log start offset 10"),
        (Reset(Target.OFFSET, 51), known(), 50, "51 of a-0 is higher than the log end offset 50"),
        (Reset(Target.SHIFT, 11), known(), 50, "51 of a-0 is higher"),
        (Reset(Target.CURRENT), known(3), 10, "3 of a-0 is lower"),
        (Reset(Target.TIME, 1), known(at_time=-1), 50, "a-0 has no record that is new enough"),
    ],
    ids=str,
)
def test_reset_beyond_the_log_commits_its_nearer_end_and_warns(
    reset: Reset, of: PartitionOffsets, offset: int, warning: str
) -> None:
    offsets, (text,) = resets.plan(reset, {A0: of})
    assert offsets == {A0: offset}
    assert warning in text


def test_offset_that_was_never_committed_cannot_be_shifted() -> None:
    with pytest.raises(BadRequest, match="a-0 has no committed offset that could be shifted"):
        resets.plan(Reset(Target.SHIFT, 1), {A0: known(None)})


def test_partitions_are_parsed_as_topic_and_numbers() -> None:
    assert resets.parse_partitions(["a", "b:2,0,2"]) == {"a": None, "b": [0, 2]}


@pytest.mark.parametrize("texts", [["a:"], [":1"], ["a:x"], ["a:1,"], [""], ["a", "a:1"]])
def test_wrong_partitions_are_refused(texts: list[str]) -> None:
    with pytest.raises(BadRequest, match="--topic"):
        resets.parse_partitions(texts)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:01.5", 1500),
        ("1970-01-01T00:00:01.500Z", 1500),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1970-01-02", 86_400_000),
    ],
)
def test_times_are_utc_unless_they_have_a_zone(text: str, ms: int) -> None:
    assert resets.parse_time_ms(text) == ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("P1DT2H3M4.5S", 93_784_500),
        ("PT10M", 600_000),
        ("P7D", 604_800_000),
        ("90s", 90_000),
        ("12h", 43_200_000),
    ],
)
def test_durations_are_parsed(text: str, ms: int) -> None:
    assert resets.parse_duration_ms(text) == ms


@pytest.mark.parametrize("text", ["P", "PT", "P1H", "PT1D", "soon", "-PT1S", ""])
def test_wrong_durations_are_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="write PnDTnHnMnS, or 90s"):
        resets.parse_duration_ms(text)


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", ""])
def test_wrong_times_are_refused(text: str) -> None:
    with pytest.raises(BadRequest, match=r"write YYYY-MM-DDTHH:MM:SS\.sss"):
        resets.parse_time_ms(text)
