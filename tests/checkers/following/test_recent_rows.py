"""Rows by two keys: the last ones that were added, and no more than the limit."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from checkers.following.columns import Ints
from checkers.following.recent_rows import CARRIED, RecentRows

ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(-3, 3), st.integers(0, 9)), max_size=12)


def arrays(rows: list[tuple[int, int, int]]) -> tuple[Ints, Ints, Ints]:
    """Groups, keys and numbers."""
    group, key, number = np.array(rows, np.int64).reshape(-1, 3).T
    return group, key, number


@given(pieces=st.lists(ROWS, max_size=4), limit=st.integers(1, 8))
def test_rows_are_those_of_a_dict(pieces: list[list[tuple[int, int, int]]], limit: int) -> None:
    """Within a piece none is forgotten; after it those that were added last are kept."""
    known, added = RecentRows(limit, 1), list[tuple[int, int, int, int]]()
    for rows in pieces:
        group, key, number = arrays(rows)
        known.add(np.arange(len(rows)), group, key, number)
        added += [(*row, at) for at, row in enumerate(rows)]
        model = {each[:2]: each[2:] for each in added}
        asked = [(group, key) for group in range(4) for key in range(-4, 5)]
        found, columns = known.find(*np.array(asked).T)
        assert found.tolist() == [each in model for each in asked]
        told = [tuple(columns[n].tolist()) for n, each in enumerate(asked) if each in model]
        assert told == [model[each][::-1] for each in asked if each in model]
        known.forget()
        added = [(*row[:3], CARRIED) for row in added[-limit:]]
        assert len(known) == len(added)
