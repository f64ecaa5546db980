"""The functions of `pyspark.sql.functions`. Strings are names of columns, except in `lit`, `expr`.

All other functions are SQLFrame's (`general`).
"""

from typing import Any

from checkers.engines.embedded import general
from checkers.engines.embedded.columns import (
    Case,
    Column,
    Operand,
    expression,
    literal,
    parsed,
    quoted,
)
from checkers.engines.embedded.frames import Frame


class Functions:
    """An object in the place of the module: `functions.min("offset")`."""

    __slots__ = ()

    def col(self, name: str) -> Column:
        """The column of this name."""
        return Column(quoted(name), name)

    def lit(self, value: Operand) -> Column:
        """A literal."""
        return value if isinstance(value, Column) else Column(literal(value))

    def expr(self, text: str) -> Column:
        """An expression of Spark's SQL."""
        return parsed(text)

    def when(self, condition: Column, value: Operand) -> Case:
        """A value for rows where a condition holds."""
        return Case(f"CASE WHEN {condition.text} THEN {literal(value)} END")

    def coalesce(self, *columns: str | Column) -> Column:
        """The first value that is not null."""
        return _call("COALESCE", *columns)

    def greatest(self, *columns: str | Column) -> Column:
        """The greatest value that is not null."""
        return _call("GREATEST", *columns)

    def least(self, *columns: str | Column) -> Column:
        """The least value that is not null."""
        return _call("LEAST", *columns)

    def concat(self, *columns: str | Column) -> Column:
        """Concatenate texts; null if one of them is null."""
        return Column(f"({' || '.join(map(expression, columns))})")

    def shiftright(self, column: str | Column, bits: int) -> Column:
        """Shift right and keep the sign."""
        return Column(f"({expression(column)} >> {int(bits)})")

    def min(self, column: str | Column) -> Column:
        """The least value."""
        return _call("MIN", column)

    def max(self, column: str | Column) -> Column:
        """The greatest value."""
        return _call("MAX", column)

    def sum(self, column: str | Column) -> Column:
        """The sum."""
        return _call("SUM", column)

    def count(self, column: str | Column) -> Column:
        """The number of values that are not null."""
        return _call("COUNT", column)

    def bit_or(self, column: str | Column) -> Column:
        """All bits that are set in some value."""
        return _call("BIT_OR", column)

    def bit_count(self, column: str | Column) -> Column:
        """The number of set bits."""
        return _call("BIT_COUNT", column)

    def lag(self, column: str | Column, offset: int = 1) -> Column:
        """The value `offset` rows before."""
        return Column(f"LAG({expression(column)}, {int(offset)})")

    def lead(self, column: str | Column, offset: int = 1) -> Column:
        """The value `offset` rows after."""
        return Column(f"LEAD({expression(column)}, {int(offset)})")

    def row_number(self) -> Column:
        """The number of the row in its window, from 1 on."""
        return Column("ROW_NUMBER()")

    def __getattr__(self, name: str) -> Any:
        return general.function(name, general.Classes(Column, Frame))


def _call(name: str, *columns: str | Column) -> Column:
    return Column(f"{name}({', '.join(map(expression, columns))})")
