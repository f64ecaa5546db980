"""The turns of a benchmark."""

from dataclasses import replace

from harness.bench.options import MeasuredSystem
from harness.bench.points import Measure, PointSelection
from harness.bench.results import CLIENT_ALONE
from harness.bench.runner import _turns
from tests.harness.bench.test_options import OPTIONS


def test_a_running_cluster_is_not_measured_by_its_files() -> None:
    """The cluster that the benchmark starts beside it is."""
    options = replace(
        OPTIONS,
        systems=(
            MeasuredSystem(name="running", bootstrap="h:1"),
            MeasuredSystem(name="started", bootstrap=None),
        ),
        selection=PointSelection(measures=(Measure.COMPACTION, Measure.COPIES), clients=()),
    )
    turns = _turns(options, options.points)
    measured = {(turn.point.measure, turn.system) for turn in turns if turn.system != CLIENT_ALONE}
    assert measured == {
        (Measure.COMPACTION, "started"),
        (Measure.COPIES, "running"),
        (Measure.COPIES, "started"),
    }
