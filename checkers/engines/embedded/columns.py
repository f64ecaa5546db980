"""Column expressions as DuckDB's SQL, with the operators and the null order of PySpark's.

The text of a column can be inserted anywhere: it has its parentheses where it needs any.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from checkers.engines.embedded import general

Operand: TypeAlias = "Column | int | float | str | bool | None"
"""An operand of an operator: an expression, or a literal."""

_KINDS = {
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INT",
    "bigint": "BIGINT",
    "double": "DOUBLE",
    "string": "TEXT",
}

UNBOUNDED = 1 << 63
"""A bound of a window that is this large or larger means no bound."""

_DIV = re.compile(r"`([^`]+)` div ([1-9][0-9]*)")
_LISTED = re.compile(
    r"array_join\(cast\(array_sort\(collect_set\(`([^`]+)`\)\) as array<string>\), ','\)"
)
_BIT = re.compile(r"shiftleft\(1L, cast\(`([^`]+)` & ([1-9][0-9]*) as int\)\)")


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """An expression. name: the name of its column in a frame (None: a frame needs an alias).

    chain: the operator, AND or OR, that joins all parts of the text.
    """

    text: str
    name: str | None = None
    chain: str = ""

    def alias(self, name: str) -> "Column":
        """The same expression with another name."""
        return replace(self, name=name)

    def cast(self, kind: str) -> "Column":
        """Cast to a type, by its name in Spark's SQL. Raises ValueError for an unknown type."""
        if kind not in _KINDS:
            raise ValueError(f"cannot cast to {kind!r}: known are {', '.join(_KINDS)}")
        return Column(f"CAST({self.text} AS {_KINDS[kind]})", self.name)

    def over(self, window: "Window") -> "Column":
        """Compute over the window of each row."""
        return Column(f"{self.text} OVER ({window.text})")

    def isNull(self) -> "Column":
        """Whether the value is null."""
        return Column(f"({self.text} IS NULL)")

    def isNotNull(self) -> "Column":
        """Whether the value is not null."""
        return Column(f"({self.text} IS NOT NULL)")

    def isin(self, *values: Any) -> "Column":
        """Whether the value is one of these literals, given one by one or as one list."""
        one_list = len(values) == 1 and isinstance(values[0], list | tuple | set | frozenset)
        listed: Iterable[Any] = values[0] if one_list else values
        texts = ", ".join(literal(value) for value in listed)
        return Column(f"({self.text} IN ({texts}))" if texts else "FALSE")

    def asc(self) -> "Column":
        """Ascending; null is the least."""
        return Column(f"{self.text} ASC NULLS FIRST")

    def desc(self) -> "Column":
        """Descending; null is the least."""
        return Column(f"{self.text} DESC NULLS LAST")

    def __bool__(self) -> bool:
        raise TypeError("a column has no truth value: write & for and, | for or, ~ for not")

    def __eq__(self, other: Operand) -> "Column":  # type: ignore[override]
        return self._with("=", other)

    def __ne__(self, other: Operand) -> "Column":  # type: ignore[override]
        return self._with("<>", other)

    __hash__ = None  # type: ignore[assignment]  # a comparison makes a column: no key

    def __lt__(self, other: Operand) -> "Column":
        return self._with("<", other)

    def __le__(self, other: Operand) -> "Column":
        return self._with("<=", other)

    def __gt__(self, other: Operand) -> "Column":
        return self._with(">", other)

    def __ge__(self, other: Operand) -> "Column":
        return self._with(">=", other)

    def __add__(self, other: Operand) -> "Column":
        return self._with("+", other)

    def __sub__(self, other: Operand) -> "Column":
        return self._with("-", other)

    def __mul__(self, other: Operand) -> "Column":
        return self._with("*", other)

    def __mod__(self, other: Operand) -> "Column":
        return self._with("%", other)

    def __and__(self, other: Operand) -> "Column":
        return self._chained("AND", other)

    def __or__(self, other: Operand) -> "Column":
        return self._chained("OR", other)

    def __invert__(self) -> "Column":
        return Column(f"(NOT {self.text})")

    def __getattr__(self, name: str) -> Any:
        return general.method(self, name, general.Classes(Column))

    def _with(self, operator: str, other: Operand) -> "Column":
        return Column(f"({self.text} {operator} {literal(other)})")

    def _chained(self, operator: str, other: Operand) -> "Column":
        # DuckDB's parser gets a thousand alternatives as one flat list, not as nested parentheses.
        right = other if isinstance(other, Column) else Column(literal(other))
        parts = [c.text[1:-1] if c.chain == operator else c.text for c in (self, right)]
        return Column(f"({f' {operator} '.join(parts)})", chain=operator)


class Case(Column):
    """A CASE that `functions.when` begins; null where no condition holds, without `otherwise`."""

    __slots__ = ()

    def when(self, condition: Column, value: Operand) -> "Case":
        """Add a condition that counts where none before it holds."""
        return Case(f"{self._open} WHEN {condition.text} THEN {literal(value)} END")

    def otherwise(self, value: Operand) -> Column:
        """The value where no condition holds."""
        return Column(f"{self._open} ELSE {literal(value)} END")

    @property
    def _open(self) -> str:
        return self.text.removesuffix(" END")


@dataclass(frozen=True, slots=True)
class Window:
    """The rows that a window function sees, as SQL: partitions, order, bounds."""

    partition: str = ""
    order: str = ""
    bounds: str = ""

    unboundedPreceding = -UNBOUNDED
    unboundedFollowing = UNBOUNDED - 1
    currentRow = 0

    def partitionBy(self, *columns: str | Column) -> "Window":
        """Rows with equal values in these columns."""
        return replace(self, partition=f"PARTITION BY {', '.join(map(expression, columns))}")

    def orderBy(self, *columns: str | Column) -> "Window":
        """Rows in this order."""
        return replace(self, order=f"ORDER BY {ordering(columns)}")

    def rowsBetween(self, start: int, end: int) -> "Window":
        """The rows from `start` to `end` around each row; negative: before it."""
        return replace(self, bounds=f"ROWS BETWEEN {_bound(start)} AND {_bound(end)}")

    def rangeBetween(self, start: int, end: int) -> "Window":
        """The rows whose sort key differs from the row's by `start` to `end`."""
        return replace(self, bounds=f"RANGE BETWEEN {_bound(start)} AND {_bound(end)}")

    @property
    def text(self) -> str:
        """The text behind OVER."""
        return " ".join(filter(None, (self.partition, self.order, self.bounds)))


def _bound(rows: int) -> str:
    if abs(rows) >= UNBOUNDED - 1:
        return "UNBOUNDED PRECEDING" if rows < 0 else "UNBOUNDED FOLLOWING"
    if rows == 0:
        return "CURRENT ROW"
    return f"{-rows} PRECEDING" if rows < 0 else f"{rows} FOLLOWING"


def quoted(name: str) -> str:
    """Quote an identifier."""
    return '"' + name.replace('"', '""') + '"'


def expression(of: str | Column) -> str:
    """Return the text of a column, or of the column with this name."""
    return of.text if isinstance(of, Column) else quoted(of)


def ordering(columns: Iterable[str | Column]) -> str:
    """Return sort keys; a key without a direction is ascending."""
    texts = [expression(column) for column in columns]
    directions = (" ASC NULLS FIRST", " DESC NULLS LAST")
    return ", ".join(text if text.endswith(directions) else text + directions[0] for text in texts)


def literal(value: Operand) -> str:
    """Return the text of a literal, or of an expression."""
    match value:
        case Column():
            return value.text
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value) if value >= 0 else f"({value})"
        case float():
            # Cast from text: a plain number would be a DECIMAL first and lose its last digits.
            return f"CAST('{value!r}' AS DOUBLE)"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case _:
            raise TypeError(f"{value!r} is not a literal: use a number, a string, a bool or None")


def parsed(text: str) -> Column:
    """Return the column for an expression of Spark's SQL."""
    if found := _DIV.fullmatch(text):
        return Column(f"({quoted(found[1])} // {found[2]})")
    if found := _BIT.fullmatch(text):
        return Column(f"(CAST(1 AS BIGINT) << ({quoted(found[1])} & {found[2]}))")
    if found := _LISTED.fullmatch(text):
        return Column(f"ARRAY_TO_STRING(LIST_SORT(LIST(DISTINCT {quoted(found[1])})), ',')")
    made: Column = general.function("expr", general.Classes(Column))(text)
    return made
