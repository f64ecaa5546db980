"""Floods of the coordinators: memory grows as docs/performance.md says, with a wide margin."""

import asyncio
from pathlib import Path
from typing import Final

import pytest
from kio.schema.errors import ErrorCode

from tests.tools.floods import METADATA_COMMITS, Flood, flood

pytestmark = pytest.mark.slow

COUNT: Final = 10_000
MOST_BYTES: Final = 6_000
"""For each thing, some six times what was measured."""


def run(name: str, count: int, folder: Path, *properties: str) -> tuple[Flood, int]:
    return asyncio.run(flood(name, count, folder, properties))


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("pending", ErrorCode.member_id_required),
        ("groups", ErrorCode.none),
        ("ids", ErrorCode.none),
    ],
)
def test_ten_thousand_things_cost_little_memory(
    name: str, answer: ErrorCode, tmp_path: Path
) -> None:
    """Member ids that nobody comes back with, groups with an offset, transactional ids."""
    result, members = run(name, COUNT, tmp_path)
    assert result.answers == {answer: COUNT}
    assert members == 0
    assert result.bytes_each < MOST_BYTES


def test_a_group_grows_to_its_largest_size_and_no_further(tmp_path: Path) -> None:
    """The others are refused at once. Members who are late for a rebalance do not count, as in
    Kafka, and are removed at its end.
    """
    size = 200
    result, members = run("members", 1000, tmp_path, f"group.max.size={size}")
    assert size <= members <= 2 * size
    refused = result.answers[ErrorCode.group_max_size_reached]
    assert 1000 - 2 * size <= refused <= 1000 - size, "some that were let in may be gone again"
    assert result.grown_kb < 1000 * MOST_BYTES >> 10


def test_a_megabyte_of_metadata_is_refused(tmp_path: Path) -> None:
    """offset.metadata.max.bytes is 4096. Nothing of it is kept."""
    result, _ = run("metadata", METADATA_COMMITS, tmp_path)
    assert result.answers == {ErrorCode.offset_metadata_too_large: METADATA_COMMITS}
    assert result.grown_kb < METADATA_COMMITS << 10
