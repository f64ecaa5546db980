"""A compacted log means the same, whatever storage operation its cleaner died at."""

from pathlib import Path

import pytest

from tests.support.nodes.cleaning_lives import CleaningLife
from tests.tools.storage_crashes import sweep, sweep_files


def test_a_compacted_log_survives_death_at_some_operations() -> None:
    assert sweep(CleaningLife, seeds=range(1), operations=range(10, 2000, 41)) > 20


@pytest.mark.slow
@pytest.mark.nightly(
    "nodes/log/cleaning/test_kills.py::test_a_compacted_log_survives_death_at_some_operations"
)
def test_a_compacted_log_survives_death_at_every_operation() -> None:
    assert sweep(CleaningLife, seeds=range(2)) > 1000


@pytest.mark.slow
def test_a_compacted_log_of_real_files_survives_being_killed(tmp_path: Path) -> None:
    assert sweep_files(CleaningLife, tmp_path, stride=23) > 12
