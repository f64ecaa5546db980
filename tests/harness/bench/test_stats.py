"""Medians, spreads and ratios."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.bench.stats import Spread, paired_ratio, quantile, spread, unpaired_ratio

POSITIVE = st.floats(min_value=1e-3, max_value=1e6)


def test_spread_has_median_and_extremes() -> None:
    """An even number of values has a median too."""
    assert spread([3.0, 1.0, 2.0]) == Spread(median=2.0, least=1.0, most=3.0, count=3)
    assert spread([1.0, 2.0]).median == 1.5


def test_no_values_have_no_spread() -> None:
    with pytest.raises(ValueError, match="no values"):
        spread([])
    with pytest.raises(ValueError, match="no values"):
        quantile([], 0.5)


def test_ratio_compares_values_of_the_same_round() -> None:
    """A machine that slows down affects both systems, and not the ratio."""
    ours, theirs = {0: 10.0, 1: 5.0, 2: 2.0}, {0: 20.0, 1: 10.0, 2: 4.0}
    assert paired_ratio(ours, theirs) == Spread(median=0.5, least=0.5, most=0.5, count=3)


def test_ratio_leaves_out_rounds_without_a_pair() -> None:
    """A failed round has no ratio, and neither has a division by zero."""
    found = paired_ratio({0: 1.0, 1: 2.0, 3: 4.0}, {1: 1.0, 2: 1.0, 3: 0.0})
    assert found == Spread(median=2.0, least=2.0, most=2.0, count=1)
    assert paired_ratio({0: 1.0}, {1: 1.0}) is None


def test_unpaired_ratio_reaches_from_extreme_to_extreme() -> None:
    found = unpaired_ratio(spread([1.0, 2.0, 4.0]), spread([1.0, 2.0]))
    assert found == Spread(median=2 / 1.5, least=0.5, most=4.0, count=2)
    assert unpaired_ratio(spread([1.0]), spread([0.0])) is None


@given(st.lists(POSITIVE, min_size=1), st.floats(min_value=0, max_value=1))
def test_quantile_is_one_of_the_values(values: list[float], share: float) -> None:
    """At most `share` of the values lie below it."""
    ordered = sorted(values)
    found = quantile(ordered, share)
    assert found in ordered
    assert sum(value < found for value in ordered) <= share * len(ordered)


def test_quantiles_of_a_hundred_values() -> None:
    assert quantile(range(100), 0.99) == 99
    assert quantile(range(100), 0.5) == 50
