"""Frames as SQL text, with PySpark's verbs: each verb wraps the text of the frame before it.

A frame knows the names of its columns, so the database is not asked before the frame is computed.
A column name that would be ambiguous in the SQL raises here, with the name.
"""

from collections.abc import Sequence
from typing import Any

from checkers.engines.embedded import general
from checkers.engines.embedded.columns import Column, expression, ordering, parsed, quoted

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
    """The result of one SELECT.

    source: the table or query in FROM. condition: the condition in WHERE, if any; it stays here
    until the frame is used, because each query in a query takes DuckDB time to plan. order: the
    final sort order, if any. row_count: the number of rows, if known.
    """

    __slots__ = ("_condition", "_order", "_source", "columns", "row_count")

    def __init__(
        self,
        source: str,
        columns: Sequence[str],
        *,
        condition: str = "",
        order: str = "",
        row_count: int | None = None,
    ) -> None:
        if twice := sorted({name for name in columns if list(columns).count(name) > 1}):
            raise ValueError(f"two columns called {twice[0]!r}: rename or drop one of them")
        self._source = source
        self._condition = condition
        self._order = order
        self.columns = list(columns)
        self.row_count = row_count

    @property
    def sql(self) -> str:
        """The whole query."""
        return f"SELECT {_listed(self.columns)} FROM {self._source}{self._where}{self._order}"

    def select(self, *columns: Named) -> "Frame":
        """Return the frame with these columns."""
        return self._with(f"SELECT {self._shown(columns)} FROM {self._rows}", _names(columns))

    def where(self, condition: Named) -> "Frame":
        """The rows for which the condition is true; a string is a condition in Spark's SQL."""
        if isinstance(condition, str):
            condition = parsed(condition)
        if self._order:
            return Frame(self._from, self.columns, condition=condition.text)
        both = f"({self._condition}) AND ({condition.text})" if self._condition else condition.text
        return Frame(self._source, self.columns, condition=both)

    filter = where

    def withColumn(self, name: str, column: Column) -> "Frame":
        """Add a column, or replace the column of this name."""
        kept = [column.alias(name) if each == name else each for each in self.columns]
        return self.select(*kept, *([] if name in self.columns else [column.alias(name)]))

    def withColumnRenamed(self, old: str, new: str) -> "Frame":
        """Rename a column."""
        return self.select(
            *(Column(quoted(each), new) if each == old else each for each in self.columns)
        )

    def drop(self, *names: str) -> "Frame":
        """Remove columns."""
        return self.select(*(each for each in self.columns if each not in names))

    def distinct(self) -> "Frame":
        """Keep each row once."""
        return self._with(f"SELECT DISTINCT * FROM {self._rows}", self.columns)

    def groupBy(self, *columns: Named) -> "Grouped":
        """Group the rows with equal values in these columns."""
        return Grouped(self, columns)

    def agg(self, *columns: Column) -> "Frame":
        """Aggregate all rows into one row."""
        return self.groupBy().agg(*columns)

    def unionByName(self, other: "Frame") -> "Frame":
        """The rows of both frames; the other frame has the same columns in any order."""
        if unlike := sorted(set(self.columns) ^ set(other.columns)):
            raise ValueError(f"both frames must have a column {unlike[0]!r}")
        rows = [f"SELECT {_listed(self.columns)} FROM {each._rows}" for each in (self, other)]
        return self._with(" UNION ALL ".join(rows), self.columns)

    def join(self, other: "Frame", on: str | Sequence[str] | Column, how: str = "inner") -> "Frame":
        """Join the rows of another frame that have equal values in the columns `on` (the result has
        these columns once), or for which a condition holds. how: inner, left, full, left_semi or
        left_anti.

        Raises ValueError if both frames have another column of the same name.
        """
        if how not in _JOINS:
            result: Frame = _sqlframe_method(self, "join")(other, on=on, how=how)
            return result
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
        """Sort the rows. Only `limit` may follow."""
        order = f" ORDER BY {ordering(columns)}"
        return Frame(self._source, self.columns, condition=self._condition, order=order)

    def limit(self, rows: int) -> "Frame":
        """Keep the first rows."""
        order = f"{self._order} LIMIT {int(rows)}"
        return Frame(self._source, self.columns, condition=self._condition, order=order)

    def __getattr__(self, name: str) -> Any:
        return _sqlframe_method(self, name)

    @property
    def _where(self) -> str:
        return f" WHERE {self._condition}" if self._condition else ""

    @property
    def _from(self) -> str:
        """The rows as one table or query."""
        return f"({self.sql})" if self._order or self._condition else self._source

    @property
    def _rows(self) -> str:
        """The rows as all that follows FROM."""
        return self._from if self._order else f"{self._source}{self._where}"

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
        """Aggregate each group into one row: its keys and these columns."""
        shown = [*self._keys, *columns]
        by = f" GROUP BY {', '.join(map(expression, self._keys))}" if self._keys else ""
        frame = self._frame
        return frame._with(f"SELECT {frame._shown(shown)} FROM {frame._rows}{by}", _names(shown))

    def __getattr__(self, name: str) -> Any:
        return getattr(_sqlframe_method(self._frame, "groupBy")(*self._keys), name)


def _sqlframe_method(frame: Frame, name: str) -> Any:
    return general.method(frame, name, general.Classes(Column, Frame))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))


def _names(columns: Sequence[Named]) -> list[str]:
    return [column if isinstance(column, str) else _name(column) for column in columns]


def _name(column: Column) -> str:
    if column.name is None:
        raise ValueError(f"{column.text[:80]} has no name: use alias")
    return column.name


def _as_named(column: Named) -> str:
    if isinstance(column, str):
        return quoted(column)
    return f"{column.text} AS {quoted(_name(column))}"
