"""What is there twice is never taken for something that is there once."""

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.engines.engine import DuckDbEngine
from checkers.frames.repeats import split

ROWS = pa.schema([("place", pa.string()), ("n", pa.int64())])
NUMBERS = st.one_of(
    st.integers(-70, 70), st.integers(-(1 << 63), (1 << 63) - 1), st.sampled_from([31, 32, -1, 0])
)


@pytest.fixture(scope="module")
def engine() -> Iterator[DuckDbEngine]:
    """One engine for all."""
    made = DuckDbEngine(threads=1)
    yield made
    made.close()


def _pairs(engine: DuckDbEngine, frame: object) -> list[tuple[str, int]]:
    return [(row["place"], row["n"]) for row in engine.rows(frame)]


@settings(max_examples=60)
@given(rows=st.lists(st.tuples(st.sampled_from("ab"), st.none() | NUMBERS), max_size=40))
def test_rows_are_split_by_repeated_numbers(
    engine: DuckDbEngine, rows: list[tuple[str, int | None]]
) -> None:
    """No row is lost, each single one is single, and nothing is suspected without a repeat."""
    table = pa.Table.from_pylist([{"place": p, "n": n} for p, n in rows], schema=ROWS)
    several, single = split(engine, engine.load([table], ROWS), "n", within=["place"])
    known = Counter(row for row in rows if row[1] is not None)
    once = _pairs(engine, single)
    often = [] if several is None else _pairs(engine, several)
    assert Counter([*once, *often]) == known
    assert all(known[row] == 1 for row in once)
    assert (several is None) == all(count == 1 for count in known.values())


def test_equal_numbers_in_other_groups_are_not_repeated(engine: DuckDbEngine) -> None:
    """Unless nobody asks where."""
    table = pa.Table.from_pylist([{"place": "a", "n": 7}, {"place": "b", "n": 7}], schema=ROWS)
    rows = engine.load([table], ROWS)
    assert split(engine, rows, "n", within=["place"])[0] is None
    assert len(_pairs(engine, split(engine, rows, "n")[0])) == 2
