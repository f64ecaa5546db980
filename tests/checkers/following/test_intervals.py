"""The set of sequences: exact within its bound, and honest about what it forgot."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from checkers.following.intervals import Intervals, Seen


@given(st.lists(st.integers(0, 60)))
def test_a_set_while_it_fits(numbers: list[int]) -> None:
    """Within the bound it answers as a set does."""
    known, model = Intervals(100), set[int]()
    for number in numbers:
        assert known.add(number) is (Seen.AGAIN if number in model else Seen.NEW)
        model.add(number)
    assert all(known.seen(number) == (number in model) for number in range(61))
    gaps = sum(number - 1 not in model for number in model)
    assert len(known) == gaps


@given(st.lists(st.integers(0, 60)), st.integers(1, 5))
def test_bounded_and_never_wrong(numbers: list[int], limit: int) -> None:
    """Beyond the bound it says that it does not know, and never that it saw what it did not."""
    known, model = Intervals(limit), set[int]()
    for number in numbers:
        said = known.add(number)
        assert said is not Seen.AGAIN or number in model
        assert said is not Seen.NEW or number not in model
        model.add(number)
        assert len(known) <= limit


@given(st.lists(st.lists(st.integers(0, 60))))
def test_many_at_once(pieces: list[list[int]]) -> None:
    """Many numbers are added and looked for as one after the other, within the bound."""
    known, model = Intervals(100), Intervals(100)
    for numbers in pieces:
        again = known.add_all(np.array(numbers, np.int64))
        assert again.tolist() == [model.add(number) is Seen.AGAIN for number in numbers]
        assert len(known) == len(model)
    every = list(range(62))
    assert known.all_seen(np.array(every)).tolist() == list(map(model.seen, every))


@given(st.lists(st.lists(st.integers(0, 60))), st.integers(1, 5))
def test_many_at_once_are_bounded(pieces: list[list[int]], limit: int) -> None:
    """Beyond the bound none is said to be there that was not added."""
    known, model = Intervals(limit), set[int]()
    for numbers in pieces:
        again = known.add_all(np.array(numbers, np.int64)).tolist()
        for number, seen in zip(numbers, again, strict=True):
            assert not seen or number in model
            model.add(number)
        assert len(known) <= limit
        assert all(number in model for number in range(61) if known.seen(number))


def test_complete_up_to_the_first_gap() -> None:
    """From 0 on; what was forgotten may be a gap."""
    found = Intervals(2)
    assert found.complete_below == 0
    found.add_all(np.array([1, 2]))
    assert found.complete_below == 0
    found.add(0)
    assert found.complete_below == 3
    found.add(4)
    assert found.complete_below == 3
    found.add(6)
    assert found.complete_below == 0
