"""After a crash at any storage operation, coordinators know what they acknowledged, and no more."""

from pathlib import Path

import pytest

from nodes.coordinators.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from nodes.storage.memory import MemoryDisk
from tests.support.nodes.coordinator_lives import CoordinatorLife
from tests.tools.storage_crashes import CrashingDisk, sweep, sweep_files

DAILY = (
    "nodes/server/coordinators/test_kills.py"
    "::test_coordinators_survive_a_crash_at_some_storage_operations"
)
pytestmark = pytest.mark.usefixtures("quiet_nodes")


def test_the_life_rolls_and_cleans_the_internal_topics() -> None:
    """Otherwise none of these operations is died at."""
    disk = CrashingDisk(MemoryDisk())
    CoordinatorLife().run(disk)
    for topic in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
        done = [each for each in disk.log if f" {topic}-0/" in each]
        assert sum(each.endswith(".log") and each.startswith("create") for each in done) > 10
        assert sum(".swap to" in each for each in done) > 30


@pytest.mark.slow
def test_coordinators_survive_a_crash_at_some_storage_operations() -> None:
    """Kills, and power losses of two kinds; the next start crashes too."""
    assert sweep(CoordinatorLife, seeds=range(1), operations=range(5, 2000, 127)) > 30


@pytest.mark.slow
@pytest.mark.nightly(DAILY)
def test_coordinators_survive_a_crash_at_many_storage_operations() -> None:
    """More of the same; all of them, with many seeds, is a command: see `coordinator_lives`."""
    assert sweep(CoordinatorLife, seeds=range(1), operations=range(0, 2000, 3)) > 1400


@pytest.mark.slow
@pytest.mark.nightly(DAILY)
def test_coordinators_on_real_files_survive_being_killed(tmp_path: Path) -> None:
    assert sweep_files(CoordinatorLife, tmp_path, stride=113) > 10
