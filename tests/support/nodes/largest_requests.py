"""The largest request of each api that its listener takes: every array of it as long as may be.

For each array in a message there is one request in which that array has as many elements as
`nodes.wire.screening` allows, of the smallest kind, and everything else is plain.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any
from uuid import UUID

from kio.serial._introspect import (
    EntityField,
    EntityTupleField,
    PrimitiveField,
    PrimitiveTupleField,
    classify_field,
    get_schema_field_type,
)

from nodes.wire.codec import encode_request
from nodes.wire.schemas import request_schema
from nodes.wire.screening import max_elements
from nodes.wire.versions import Draft, default_of
from tests.support.nodes.limit_values import Knowledge, plain

KNOWN = Knowledge(
    cluster_id="highwater",
    topic="calm",
    topic_id=UUID(int=1),
    node_id=1,
    stranger_id=2_000_001,
    directory_id=UUID(int=1),
    epoch=1,
    at_controller=False,
)


def largest(
    served: Mapping[int, tuple[int, int]], topic_id: UUID, count: int | None = None
) -> Iterator[tuple[str, bytes]]:
    """What is large, and the frame; `count` elements, or as many as may be."""
    for key, (oldest, newest) in sorted(served.items()):
        for version in sorted({oldest, newest}):
            try:
                schema: Any = request_schema(key, version)
            except Exception:
                continue  # advertised and never served, as Produce v0
            for path, field in _arrays(schema):
                for alike in (False, True):
                    values = plain(schema, key, KNOWN)
                    _costly(values)
                    outer = len(path) - 1  # each array around it has an element as well
                    _fill(values, path, field, (count or max_elements(key)) - outer, alike)
                    frame = encode_request(Draft(schema, values), 7, "large")
                    what = "equal" if alike else "different"
                    yield f"{schema.__name__} v{version} {what} {'.'.join(path)}", frame


def _costly(values: dict[str, Any]) -> None:
    """Acknowledgements that are waited for, and room for records: what costs most."""
    for name, value in (("acks", -1), ("max_bytes", 1 << 20), ("include_synonyms", True)):
        if name in values:
            values[name] = value


def _arrays(schema: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for field in fields(schema):
        at = (*path, field.name)
        match classify_field(field):
            case PrimitiveTupleField():
                yield at, field
            case EntityTupleField(nested):
                yield at, field
                yield from _arrays(nested, at)
            case EntityField(nested):
                yield from _arrays(nested, at)


def _fill(values: Any, path: tuple[str, ...], field: Any, count: int, alike: bool) -> None:
    for name in path[:-1]:
        values = values[name][0] if isinstance(values[name], list) else values[name]
    (element,) = values[path[-1]] or [None]
    kind = classify_field(field)
    if isinstance(kind, EntityTupleField):
        bare = {f.name: default_of(f) for f in fields(kind.type_)}
        numbers = [f.name for f in fields(kind.type_) if _counts(f)]
        names = [f.name for f in fields(kind.type_) if _is_text(f)]
        copied = {**element, **{k: v for k, v in bare.items() if isinstance(v, tuple)}}
        values[path[-1]] = [
            copied
            if alike
            else {**copied, **dict.fromkeys(numbers, n), **dict.fromkeys(names, f"t{n}")}
            for n in range(count)
        ]
    else:
        kafka_type = get_schema_field_type(field)
        numbered = not alike and kafka_type in ("int32", "int64")
        values[path[-1]] = list(range(count)) if numbered else [element] * count


def _counts(field: Any) -> bool:
    """Whether elements differ by it: equal ones may be refused at once."""
    number = isinstance(classify_field(field), PrimitiveField)
    return number and "partition" in field.name and get_schema_field_type(field) == "int32"


def _is_text(field: Any) -> bool:
    named = field.name in ("name", "topic", "topic_name", "resource_name")
    return named and field.metadata.get("kafka_type") == "string"
