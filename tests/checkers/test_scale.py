"""Everything that is planted in a larger history is found, and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

from checkers.check import check
from tests.support.checkers.scale_history import Size, write_run
from tests.tools.checker_scale import differences

_WITHOUT_PANDAS = """
import sys
from pathlib import Path
from checkers.check import check
check(Path(sys.argv[1]))
sys.exit("pandas" in sys.modules)
"""


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [1, 16])
def test_all_planted_anomalies_are_found(tmp_path: Path, partitions: int) -> None:
    """Of every kind as many as there are, in one partition as in several."""
    planted = write_run(tmp_path / "run", Size(sends=64_000, partitions=partitions, each=3))
    assert not differences(check(tmp_path / "run"), planted)


@pytest.mark.slow
def test_comparison_notices_a_missed_anomaly(tmp_path: Path) -> None:
    """The comparison itself notices an anomaly that nobody found."""
    planted = write_run(tmp_path / "run", Size(sends=64_000, partitions=4, each=3))
    told = differences(check(tmp_path / "run"), {**planted, "duplicate": 4})
    assert told == ["duplicate: 4 planted, 3 found"]


@pytest.mark.slow
def test_does_not_wait_for_pandas(tmp_path: Path) -> None:
    """Importing it takes longer than judging an ordinary run; much would do so unasked."""
    write_run(tmp_path / "run", Size(sends=64_000, partitions=4, each=3))
    subprocess.run([sys.executable, "-c", _WITHOUT_PANDAS, str(tmp_path / "run")], check=True)
