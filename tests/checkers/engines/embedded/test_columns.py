"""Literals, operators and orders are what PySpark's are."""

import math
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.engines.embedded.columns import Column, Window, literal
from checkers.engines.embedded.functions import Functions

F = Functions()
LITERALS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(min_value=-(1 << 63), max_value=(1 << 63) - 1),
    st.floats(),
    st.text(st.characters(exclude_characters="\0", codec="utf-8")),
)


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    """One database for all."""
    with duckdb.connect() as connection:
        yield connection


def value_of(duck: duckdb.DuckDBPyConnection, column: Column) -> Any:
    """What an expression over no table is."""
    found = duck.execute(f"SELECT {column.text}").fetchone()
    assert found is not None
    return found[0]


@settings(max_examples=300)
@given(value=LITERALS)
def test_a_literal_survives(duck: duckdb.DuckDBPyConnection, value: Any) -> None:
    """Quotes, signs, the largest numbers and no number at all come back as they were given."""
    found = value_of(duck, F.lit(value))
    if isinstance(value, float) and math.isnan(value):
        assert math.isnan(found)
    else:
        assert repr(found) == repr(value)
        assert type(found) is type(value)


@settings(max_examples=100)
@given(
    texts=st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8")), max_size=4),
    number=st.integers(min_value=-(1 << 31), max_value=1 << 31),
)
def test_literals_survive_beside_others(
    duck: duckdb.DuckDBPyConnection, texts: list[str], number: int
) -> None:
    """What a text holds neither ends it nor comments anything out, wherever it stands."""
    column = (F.lit(0) - F.lit(number) == F.lit(-number)) & F.lit("x").isin("x", *texts)
    assert value_of(duck, column) is True
    joined = F.concat(F.lit(""), *(F.lit(text) for text in texts))
    assert value_of(duck, joined) == "".join(texts)


def test_value_that_is_not_a_literal_is_refused() -> None:
    """A list, for instance."""
    with pytest.raises(TypeError, match="is not a literal"):
        literal([1])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (F.lit(2) - F.lit(3) - F.lit(4), -5),
        (F.lit(2) - (F.lit(3) - F.lit(4)), 3),
        (F.lit(2) * (F.lit(3) + 4), 14),
        (F.lit(-7) % F.lit(3), -1),
        (F.lit(1 << 40) * 3, 3 << 40),
        ((F.lit(1) == 1) | (F.lit(1) == 2) & (F.lit(1) == 3), True),
        (((F.lit(1) == 1) | (F.lit(1) == 2)) & (F.lit(1) == 3), False),
        (~((F.lit(1) == 1) & (F.lit(1) != 2)), False),
        (~F.lit(3).isin([1, 2]), True),
        (F.lit(3).isin([]), False),
        (F.lit(None).isNull(), True),
        (F.lit(None).isNotNull(), False),
        (F.lit(None) == F.lit(None), None),
        ((F.lit(None) == 1) | F.lit(True), True),
        (F.when(F.lit(1) > 2, "a").when(F.lit(1) >= 1, "b").otherwise("c"), "b"),
        (F.when(F.lit(1) > 2, "a").when(F.lit(1) < 1, "b").otherwise(None), None),
        (F.when(F.lit(1) <= 0, F.lit(5)), None),
        (F.coalesce(F.lit(None), F.lit(4)) + 1, 5),
        (F.greatest(F.lit(None), F.lit(4), F.lit(-5)), 4),
        (F.least(F.lit(None), F.lit(4), F.lit(-5)), -5),
        (F.concat(F.lit("a"), F.lit(None).cast("string")), None),
        (F.concat(F.lit("a"), F.lit(3).cast("string")), "a3"),
        (F.shiftright(F.lit((7 << 32) + 5), 32), 7),
        (F.lit("12").cast("bigint") + 1, 13),
    ],
    ids=lambda value: value.text[:40] if isinstance(value, Column) else str(value),
)
def test_expressions(duck: duckdb.DuckDBPyConnection, column: Column, expected: Any) -> None:
    """Operators bind as they are written, and null is neither true nor false."""
    assert value_of(duck, column) == expected


def test_division_in_whole_numbers(duck: duckdb.DuckDBPyConnection) -> None:
    """Exact beyond what a double holds."""
    divided = F.expr("`a` div 1000").text
    found = duck.execute(f"SELECT {divided} FROM (SELECT {(1 << 62) + 999} AS a)").fetchone()
    assert found == (((1 << 62) + 999) // 1000,)


def test_a_thousand_alternatives_are_one_list(duck: duckdb.DuckDBPyConnection) -> None:
    """Chains do not become towers of parentheses, which the parser bounds."""
    condition = F.lit(-1) == 0
    for number in range(3000):
        condition = condition | ((F.lit(2999) == number) & (F.lit(1) == 1))
    assert value_of(duck, condition) is True


def test_null_is_the_least_in_every_order(duck: duckdb.DuckDBPyConnection) -> None:
    """Ascending it comes first, descending last, as in Spark."""
    rows = "(SELECT unnest([3, NULL, 1]) AS a)"
    for order, expected in (("a", [None, 1, 3]), (F.col("a").desc(), [3, 1, None])):
        rank = F.row_number().over(Window().orderBy(order)).text
        found = duck.execute(f"SELECT a, {rank} AS r FROM {rows} ORDER BY r").fetchall()
        assert [row[0] for row in found] == expected


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ((Window.unboundedPreceding, -1), [None, 1, 3, 6]),
        ((Window.unboundedPreceding, Window.currentRow), [1, 3, 6, 10]),
        ((-1, 1), [3, 6, 9, 7]),
        ((1, Window.unboundedFollowing), [9, 7, 4, None]),
    ],
)
def test_bounds_of_windows(
    duck: duckdb.DuckDBPyConnection, bounds: tuple[int, int], expected: list[int]
) -> None:
    """Rows before, behind, and all of them."""
    column = F.sum("a").over(Window().orderBy("a").rowsBetween(*bounds))
    rows = duck.execute(
        f"SELECT {column.text} FROM (SELECT unnest([1, 2, 3, 4]) AS a) ORDER BY a"
    ).fetchall()
    assert [row[0] for row in rows] == expected


def test_a_column_has_no_truth_value() -> None:
    """`and` between two columns would silently be one of them."""
    with pytest.raises(TypeError, match="write & for and"):
        assert F.col("a") == 1


def test_an_unknown_type_is_refused() -> None:
    """With those that are known."""
    with pytest.raises(ValueError, match=r"cannot cast to 'decimal'.*bigint"):
        F.col("a").cast("decimal")
