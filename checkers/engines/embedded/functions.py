"""The functions of `pyspark.sql.functions`: strings are names of columns, but in `lit` and `expr`.

Those that are not here go the general way.
"""

import re
from typing import Any

from checkers.engines.embedded.columns import Case, Column, Operand, expression, literal, quoted

_DIV = re.compile(r"`([^`]+)` div ([1-9][0-9]*)")
_LISTED = re.compile(
    r"array_join\(cast\(array_sort\(collect_set\(`([^`]+)`\)\) as array<string>\), ','\)"
)
_BIT = re.compile(r"shiftleft\(1L, cast\(`([^`]+)` & ([1-9][0-9]*) as int\)\)")


class Functions:
    """Stands where a module does: `functions.min("offset")`."""

    __slots__ = ()

    def col(self, name: str) -> Column:
        """The column of a name."""
        return Column(quoted(name), name)

    def lit(self, value: Operand) -> Column:
        """A literal."""
        return value if isinstance(value, Column) else Column(literal(value))

    def expr(self, text: str) -> Column:
        """An expression of Spark's SQL."""
        if found := _DIV.fullmatch(text):
            return Column(f"({quoted(found[1])} // {found[2]})")
        if found := _BIT.fullmatch(text):
            return Column(f"(CAST(1 AS BIGINT) << ({quoted(found[1])} & {found[2]}))")
        if found := _LISTED.fullmatch(text):
            return Column(f"ARRAY_TO_STRING(LIST_SORT(LIST(DISTINCT {quoted(found[1])})), ',')")
        from checkers.engines.embedded.general import function

        made: Column = function("expr")(text)
        return made

    def when(self, condition: Column, value: Operand) -> Case:
        """A value where a condition holds."""
        return Case(f"CASE WHEN {condition.text} THEN {literal(value)} END")

    def coalesce(self, *columns: str | Column) -> Column:
        """The first that is not null."""
        return _call("COALESCE", *columns)

    def greatest(self, *columns: str | Column) -> Column:
        """The greatest that is not null."""
        return _call("GREATEST", *columns)

    def least(self, *columns: str | Column) -> Column:
        """The least that is not null."""
        return _call("LEAST", *columns)

    def concat(self, *columns: str | Column) -> Column:
        """Texts one after the other; null where one of them is."""
        return Column(f"({' || '.join(map(expression, columns))})")

    def shiftright(self, column: str | Column, bits: int) -> Column:
        """Shifted right, the sign kept."""
        return Column(f"({expression(column)} >> {int(bits)})")

    def min(self, column: str | Column) -> Column:
        """The least."""
        return _call("MIN", column)

    def max(self, column: str | Column) -> Column:
        """The greatest."""
        return _call("MAX", column)

    def sum(self, column: str | Column) -> Column:
        """The sum."""
        return _call("SUM", column)

    def count(self, column: str | Column) -> Column:
        """How many are not null."""
        return _call("COUNT", column)

    def bit_or(self, column: str | Column) -> Column:
        """All bits that are set somewhere."""
        return _call("BIT_OR", column)

    def bit_count(self, column: str | Column) -> Column:
        """How many bits are set."""
        return _call("BIT_COUNT", column)

    def lag(self, column: str | Column, offset: int = 1) -> Column:
        """That of the row so many before."""
        return Column(f"LAG({expression(column)}, {int(offset)})")

    def lead(self, column: str | Column, offset: int = 1) -> Column:
        """That of the row so many behind."""
        return Column(f"LEAD({expression(column)}, {int(offset)})")

    def row_number(self) -> Column:
        """Which row of its window it is, from 1 on."""
        return Column("ROW_NUMBER()")

    def __getattr__(self, name: str) -> Any:
        from checkers.engines.embedded.general import function

        return function(name)


def _call(name: str, *columns: str | Column) -> Column:
    return Column(f"{name}({', '.join(map(expression, columns))})")
