"""The JSON file of a result, and comparisons of samples."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.bench import results
from harness.bench.options import BenchError
from harness.bench.points import Measure
from harness.bench.results import Result, Sample
from tests.support.bench_results import result


def test_result_is_read_back_from_its_file(tmp_path: Path) -> None:
    """Failures included."""
    made = result(("ours", "theirs"))
    failed = Sample(point=made.points[0], system="ours", round=9, values={}, error="gone")
    made = replace(made, samples=[*made.samples, failed], stopped=True)
    results.save(made, tmp_path / "r.json")
    assert results.load(tmp_path / "r.json") == made
    assert results.load(tmp_path / "r.json").failures == [failed]


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"schema": "highwater-bench/0"}', '{"schema": "highwater-bench/1"}']
)
def test_file_that_is_no_result_is_refused(tmp_path: Path, text: str) -> None:
    """The message names the file."""
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(BenchError, match=r"other\.json: is no result"):
        results.load(path)


def test_missing_and_unwritable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="cannot be read"):
        results.load(tmp_path / "none.json")
    with pytest.raises(BenchError, match="cannot be written"):
        results.save(result(), tmp_path / "no" / "r.json")


def test_file_names_its_schema(tmp_path: Path) -> None:
    results.save(result(), tmp_path / "r.json")
    assert json.loads((tmp_path / "r.json").read_text())["schema"] == "highwater-bench/1"


def test_spread_and_ratio_of_a_point_over_its_rounds() -> None:
    """The second system's values are twice the first's."""
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
def test_baseline_is_the_system_of_the_same_name_or_the_only_one(
    names: tuple[str, ...], expected: float | None
) -> None:
    """With several other systems there is no comparison."""
    baseline: Result = result(names)
    made = result(("ours",), factor=2)
    ratio = results.against_baseline(made, baseline, made.points[0], "ours")
    assert (ratio and ratio.median) == expected
