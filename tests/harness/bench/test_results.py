"""The JSON file, and the comparisons made from samples."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.bench import results
from harness.bench.options import BenchError
from harness.bench.points import Measure
from harness.bench.results import Result, Sample
from tests.support.bench_results import result


def test_result_survives_its_file(tmp_path: Path) -> None:
    """What is written is read back, failures included."""
    made = result(("ours", "theirs"))
    failed = Sample(point=made.points[0], system="ours", round=9, values={}, error="gone")
    made = replace(made, samples=[*made.samples, failed], stopped=True)
    results.save(made, tmp_path / "r.json")
    assert results.load(tmp_path / "r.json") == made
    assert results.load(tmp_path / "r.json").failures == [failed]


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"schema": "highwater-bench/0"}', '{"schema": "highwater-bench/1"}']
)
def test_foreign_files_are_refused(tmp_path: Path, text: str) -> None:
    """A baseline that is no result is refused in a sentence that names it."""
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(BenchError, match=r"other\.json: is no result"):
        results.load(path)


def test_missing_and_unwritable_files(tmp_path: Path) -> None:
    """So is a file that is not there, and one that cannot be."""
    with pytest.raises(BenchError, match="cannot be read"):
        results.load(tmp_path / "none.json")
    with pytest.raises(BenchError, match="cannot be written"):
        results.save(result(), tmp_path / "no" / "r.json")


def test_file_names_its_schema(tmp_path: Path) -> None:
    """Other programs know what they read."""
    results.save(result(), tmp_path / "r.json")
    assert json.loads((tmp_path / "r.json").read_text())["schema"] == "highwater-bench/1"


def test_spreads_and_ratios() -> None:
    """Of the rounds of one point; the second system's numbers are twice the first's."""
    made = result(("ours", "theirs"))
    point = next(p for p in made.points if p.measure is Measure.SHUTDOWN)
    found = made.spread(point, "ours", "gap_ms")
    assert found is not None
    assert (found.least, found.count) == (30.0, 3)
    ratio = made.ratio(point, "theirs", "ours")
    assert ratio is not None
    assert (ratio.least, ratio.median, ratio.most) == pytest.approx((2.0, 2.0, 2.0))
    assert made.spread(point, "nobody", "gap_ms") is None


@pytest.mark.parametrize(
    ("names", "expected"),
    [(("ours",), 2.0), (("other",), 2.0), (("ours", "other"), 2.0), (("a", "b"), None)],
)
def test_baseline_is_the_system_of_that_name(
    names: tuple[str, ...], expected: float | None
) -> None:
    """Or the only one there is; among several others nobody can know which."""
    baseline: Result = result(names)
    made = result(("ours",), factor=2)
    ratio = results.against_baseline(made, baseline, made.points[0], "ours")
    assert (ratio and ratio.median) == expected
