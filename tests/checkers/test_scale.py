"""Everything that is planted in a larger history is found, and nothing else."""

from pathlib import Path

import pytest

from checkers.check import check
from tests.checkers.scale import differences
from tests.checkers.scale_history import Size, write_run


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [1, 16])
def test_finds_what_was_planted(tmp_path: Path, partitions: int) -> None:
    """Of every kind as many as there are, in one partition as in several."""
    planted = write_run(tmp_path / "run", Size(sends=64_000, partitions=partitions, each=3))
    assert not differences(check(tmp_path / "run"), planted)


@pytest.mark.slow
def test_tells_what_was_missed(tmp_path: Path) -> None:
    """The comparison itself notices an anomaly that nobody found."""
    planted = write_run(tmp_path / "run", Size(sends=64_000, partitions=4, each=3))
    told = differences(check(tmp_path / "run"), {**planted, "duplicate": 4})
    assert told == ["duplicate: 4 planted, 3 found"]
