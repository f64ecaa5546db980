"""Small lines in pages: where each value is drawn, and what is drawn of what is unknown."""

import re

import pytest
from jinja2 import UndefinedError

from harness.reports import html
from harness.reports.html import SPARK_HEIGHT, SPARK_WIDTH, spark

_POINT = re.compile(r"([ML])([\d.]+),([\d.]+)h0\.01")


def points(path: str) -> list[tuple[str, float, float]]:
    """Every point of a path, which must be made of points only: how the pen came there, and x, y,
    downwards from the upper edge."""
    assert _POINT.sub("", path) == ""
    return [(pen, float(x), float(y)) for pen, x, y in _POINT.findall(path)]


def test_a_line_goes_from_the_left_to_the_right_and_up_to_the_greatest() -> None:
    assert points(spark([0, 5, 10])) == [
        ("M", 0, SPARK_HEIGHT - 2),
        ("L", SPARK_WIDTH / 2, SPARK_HEIGHT / 2),
        ("L", SPARK_WIDTH, 2),
    ]


def test_what_is_unknown_is_a_gap() -> None:
    assert [(pen, x) for pen, x, _ in points(spark([None, 4, 4, None, 4]))] == [
        ("M", 30),
        ("L", 60),
        ("M", 120),
    ]


def test_equal_values_lie_where_the_greatest_lies_and_zeros_at_the_bottom() -> None:
    assert {y for _, _, y in points(spark([7, 7]))} == {2}
    assert {y for _, _, y in points(spark([0, 0]))} == {SPARK_HEIGHT - 2}


def test_one_value_is_a_dot_and_none_is_nothing() -> None:
    assert points(spark([3])) == [("M", 0, 2)]
    assert spark([]) == spark([None, None]) == ""


def test_templates_escape_and_miss_nothing_silently() -> None:
    page = html.environment("harness.reports").from_string("{{ name }}")
    assert page.render(name="<b>") == "&lt;b&gt;"
    with pytest.raises(UndefinedError):
        page.render()
