"""Verbs on frames give what SQLFrame's give, and what would be ambiguous is refused."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from checkers.engines.engine import DuckDbEngine
from checkers.frames.frames import left_join

LEFT = pa.table(
    {
        "k": pa.array([1, 1, 2, 3, None, 5], pa.int64()),
        "t": pa.array(["a", "b", "a", None, "it's", "a"], pa.string()),
        "n": pa.array([10, -3, None, 7, 7, 1 << 40], pa.int64()),
    }
)
RIGHT = pa.table(
    {
        "k": pa.array([1, 2, 2, None, 9], pa.int64()),
        "m": pa.array([100, 200, None, 400, 500], pa.int64()),
    }
)

Plan = Callable[[Any, Any, Any, Any], Any]
"""(functions, window, left frame, right frame) -> frame"""

PLANS: dict[str, Plan] = {
    "select": lambda F, W, a, b: a.select("t", (F.col("n") * 2 - 1).alias("twice"), F.col("k")),
    "where": lambda F, W, a, b: a.where((F.col("n") > 5) & F.col("k").isNotNull()),
    "not": lambda F, W, a, b: a.where(~F.col("t").isin("a", "it's") | (F.col("k") == F.lit(3))),
    "where, where": lambda F, W, a, b: a.where((F.col("k") == 1) | (F.col("k") == 2)).where(
        (F.col("n") > 5) | F.col("n").isNull()
    ),
    "where, computed of the same name": lambda F, W, a, b: a.where(F.col("n") > 5).select(
        "k", F.lit(0).alias("n")
    ),
    "where, grouped": lambda F, W, a, b: a.where(F.col("n") > 5).groupBy("t").agg(
        F.min("n").alias("n")
    ),
    "where, window": lambda F, W, a, b: a.where(F.col("n") > 5).select(
        "t", F.row_number().over(W.partitionBy("t").orderBy("n")).alias("n")
    ),
    "where, joined": lambda F, W, a, b: a.where(F.col("n") > 5).join(
        b.where(F.col("m") > 100), on="k", how="left"
    ),
    "where, distinct, union": lambda F, W, a, b: a.where(F.col("n") > 5).select("t").distinct()
    .unionByName(a.where(F.col("n") < 5).select("t")),
    "limit, where": lambda F, W, a, b: a.orderBy("n", "k").limit(4).where(F.col("n") > 5),
    "where, limit": lambda F, W, a, b: a.where(F.col("n") > 5).orderBy("n", "k").limit(2),
    "withColumn": lambda F, W, a, b: a.withColumn("x", F.lit("q'")).withColumn("n", F.col("k")),
    "renamed": lambda F, W, a, b: a.withColumnRenamed("n", "t2").drop("k"),
    "distinct": lambda F, W, a, b: a.select("t").distinct(),
    "grouped": lambda F, W, a, b: a.groupBy("t").agg(
        F.count(F.lit(1)).alias("rows"), F.min("n").alias("n"), F.max("k").alias("k"),
        F.count("n").alias("known"), F.sum("k").cast("bigint").alias("sum"),
    ),
    "of all": lambda F, W, a, b: a.where(F.col("k") == 77).agg(
        F.count(F.lit(1)).alias("rows"), F.max("n").alias("n")
    ),
    "of groups, computed with": lambda F, W, a, b: a.groupBy("k", "t").agg(
        ((F.max("n") - F.min("n")) % F.lit(7)).cast("int").alias("spread")
    ),
    "inner": lambda F, W, a, b: a.join(b, on=["k"], how="inner").select("k", "t", "n", "m"),
    "inner by name": lambda F, W, a, b: a.join(b, on="k").select("m", "n"),
    "by condition": lambda F, W, a, b: a.join(
        b.select("m"), on=F.col("n") < F.col("m"), how="inner"
    ),
    "left": lambda F, W, a, b: left_join(a, b, on=["k"]),
    "left, of itself": lambda F, W, a, b: left_join(a.select("k", "t"), a.select("k", "n"), ["k"]),
    "semi": lambda F, W, a, b: a.join(b, on=["k"], how="left_semi").select("k", "t"),
    "anti": lambda F, W, a, b: a.join(b, on=["k"], how="left_anti").select("k", "t"),
    "union": lambda F, W, a, b: a.select("k", "n").unionByName(
        b.select(F.col("m").alias("n"), "k")
    ),
    "first and last": lambda F, W, a, b: a.select("n", "k").orderBy(
        F.col("k").desc(), "n").limit(3),
    "lag": lambda F, W, a, b: a.where(F.col("n").isNotNull()).select(
        "k", F.lag("n").over(W.partitionBy("t").orderBy("n")).alias("before"),
        F.lead("n").over(W.partitionBy("t").orderBy(F.col("n").desc())).alias("behind"),
    ),
    "running": lambda F, W, a, b: a.where(F.col("n").isNotNull()).select(
        "n", F.max("k").over(
            W.partitionBy("t").orderBy("n").rowsBetween(W.unboundedPreceding, -1)
        ).alias("most"),
    ),
    "rank": lambda F, W, a, b: a.where(F.col("n").isNotNull()).withColumn(
        "rank", F.row_number().over(W.partitionBy("t").orderBy((F.col("n") * -1).desc()))
    ).where(F.col("rank") == F.lit(1)),
    "one frame twice": lambda F, W, a, b: a.groupBy("t").agg(F.max("n").alias("most")).join(
        a.select("t", "n"), on="t", how="inner"
    ).where(F.col("n") == F.col("most")),
}  # fmt: skip


@pytest.fixture(scope="module")
def engine() -> Iterator[DuckDbEngine]:
    """One engine for all."""
    made = DuckDbEngine()
    yield made
    made.close()


@pytest.fixture(scope="module")
def sqlframe() -> Any:
    """SQLFrame's session with the same tables."""
    import duckdb
    from sqlframe.duckdb import DuckDBSession

    connection = duckdb.connect()
    for name, rows in (("a", LEFT), ("b", RIGHT)):
        connection.register(f"{name}_rows", rows)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM {name}_rows")
    return type("TestSession", (DuckDBSession,), {})(conn=connection)


@pytest.mark.parametrize("name", PLANS)
def test_a_verb_does_what_it_does_in_sqlframe(
    name: str, engine: DuckDbEngine, sqlframe: Any
) -> None:
    """The same rows and the same columns, with nulls, quotes and large numbers in them."""
    from sqlframe.duckdb import Window
    from sqlframe.duckdb import functions as their_functions

    ours = PLANS[name](
        engine.functions,
        engine.window,
        engine.load([LEFT], LEFT.schema),
        engine.load([RIGHT], RIGHT.schema),
    )
    theirs = PLANS[name](their_functions, Window, sqlframe.table("a"), sqlframe.table("b"))
    expected = [row.asDict() for row in theirs.collect()]
    assert ours.columns == theirs.columns
    assert sorted(map(repr, engine.rows(ours))) == sorted(map(repr, expected))
    assert sorted(map(repr, engine.rows(engine.materialize(ours)))) == sorted(map(repr, expected))
    assert engine.is_empty(ours) == engine.is_empty(engine.materialize(ours)) == (not expected)


@pytest.fixture
def left(engine: DuckDbEngine) -> Any:
    """The frame of LEFT."""
    return engine.load([LEFT], LEFT.schema)


def test_sorted_rows_stay_sorted(engine: DuckDbEngine, left: Any) -> None:
    """Nulls first."""
    found = [row["n"] for row in engine.rows(left.orderBy("n", "k").limit(4))]
    assert found == [None, -3, 7, 7]
    assert engine.rows(left.orderBy("n").limit(2).select("k")) == [{"k": 2}, {"k": 1}]


def test_missing_column_is_named_with_the_existing_ones(left: Any) -> None:
    """With those that are."""
    with pytest.raises(ValueError, match="no column 'offset': there are k, t, n"):
        left.select("k", "offset")
    with pytest.raises(ValueError, match="no column 'offset'"):
        left.groupBy("offset").agg()


def test_two_columns_of_one_name_are_refused(left: Any) -> None:
    """Whichever of them would be meant."""
    with pytest.raises(ValueError, match="two columns called 'n'"):
        left.join(left.select("k", "n"), on="k")


def test_a_full_join_has_the_key_of_whichever_side_there_is(engine: DuckDbEngine) -> None:
    """As PySpark has it; SQLFrame gives the left side's."""
    left = engine.load([LEFT], LEFT.schema).select("k", "t").where(engine.functions.col("k") == 1)
    right = engine.load([RIGHT], RIGHT.schema)
    rows = engine.rows(left.join(right, on=["k"], how="full").select("k", "t", "m"))
    assert {row["k"] for row in rows} == {1, 2, 9, None}
    assert [row["m"] for row in rows if row["k"] == 9] == [500]
    assert all(row["t"] is None for row in rows if row["k"] != 1)


def test_computed_column_without_alias_is_refused(engine: DuckDbEngine, left: Any) -> None:
    """A column that is computed has to be called something."""
    with pytest.raises(ValueError, match="use alias"):
        left.select(engine.functions.max("n"))


def test_frames_that_differ_do_not_become_one(left: Any) -> None:
    """The column that one lacks is named."""
    with pytest.raises(ValueError, match="a column 'n'"):
        left.unionByName(left.drop("n"))


def test_a_column_may_be_called_anything(engine: DuckDbEngine) -> None:
    """Spaces, quotes, key words."""
    names = ["select", 'a "b"', "group by"]
    table = pa.table({name: [1] for name in names})
    frame = engine.load([table], table.schema)
    assert engine.rows(frame.select(*names).distinct()) == [dict.fromkeys(names, 1)]
