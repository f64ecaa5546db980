"""Medians, spreads and ratios."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.bench.stats import Spread, paired_ratio, quantile, spread, unpaired_ratio

POSITIVE = st.floats(min_value=1e-3, max_value=1e6)


def test_spread() -> None:
    """The median lies between the extremes, and an even number of rounds has one too."""
    assert spread([3.0, 1.0, 2.0]) == Spread(median=2.0, least=1.0, most=3.0, count=3)
    assert spread([1.0, 2.0]).median == 1.5


def test_no_values_have_no_spread() -> None:
    """Nothing measured is no zero."""
    with pytest.raises(ValueError, match="no values"):
        spread([])
    with pytest.raises(ValueError, match="no values"):
        quantile([], 0.5)


def test_ratio_is_of_the_same_round() -> None:
    """A machine that slows down half-way hits both systems, and the ratio shows none of it."""
    ours, theirs = {0: 10.0, 1: 5.0, 2: 2.0}, {0: 20.0, 1: 10.0, 2: 4.0}
    assert paired_ratio(ours, theirs) == Spread(median=0.5, least=0.5, most=0.5, count=3)


def test_ratio_leaves_out_rounds_without_a_pair() -> None:
    """A failed round on either side has no ratio, nor has a division by zero."""
    found = paired_ratio({0: 1.0, 1: 2.0, 3: 4.0}, {1: 1.0, 2: 1.0, 3: 0.0})
    assert found == Spread(median=2.0, least=2.0, most=2.0, count=1)
    assert paired_ratio({0: 1.0}, {1: 1.0}) is None


def test_unpaired_ratio_is_as_wide_as_its_extremes() -> None:
    """Without pairs the worst of one may have met the best of the other."""
    found = unpaired_ratio(spread([1.0, 2.0, 4.0]), spread([1.0, 2.0]))
    assert found == Spread(median=2 / 1.5, least=0.5, most=4.0, count=2)
    assert unpaired_ratio(spread([1.0]), spread([0.0])) is None


@given(st.lists(POSITIVE, min_size=1), st.floats(min_value=0, max_value=1))
def test_quantile_was_measured(values: list[float], share: float) -> None:
    """A quantile is one of the values, and at most `share` of them (and itself) lie below it."""
    ordered = sorted(values)
    found = quantile(ordered, share)
    assert found in ordered
    assert sum(value < found for value in ordered) <= share * len(ordered)


def test_quantile_of_a_hundred() -> None:
    """The 99th percentile of a hundred is the greatest but none."""
    assert quantile(range(100), 0.99) == 99
    assert quantile(range(100), 0.5) == 50
