"""Every message that Kafka has, with contents of any kind: for the tests of what writes and reads.

Values are drawn as dicts of field values, as `nodes.wire.versions.fill` takes them; kio's reader
reads a zero UUID as none, times in milliseconds, and floats that are numbers.
"""

from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial._introspect import (
    EntityField,
    EntityTupleField,
    PrimitiveField,
    PrimitiveTupleField,
    classify_field,
    get_field_tag,
    get_schema_field_type,
    is_optional,
)
from kio.static.constants import EntityType

from nodes.wire.replica_log_info import GET_REPLICA_LOG_INFO
from nodes.wire.schemas import request_schema, response_schema

_EPOCH = datetime.fromtimestamp(0, UTC)
_PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "error_code": st.sampled_from(ErrorCode),
    "string": st.text(max_size=8) | st.just("x" * 127),
    "bytes": st.binary(max_size=8) | st.just(b"x" * 20_000),
    "records": st.binary(max_size=8) | st.just(b"x" * 20_000),
    "uuid": st.uuids(version=4),
    "timedelta_i32": st.integers(-(2**31), 2**31 - 1).map(lambda ms: timedelta(milliseconds=ms)),
    "timedelta_i64": st.integers(0, 2**40).map(lambda ms: timedelta(milliseconds=ms)),
    "datetime_i64": st.integers(0, 2**40).map(lambda ms: _EPOCH + timedelta(milliseconds=ms)),
}
MESSAGES: list[tuple[int, int, EntityType]] = [
    (api_key, version, kind)
    for api_key, name in sorted(api_key_map.items())
    for version, of_type in schema_name_map[name].items()
    for kind in (EntityType.request, EntityType.response)
    if kind in of_type
] + [(GET_REPLICA_LOG_INFO, 0, kind) for kind in (EntityType.request, EntityType.response)]
"""Api key, version, request or response: all that kio knows, and what it lacks."""


def schema(api_key: int, version: int, kind: EntityType) -> Any:
    """The class of one of MESSAGES."""
    load = request_schema if kind is EntityType.request else response_schema
    return load(api_key, version)


@cache
def values(cls: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Values for some of the fields of an entity of class `cls`; the others keep their default."""
    return st.fixed_dictionaries({}, optional=dict(_strategies(cls)))


def _strategies(cls: Any) -> Iterator[tuple[str, st.SearchStrategy[Any]]]:
    for field in fields(cls):
        strategy = _strategy(field)
        nullable = is_optional(field) and not classify_field(field).is_array
        if nullable and get_field_tag(field) is None:
            strategy = st.none() | strategy
        yield field.name, strategy


def _strategy(field: Any) -> st.SearchStrategy[Any]:
    match classify_field(field):
        case PrimitiveField():
            return _PRIMITIVES[get_schema_field_type(field)]
        case PrimitiveTupleField():
            return st.lists(_PRIMITIVES[get_schema_field_type(field)], max_size=3)
        case EntityTupleField(nested):
            return st.lists(values(nested), max_size=3)
        case EntityField(nested):
            return values(nested)


def of_nulls(cls: Any) -> dict[str, Any]:
    """Values with null wherever the schema allows it."""
    return {
        field.name: None
        for field in fields(cls)
        if type(None) in getattr(field.type, "__args__", ()) and get_field_tag(field) is None
    }
