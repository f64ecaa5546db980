"""What the measurement of the cleaner reads from a broker's files."""

from pathlib import Path

import pytest

from harness.bench.clients.workers import MeasureError
from harness.bench.compaction import clean_up_to, dirty_part


def test_everything_but_the_active_segment_can_be_cleaned(tmp_path: Path) -> None:
    """Its first offset is the end of what a cleaning reaches."""
    for name, size in (("0", 100), ("70", 50), ("120", 7)):
        (tmp_path / f"{name.zfill(20)}.log").write_bytes(b"x" * size)
    (tmp_path / "00000000000000000070.index").write_bytes(b"x" * 1000)
    assert dirty_part(tmp_path) == (150, 120)


def test_a_log_of_one_segment_cannot_be_measured(tmp_path: Path) -> None:
    """No cleaner would touch it."""
    (tmp_path / "00000000000000000000.log").write_bytes(b"x")
    with pytest.raises(MeasureError, match="no segment besides the active one"):
        dirty_part(tmp_path)


def test_the_clean_offset_is_that_of_the_topic(tmp_path: Path) -> None:
    """Kafka's file; a topic that it does not name is not clean."""
    checkpoint = tmp_path / "cleaner-offset-checkpoint"
    assert clean_up_to(checkpoint, "t") == 0
    checkpoint.write_text("0\n3\nt 1 5\ntt 0 6\nt 0 70\n")
    assert clean_up_to(checkpoint, "t") == 70
    assert clean_up_to(checkpoint, "other") == 0
