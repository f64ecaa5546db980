"""A log is right, or refused, whatever storage operation it died at."""

from pathlib import Path

import pytest

from tests.support.nodes.log_lives import End, Life, Pages, Transactions
from tests.tools.storage_crashes import sweep, sweep_files


def test_a_log_survives_death_at_some_operations() -> None:
    """Killed, and without power in two ways; recovery dies too."""
    assert sweep(Life, seeds=range(1), operations=range(3, 700, 29)) > 50
    assert sweep(Pages, seeds=range(1), operations=range(11, 700, 41)) > 30
    assert sweep(End, seeds=range(1), operations=range(70, 2000, 3)) > 50
    assert sweep(Transactions, seeds=range(1), operations=range(1, 700, 19)) > 50


@pytest.mark.slow
@pytest.mark.nightly("nodes/log/test_kills.py::test_a_log_survives_death_at_some_operations")
def test_a_log_survives_death_at_many_operations() -> None:
    """More of the same; all of them, with many seeds, is a command: see `lives`."""
    assert sweep(Life, seeds=range(1), operations=range(0, 700, 5)) > 300
    assert sweep(Pages, seeds=range(1), operations=range(2, 700, 11)) > 100
    assert sweep(End, seeds=range(2)) > 300
    assert sweep(Transactions, seeds=range(2), operations=range(0, 700, 3)) > 300


@pytest.mark.slow
def test_a_log_of_real_files_survives_being_killed(tmp_path: Path) -> None:
    """The same over a real file system, at some of the operations; its syncs take their time."""
    assert sweep_files(Life, tmp_path, stride=47) > 12
