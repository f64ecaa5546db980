"""Axes and paths: round ticks, honest gaps, nothing outside of its panel."""

import pytest

from harness.report.panels import rate_panels
from harness.report.scales import (
    LogScale,
    TimeAxis,
    bars,
    decades,
    latency_label,
    line,
    nice_ceiling,
    time_label,
)
from harness.report.series import AcksSeries, Series
from harness.report.timeline import Timeline


def test_a_line_stops_where_there_is_no_value() -> None:
    """A gap is not bridged, and a lone point is still to be seen."""
    assert line([(0, 1.0), (1, 2.0), (2, None), (3, 4.0)]) == "M0 1L1 2M3 4h2"
    assert line([(0, None)]) == ""


def test_bars_without_height_are_left_out() -> None:
    """A bucket in which nothing happened draws nothing."""
    assert bars([(0, 1, 10.0), (1, 2, 4.0)], base=10.0) == "M1 10V4H2V10z"


@pytest.mark.parametrize(
    ("values", "expected"),
    [([], (-1, 3)), ([2.0], (0, 1)), ([0.04, 900.0], (-2, 3)), ([1.0, 1000.0], (0, 3))],
)
def test_decades_hold_all_values(values: list[float], expected: tuple[int, int]) -> None:
    """Whole decades around what was measured, at least one."""
    assert decades(values) == expected


def test_a_value_beyond_the_scale_stays_in_the_panel() -> None:
    """Also infinitely slow and infinitely quick."""
    scale = LogScale(low_decade=-1, high_decade=2, top=10.0, bottom=70.0)
    assert [scale.y(v) for v in (1e-9, 0.1, 1.0, 100.0, 1e9)] == pytest.approx([70, 70, 50, 10, 10])


@pytest.mark.parametrize("span_s", [0.2, 9.0, 92.0, 3_600.0, 86_400.0, 40 * 86_400.0])
def test_time_ticks_are_few(span_s: float) -> None:
    """A second or a day: ticks that can be read."""
    ticks = TimeAxis(span_s=span_s, left=0, right=1000).ticks()
    assert 1 <= len(ticks) <= (15 if span_s <= 14 * 86_400 else 41)
    assert ticks[0].label == "0 s"


@pytest.mark.parametrize(
    ("value", "expected"), [(0, 1), (1, 1), (112, 150), (0.3, 1), (5_001, 6_000), (801, 1_000)]
)
def test_nice_ceiling(value: float, expected: float) -> None:
    """The next round number, never below the value."""
    assert nice_ceiling(value) == expected


def test_a_burst_does_not_flatten_the_rest() -> None:
    """What waited for a leader comes at once: cut off at the top of the scale, and marked so."""
    acked = [200] * 99 + [20_000]
    nothing: list[float | None] = [None] * 100
    calm = AcksSeries(
        acks=1, acked=acked, failed=[0] * 100, indeterminate=[0] * 100, p50_ms=nothing,
        p99_ms=nothing, dots=[], sends=0,
    )  # fmt: skip
    series = Series(
        span_s=100.0, step_s=1.0, acks=(calm,), topics=(),
        timeline=Timeline(lanes=(), lanes_left_out=0, crowded_s=None, faults=(), faults_left_out=0),
    )  # fmt: skip
    (panel,), _ = rate_panels(series, TimeAxis(span_s=100.0, left=0, right=1000), 0.0)
    assert panel.ticks[0].label == "400"
    assert panel.beyond.count("M") == 1
    assert f"V{panel.top:g}H" in panel.acked


def test_labels() -> None:
    """Units that people read."""
    assert [latency_label(v) for v in (0.01, 0.1, 10, 1000)] == ["10 µs", "0.1 ms", "10 ms", "1 s"]
    assert [time_label(v) for v in (90, 1200, 11_400)] == ["90 s", "20 min", "3 h 10 min"]
