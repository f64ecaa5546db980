"""What is not written here goes through SQLFrame, and comes back as frames and columns."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from checkers.engines.engine import DuckDbEngine

ROWS = pa.table({"k": [1, 1, 2], "t": ["it's", "b", "c"], "n": [5, -7, None]})


@pytest.fixture(scope="module")
def engine() -> Iterator[DuckDbEngine]:
    """One engine for all."""
    made = DuckDbEngine()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (lambda F, a: a.select(F.upper("t").alias("u")), [{"u": "IT'S"}, {"u": "B"}, {"u": "C"}]),
        (lambda F, a: a.select(F.expr("k + 1").alias("u")), [{"u": 2}, {"u": 2}, {"u": 3}]),
        (lambda F, a: a.where("n > 0").select("k"), [{"k": 1}]),
        (lambda F, a: a.where(F.col("t").startswith("it'")).select("n"), [{"n": 5}]),
        (lambda F, a: a.where(F.col("n").between(-8, -6)).select("t"), [{"t": "b"}]),
        (lambda F, a: a.where(F.abs(F.col("n") - 1) == 8).select("t"), [{"t": "b"}]),
        (lambda F, a: a.groupBy("k").count(), [{"k": 1, "count": 2}, {"k": 2, "count": 1}]),
        (lambda F, a: a.select("k").dropDuplicates(["k"]).orderBy("k"), [{"k": 1}, {"k": 2}]),
        (lambda F, a: a.select("k").union(a.select("n")).agg(F.count("k").alias("c")), [{"c": 5}]),
        (lambda F, a: a.withColumns({"z": F.lit(0)}).select("z").distinct(), [{"z": 0}]),
        (
            lambda F, a: a.crossJoin(a.select(F.col("k").alias("j"))).agg(
                F.count("k").alias("c"), F.countDistinct("j").alias("d")
            ),
            [{"c": 9, "d": 2}],
        ),
    ],
)
def test_the_rest_of_the_api(
    engine: DuckDbEngine, plan: Callable[[Any, Any], Any], expected: list[dict[str, Any]]
) -> None:
    """Functions, methods of columns and verbs, with ours among their arguments."""
    made = plan(engine.functions, engine.load([ROWS], ROWS.schema))
    assert sorted(map(repr, engine.rows(made))) == sorted(map(repr, expected))


def test_unknown_attribute_is_missing(engine: DuckDbEngine) -> None:
    """As anywhere else in Python."""
    with pytest.raises(AttributeError, match="nonsense"):
        _ = engine.functions.nonsense
    with pytest.raises(AttributeError, match="nonsense"):
        _ = engine.load([ROWS], ROWS.schema).nonsense
    with pytest.raises(AttributeError, match="nonsense"):
        _ = engine.functions.col("k").nonsense


def test_rows_do_not_come_this_way(engine: DuckDbEngine) -> None:
    """A frame's columns may, its rows are for the engine to bring."""
    frame = engine.load([ROWS], ROWS.schema)
    with pytest.raises(TypeError, match="the engine's own methods"):
        frame.explain()
    with pytest.raises(TypeError, match="the engine's own methods"):
        frame.count()
