"""Tables as SQL text, and PySpark's verbs on them: each wraps the text before it.

A frame knows the names of its columns, so nothing is looked up until it is computed. What would be
ambiguous in the SQL raises here, with the name.
"""

from collections.abc import Sequence
from typing import Any

from checkers.engines.embedded.columns import Column, expression, ordering, quoted
from checkers.engines.embedded.functions import Functions

_JOINS = {
    "inner": "JOIN",
    "left": "LEFT JOIN",
    "full": "FULL JOIN",
    "left_semi": "SEMI JOIN",
    "left_anti": "ANTI JOIN",
}
_ONE_SIDED = ("left_semi", "left_anti")

Named = str | Column
"""A column by its name, or an expression."""


class Frame:
    """What one SELECT gives.

    source: what it is selected from. order: how it is sorted at the end, if at all. row_count: how
    many rows it has, where that is known.
    """

    __slots__ = ("_order", "_source", "columns", "row_count")

    def __init__(
        self, source: str, columns: Sequence[str], *, order: str = "", row_count: int | None = None
    ) -> None:
        if twice := sorted({name for name in columns if list(columns).count(name) > 1}):
            raise ValueError(f"two columns called {twice[0]!r}: rename or drop one of them")
        self._source = source
        self._order = order
        self.columns = list(columns)
        self.row_count = row_count

    @property
    def sql(self) -> str:
        """The whole query."""
        return f"SELECT {_listed(self.columns)} FROM {self._source}{self._order}"

    def select(self, *columns: Named) -> "Frame":
        """These columns."""
        return self._with(f"SELECT {self._shown(columns)} FROM {self._from}", _names(columns))

    def where(self, condition: Named) -> "Frame":
        """The rows for which the condition is true; a string is one in Spark's SQL."""
        if isinstance(condition, str):
            condition = Functions().expr(condition)
        return self._with(f"SELECT * FROM {self._from} WHERE {condition.text}", self.columns)

    filter = where

    def withColumn(self, name: str, column: Column) -> "Frame":
        """With another column, or another one in its place."""
        kept = [column.alias(name) if each == name else each for each in self.columns]
        return self.select(*kept, *([] if name in self.columns else [column.alias(name)]))

    def withColumnRenamed(self, old: str, new: str) -> "Frame":
        """With a column by another name."""
        return self.select(
            *(Column(quoted(each), new) if each == old else each for each in self.columns)
        )

    def drop(self, *names: str) -> "Frame":
        """Without some columns."""
        return self.select(*(each for each in self.columns if each not in names))

    def distinct(self) -> "Frame":
        """Every row once."""
        return self._with(f"SELECT DISTINCT * FROM {self._from}", self.columns)

    def groupBy(self, *columns: Named) -> "Grouped":
        """Rows that agree on these columns, together."""
        return Grouped(self, columns)

    def agg(self, *columns: Column) -> "Frame":
        """One row about all rows."""
        return self.groupBy().agg(*columns)

    def unionByName(self, other: "Frame") -> "Frame":
        """The rows of both; the other has the same columns in whatever order."""
        if unlike := sorted(set(self.columns) ^ set(other.columns)):
            raise ValueError(f"both frames must have a column {unlike[0]!r}")
        rows = [f"SELECT {_listed(self.columns)} FROM {each._from}" for each in (self, other)]
        return self._with(" UNION ALL ".join(rows), self.columns)

    def join(self, other: "Frame", on: str | Sequence[str] | Column, how: str = "inner") -> "Frame":
        """With the rows of another frame that agree on the columns `on`, which are there once, or
        for which a condition holds. how: inner, left, full, left_semi or
        left_anti.

        Raises ValueError where the other has a column of the same name besides.
        """
        if how not in _JOINS:
            joined_so: Frame = _generally(self, "join")(other, on=on, how=how)
            return joined_so
        if isinstance(on, Column):
            keys: list[str] = []
            condition = f"ON {on.text}"
        else:
            keys = [on] if isinstance(on, str) else list(on)
            condition = f"USING ({_listed(keys)})"
        joined = f"{self._from} AS l {_JOINS[how]} {other._from} AS r {condition}"
        if how in _ONE_SIDED:
            return self._with(f"SELECT l.* FROM {joined}", self.columns)
        mine = [name for name in self.columns if name not in keys]
        theirs = [name for name in other.columns if name not in keys]
        return self._with(f"SELECT * FROM {joined}", [*keys, *mine, *theirs])

    def orderBy(self, *columns: Named) -> "Frame":
        """Sorted, which is the last that is done to it but `limit`."""
        return Frame(self._source, self.columns, order=f" ORDER BY {ordering(columns)}")

    def limit(self, rows: int) -> "Frame":
        """Its first rows."""
        return Frame(self._source, self.columns, order=f"{self._order} LIMIT {int(rows)}")

    def __getattr__(self, name: str) -> Any:
        return _generally(self, name)

    @property
    def _from(self) -> str:
        return f"({self.sql})" if self._order else self._source

    def _shown(self, columns: Sequence[Named]) -> str:
        for column in columns:
            if isinstance(column, str) and column not in self.columns:
                raise ValueError(f"no column {column!r}: there are {', '.join(self.columns)}")
        return ", ".join(map(_as_named, columns))

    def _with(self, sql: str, columns: Sequence[str]) -> "Frame":
        return Frame(f"({sql})", columns)


class Grouped:
    """Groups of a frame's rows."""

    __slots__ = ("_frame", "_keys")

    def __init__(self, frame: Frame, keys: Sequence[Named]) -> None:
        self._frame = frame
        self._keys = keys

    def agg(self, *columns: Column) -> Frame:
        """One row about each group: its keys, and these columns."""
        shown = [*self._keys, *columns]
        by = f" GROUP BY {', '.join(map(expression, self._keys))}" if self._keys else ""
        frame = self._frame
        return frame._with(f"SELECT {frame._shown(shown)} FROM {frame._from}{by}", _names(shown))

    def __getattr__(self, name: str) -> Any:
        return getattr(_generally(self._frame, "groupBy")(*self._keys), name)


def _generally(frame: Frame, name: str) -> Any:
    from checkers.engines.embedded.general import verb

    return verb(frame, name)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))


def _names(columns: Sequence[Named]) -> list[str]:
    return [column if isinstance(column, str) else _name(column) for column in columns]


def _name(column: Column) -> str:
    if column.name is None:
        raise ValueError(f"{column.text[:80]} has no name: give it one with alias")
    return column.name


def _as_named(column: Named) -> str:
    if isinstance(column, str):
        return quoted(column)
    return f"{column.text} AS {quoted(_name(column))}"
