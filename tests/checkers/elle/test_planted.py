"""Everything that is planted among transactions is found, and nothing else."""

from pathlib import Path

import pytest

from tests.support.checkers.transaction_history import KINDS, Size
from tests.support.tiers import at_turn
from tests.tools.transaction_scale import FOLLOWING, Measured, differences, measure, write


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with three anomalies of each kind."""
    size = Size(transactions=5_000, each=3)
    assert size.transactions >= size.least
    folder = tmp_path_factory.mktemp("planted") / "run"
    write(folder, size)
    return folder


@pytest.fixture(scope="module")
def measured(run_dir: Path) -> Measured:
    """What DuckDB finds."""
    return measure(run_dir, "duckdb", pieces=2)


def test_planted_anomalies_are_found_and_no_others(run_dir: Path, measured: Measured) -> None:
    """Each kind by its name; the steps were timed."""
    assert differences(run_dir, measured) == []
    assert set(KINDS) <= set(measured.found)
    assert set(measured.seconds) == {"detectors", "graph", *FOLLOWING}


def test_missed_and_invented_anomalies_are_named(run_dir: Path, measured: Measured) -> None:
    """The comparison itself notices both, and a graph without an answer."""
    wrong = Measured(found=measured.found.copy(), trouble=["too many edges"])
    wrong.found["G0"] -= 1
    wrong.found["G3"] += 1
    assert differences(run_dir, wrong) == [
        "G0: 3 planted, 2 found", "G3: 0 planted, 1 found", "too many edges",
    ]  # fmt: skip


@pytest.mark.slow
@at_turn(3, 4, "checkers/elle/test_graph.py::test_names_circles_on_spark")
def test_spark_finds_the_same(run_dir: Path, measured: Measured) -> None:
    """As many of each kind."""
    assert measure(run_dir, "spark", pieces=2).found == measured.found
