"""Rows by columns are the rows that Arrow itself makes."""

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from checkers.following.columns import COLUMNS, KINDS, pieces_of
from checkers.history.history import HISTORY, table

NUMBERS = st.none() | st.integers(min_value=-(1 << 62), max_value=1 << 62)
SMALL = st.none() | st.integers(min_value=-128, max_value=127)
TEXTS = st.none() | st.sampled_from(("", "a", "t-1", "é"))
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "f": st.sampled_from((*KINDS, "final-read", "commit-transaction")),
            "type": st.sampled_from(("ok", "fail", "info")),
            "op": st.integers(min_value=0, max_value=1 << 62),
            "client": st.just(1),
            "invoke_ns": st.just(0),
            "value": NUMBERS,
            "offset": NUMBERS,
            "acks": SMALL,
            "topic": TEXTS,
            "transactional_id": TEXTS,
        }
    ),
    max_size=20,
)


@given(rows=ROWS, cut=st.integers(min_value=0, max_value=20), at_a_time=st.integers(1, 20))
def test_rows_are_those_of_arrow(rows: list[dict[str, Any]], cut: int, at_a_time: int) -> None:
    """Whole numbers of 64 bits stay exact, nulls stay nulls, and other kinds of rows are left out,
    also in a table of several pieces."""
    made = table(HISTORY, rows)
    pieces = pa.concat_tables([made.slice(0, cut), made.slice(cut)])
    wanted = [row for row in made.select(list(COLUMNS)).to_pylist() if row["f"] in KINDS]
    made_again = pieces_of(pieces, at_a_time=at_a_time)
    assert [row for each in made_again for row in each.rows(np.arange(len(each)))] == wanted
