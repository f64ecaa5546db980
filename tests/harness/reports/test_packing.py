"""Columns come back as they went in, and take little room."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.reports.packing import GREATEST, Column, pack
from tests.support.reports.blocks import unpacked

NUMBERS = st.lists(st.integers(-(2**51), 2**51), max_size=30)


@given(NUMBERS, st.booleans())
def test_numbers_come_back(numbers: list[int], steady: bool) -> None:
    """Of any size and order, none and equal ones too."""
    column = Column(numbers=np.array(numbers, dtype=np.int64), steady=steady)
    found = unpacked(pack({"name": "ü"}, {"a": column, "b": column}))
    assert found["name"] == "ü"
    assert found["columns"]["a"].tolist() == found["columns"]["b"].tolist() == numbers


def test_what_a_script_cannot_hold_is_refused() -> None:
    """Rather than shown a little wrong."""
    with pytest.raises(ValueError, match="beyond 2"):
        pack({}, {"a": Column(numbers=np.array([GREATEST + 1]))})


def test_what_grows_steadily_takes_next_to_nothing() -> None:
    """A million counters are a few kilobytes."""
    numbers = np.arange(1_000_000, dtype=np.int64)
    assert len(pack({}, {"a": Column(numbers=numbers, steady=True)})) < 4_000
