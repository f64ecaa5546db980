"""The rest of PySpark's API, by SQLFrame: functions, methods and verbs that this package does not
write itself.

A call is handed to SQLFrame with its arguments parsed from their SQL, and the result becomes SQL
again. Only columns and frames can come back. Rows never do: the engine brings rows to the driver.

This module is the lowest of the package. It knows columns and frames only as the classes that a
caller hands in (`Classes`).
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Classes:
    """The classes of this package's columns and frames. frame: None where no frames are in use."""

    column: type[Any]
    frame: type[Any] | None = None


def function(name: str, classes: Classes) -> Callable[..., Any]:
    """Return SQLFrame's function of this name. Raises AttributeError when there is none."""
    from sqlframe.duckdb import functions

    return _translated(getattr(functions, name), classes)


def method(of: Any, name: str, classes: Classes) -> Callable[..., Any]:
    """Return a method of a column or a frame. Raises AttributeError when there is none."""
    theirs = None if name.startswith("_") else _to_sqlframe(of, classes)
    if not callable(getattr(type(theirs), name, None)):
        raise AttributeError(f"{type(of).__name__} has no {name}")
    return _translated(getattr(theirs, name), classes)


def _translated(call: Callable[..., Any], classes: Classes) -> Callable[..., Any]:
    """The call, with its arguments translated for SQLFrame and its result translated back."""

    @functools.wraps(call)
    def called(*positional: Any, **named: Any) -> Any:
        theirs = [_to_sqlframe(value, classes) for value in positional]
        made = call(*theirs, **{k: _to_sqlframe(v, classes) for k, v in named.items()})
        return _from_sqlframe(made, classes)

    return called


class _Groups:
    """Groups of rows, which SQLFrame returns between one frame and the next."""

    def __init__(self, theirs: Any, classes: Classes) -> None:
        self._theirs = theirs
        self._classes = classes

    def __getattr__(self, name: str) -> Any:
        return _translated(getattr(self._theirs, name), self._classes)


def _to_sqlframe(value: Any, classes: Classes) -> Any:
    from sqlframe.duckdb import Column as TheirColumn
    from sqlglot import exp, parse_one

    match value:
        case classes.column():
            parsed = TheirColumn(parse_one(value.text, dialect="duckdb"))
            return parsed if value.name is None else parsed.alias(value.name)
        case _ if classes.frame is not None and isinstance(value, classes.frame):
            columns = [exp.column(exp.to_identifier(name, quoted=True)) for name in value.columns]
            rows = exp.Subquery(this=parse_one(value.sql, dialect="duckdb"))
            return _their_frame()(exp.Select().from_(rows.as_("rows")).select(*columns))
        case list() | tuple():
            return [_to_sqlframe(each, classes) for each in value]
        case dict():
            return {key: _to_sqlframe(each, classes) for key, each in value.items()}
        case _:
            return value


def _from_sqlframe(value: Any, classes: Classes) -> Any:
    from sqlframe.base.column import Column as TheirColumn
    from sqlframe.base.dataframe import BaseDataFrame
    from sqlframe.base.group import _BaseGroupedData
    from sqlglot import exp

    match value:
        case TheirColumn():
            made = value.column_expression
            text = made.sql(dialect="duckdb")
            return classes.column(text if isinstance(made, exp.Func) else f"({text})")
        case BaseDataFrame() if classes.frame is not None:
            sql = value.sql(dialect="duckdb", optimize=False, pretty=False)
            return classes.frame(f"({sql})", value.columns)
        case _BaseGroupedData():
            return _Groups(value, classes)
        case _:
            raise TypeError(f"{type(value).__name__}: only columns and frames can be returned")


def _refuse(_: Any, sql: str) -> None:
    raise TypeError(f"a frame brings no rows: use the engine's own methods: {sql[:80]}")


@functools.cache
def _their_frame() -> Callable[[Any], Any]:
    """Return the constructor of SQLFrame's frames, in a session that computes nothing."""
    import duckdb
    from sqlframe.duckdb import DuckDBSession
    from sqlframe.duckdb.dataframe import DuckDBDataFrame

    # SQLFrame keeps one session per class: an own class leaves all other sessions alone.
    own_class = type("TranslatingSession", (DuckDBSession,), {"_execute": _refuse})
    return functools.partial(DuckDBDataFrame, own_class(conn=duckdb.connect()))
