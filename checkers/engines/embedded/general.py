"""The rest of the API, by SQLFrame: what detectors' usual verbs and functions do not write.

A call is handed over with its arguments parsed from their SQL, and what comes back is SQL again.
Only what stays in the engine can come back, columns and frames; what would bring rows to the
driver is the engine's own business.
"""

import functools
from collections.abc import Callable
from typing import Any

from checkers.engines.embedded.columns import Column
from checkers.engines.embedded.frames import Frame


def function(name: str) -> Callable[..., Any]:
    """A function of SQLFrame's by name. Raises AttributeError when it has none."""
    from sqlframe.duckdb import functions

    return _through(getattr(functions, name))


def method(column: Column, name: str) -> Callable[..., Any]:
    """A column's method. Raises AttributeError when there is none."""
    return _through(_attribute(column, name))


def verb(frame: Frame, name: str) -> Callable[..., Any]:
    """A frame's method. Raises AttributeError when there is none."""
    return _through(_attribute(frame, name))


def _attribute(of: Any, name: str) -> Callable[..., Any]:
    theirs = None if name.startswith("_") else _theirs(of)
    if not callable(getattr(type(theirs), name, None)):
        raise AttributeError(f"{type(of).__name__} has no {name}")
    call: Callable[..., Any] = getattr(theirs, name)
    return call


def _through(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def called(*positional: Any, **named: Any) -> Any:
        made = call(*map(_theirs, positional), **{k: _theirs(v) for k, v in named.items()})
        return _ours(made)

    return called


class _Between:
    """What SQLFrame hands out on the way from one frame to the next, such as its groups."""

    def __init__(self, theirs: Any) -> None:
        self._it = theirs

    def __getattr__(self, name: str) -> Any:
        return _through(getattr(self._it, name))


def _theirs(value: Any) -> Any:
    from sqlframe.duckdb import Column as TheirColumn
    from sqlglot import exp, parse_one

    match value:
        case Column():
            parsed = TheirColumn(parse_one(value.text, dialect="duckdb"))
            return parsed if value.name is None else parsed.alias(value.name)
        case Frame():
            columns = [exp.column(exp.to_identifier(name, quoted=True)) for name in value.columns]
            rows = exp.Subquery(this=parse_one(value.sql, dialect="duckdb"))
            return _their_frame()(exp.Select().from_(rows.as_("rows")).select(*columns))
        case list() | tuple():
            return [_theirs(each) for each in value]
        case dict():
            return {key: _theirs(each) for key, each in value.items()}
        case _:
            return value


def _ours(value: Any) -> Any:
    from sqlframe.base.column import Column as TheirColumn
    from sqlframe.base.dataframe import BaseDataFrame
    from sqlframe.base.group import _BaseGroupedData
    from sqlglot import exp

    match value:
        case TheirColumn():
            made = value.column_expression
            text = made.sql(dialect="duckdb")
            return Column(text if isinstance(made, exp.Func) else f"({text})")
        case BaseDataFrame():
            sql = value.sql(dialect="duckdb", optimize=False, pretty=False)
            return Frame(f"({sql})", value.columns)
        case _BaseGroupedData():
            return _Between(value)
        case _:
            raise TypeError(f"{type(value).__name__}: only columns and frames stay in the engine")


def _refuse(_: Any, sql: str) -> None:
    raise TypeError(f"rows come by the engine's own methods, not by a frame's: {sql[:80]}")


@functools.cache
def _their_frame() -> Callable[[Any], Any]:
    """SQLFrame's frames, of a session that computes nothing."""
    import duckdb
    from sqlframe.duckdb import DuckDBSession
    from sqlframe.duckdb.dataframe import DuckDBDataFrame

    # SQLFrame keeps one session per class: a class of its own leaves everybody else's alone.
    own_class = type("TranslatingSession", (DuckDBSession,), {"_execute": _refuse})
    return functools.partial(DuckDBDataFrame, own_class(conn=duckdb.connect()))
