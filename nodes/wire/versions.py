"""Describes a message of any version by one set of field values.

kio has a class for every version of every message. A handler that serves ten versions describes its
response once, as field values. Values of fields that the version lacks are dropped, and fields
without a value get their defaults. So nothing else has to know the differences between versions.
`fill` makes an entity of the values; a Draft is encoded without an entity.
"""

from collections.abc import Hashable
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, NamedTuple, TypeVar, assert_never, cast
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.serial._introspect import (
    EntityField,
    EntityTupleField,
    PrimitiveField,
    PrimitiveTupleField,
    classify_field,
    is_optional,
)

from nodes.wire.schemas import response_schema

E = TypeVar("E")


class _FieldPlan(NamedTuple):
    name: str
    default: Any
    nested: Any
    is_array: bool


_ZEROS: tuple[tuple[type, Any], ...] = (
    (bool, False),
    (ErrorCode, ErrorCode.none),
    (int, 0),
    (float, 0.0),
    (str, ""),
    (bytes, b""),
    (timedelta, timedelta(0)),
    (datetime, datetime.fromtimestamp(0, UTC)),
    (UUID, None),  # kio reads and writes the zero UUID as null
)


def default_of(field: Field[Any]) -> Any:
    """The value of a field that is not given: the schema's default, null, or a zero value."""
    if field.default is not MISSING:
        return field.default
    if is_optional(field):
        return None
    match classify_field(field):
        case EntityTupleField() | PrimitiveTupleField():
            return ()
        case EntityField(cls):
            return fill(cls)
        case PrimitiveField(cls):
            return next(zero for base, zero in _ZEROS if issubclass(cls, base))
        case kind:
            assert_never(kind)


@cache
def _plan(cls: Any) -> tuple[_FieldPlan, ...]:
    plan = []
    for field in fields(cls):
        kind = classify_field(field)
        nested = kind.type_ if isinstance(kind, EntityField | EntityTupleField) else None
        plan.append(_FieldPlan(field.name, default_of(field), nested, kind.is_array))
    return tuple(plan)


def _nested(cls: type[Any], value: Any) -> Any:
    return value if value is None or is_dataclass(value) else fill(cls, **value)


def fill(cls: type[E], **values: Any) -> E:
    """Return an entity of class `cls` with `values`.

    Values of fields that this version lacks are dropped; fields without a value get their default
    (an empty array, null, or zero where the schema names none). Nested entities may be given as
    entities or as dicts, arrays as any iterable of them.
    """
    kwargs: dict[str, Any] = {}
    for name, default, nested, is_array in _plan(cast(Hashable, cls)):
        if name not in values:
            kwargs[name] = default
            continue
        value = values[name]
        if is_array and value is not None:
            value = tuple(value if nested is None else (_nested(nested, item) for item in value))
        elif nested is not None:
            value = _nested(nested, value)
        kwargs[name] = value
    return cls(**kwargs)


class Draft:
    """A message by its class and the values of its fields (as `fill` takes them).

    It can be read like the entity, which is made when a field is read first.
    """

    __slots__ = ("_entity", "schema", "values")

    def __init__(self, schema: type[Any], values: dict[str, Any]) -> None:
        self.schema: Any = schema
        self.values = values
        self._entity: Any = None

    @property
    def entity(self) -> Any:
        """The message as a kio entity."""
        if self._entity is None:
            self._entity = fill(self.schema, **self.values)
        return self._entity

    def __getattr__(self, name: str) -> Any:
        return getattr(self.entity, name)

    def __eq__(self, other: object) -> bool:
        return bool(self.entity == (other.entity if isinstance(other, Draft) else other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self.entity)


def schema_of(message: Any) -> Any:
    """Return the class of a message (a Draft or an entity)."""
    return message.schema if isinstance(message, Draft) else type(message)


@cache
def response_class(api_key: int, version: int) -> type[Any]:
    """Return the class of the response to a request of this api key and version."""
    return cast(type[Any], response_schema(api_key, version))


def respond(request: Any, **values: Any) -> Any:
    """Return the response to `request`, in the request's version, with `values` (see `fill`)."""
    return Draft(response_class(request.__api_key__, request.__version__), values)
