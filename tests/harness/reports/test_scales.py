"""Scales and paths: honest gaps, nothing outside of its panel."""

import pytest

from harness.reports.scales import LogScale, decades, latency_label, line


def test_a_line_stops_where_there_is_no_value() -> None:
    """A gap is not bridged, and a lone point is still to be seen."""
    assert line([(0, 1.0), (1, 2.0), (2, None), (3, 4.0)]) == "M0 1L1 2M3 4h2"
    assert line([(0, None)]) == ""


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


def test_labels() -> None:
    """Units that people read."""
    assert [latency_label(v) for v in (0.01, 0.1, 10, 1000)] == ["10 µs", "0.1 ms", "10 ms", "1 s"]
