"""Announced lengths are checked against the frame, for every request of Kafka."""

import io
import random
import struct
from dataclasses import fields
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.index import load_request_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_writer
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
from kio.serial._serialize import get_field_writer
from kio.static.constants import EntityType

from nodes.wire.codec import decode_request, encode_request
from nodes.wire.errors import MalformedFrame
from nodes.wire.screening import MAX_ELEMENTS, checked, max_elements, uvarint_of

REQUESTS = [
    (api_key, version)
    for api_key, name in sorted(api_key_map.items())
    for version, of_type in schema_name_map[name].items()
    if EntityType.request in of_type
]
VALUES: dict[str, Any] = {
    "bool": True,
    "float64": 1.5,
    "uuid": UUID(int=7),
    "string": "some",
    "bytes": b"bytes",
    "records": b"records",
    "timedelta_i32": timedelta(seconds=1),
    "timedelta_i64": timedelta(seconds=1),
}


def filled(schema: Any) -> Any:
    """An entity with something in every field, two elements in every array, tags included."""
    values = {}
    for field in fields(schema):
        match classify_field(field):
            case PrimitiveField():
                value = VALUES.get(get_schema_field_type(field), 1)
            case PrimitiveTupleField():
                value = (VALUES.get(get_schema_field_type(field), 1),) * 2
            case EntityField(nested):
                value = filled(nested)
            case EntityTupleField(nested):
                value = (filled(nested),) * 2
        values[field.name] = value
    return schema(**values)


def body(entity: Any) -> bytes:
    """The entity as it goes over the wire, without a header."""
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


@pytest.mark.parametrize(("api_key", "version"), REQUESTS)
def test_walk_ends_where_the_request_ends(api_key: int, version: int) -> None:
    """A whole request passes, and one without its last byte does not."""
    schema = load_request_schema(api_key, version)
    data = body(filled(schema))
    checked(schema, b"head" + data, 4)
    if data:
        with pytest.raises(MalformedFrame, match="longer than the frame"):
            checked(schema, data[:-1], 0)


def test_huge_announced_lengths_are_refused() -> None:
    """A huge length anywhere in a request is refused, or read as a value, or as a shorter one."""
    rng = random.Random(3)
    huge = [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\x80\x80\x40"]
    for api_key, version in REQUESTS:
        frame = encode_request(filled(load_request_schema(api_key, version)), 1, "me")[4:]
        for position in range(12, len(frame) - 5):
            bomb = rng.choice(huge)
            try:
                decode_request(frame[:position] + bomb + frame[position + len(bomb) :])
            except MalformedFrame:
                continue


def test_number_of_elements_is_bounded() -> None:
    """Even if they are all there: the walk over a big frame must end soon."""
    schema = load_request_schema(3, 1)  # Metadata: an array of topic names
    empty_name = b"\0\0"
    few, many = (
        struct.pack(">i", count) + empty_name * count
        for count in (max_elements(3), max_elements(3) + 1)
    )
    checked(schema, few, 0)
    with pytest.raises(MalformedFrame, match="more than 5000 elements"):
        checked(schema, many, 0)


def test_null_is_accepted_only_for_nullable_arrays() -> None:
    """For Metadata's topics (which means all), but not for those of ListOffsets."""
    for null, metadata, list_offsets in (
        (b"\xff\xff\xff\xff", 1, 1),
        (b"\0", 12, 9),
    ):
        allowed = load_request_schema(3, metadata)
        checked(allowed, null + b"\0" * 5, 0)
        refused = load_request_schema(2, list_offsets)
        with pytest.raises(MalformedFrame, match="null instead of an array"):
            checked(refused, b"\0" * (4 if list_offsets == 1 else 5) + null + b"\0" * 9, 0)


UNKNOWN = (b"\x2a\x03new", b"\xff\x7f\x00")
"""Two tagged fields that no schema has: tag 42 with three bytes, tag 16,383 with none."""


def newer(entity: Any) -> bytes:
    """The body of a flexible request as a newer client may write it: unknown tags everywhere."""
    out, tags = io.BytesIO(), []
    for field in fields(entity):
        buffer = io.BytesIO()
        value, kind = getattr(entity, field.name), classify_field(field)
        tag = get_field_tag(field)
        if isinstance(kind, EntityTupleField):
            buffer.write(bytes([len(value) + 1]) + b"".join(map(newer, value)))
        elif isinstance(kind, EntityField):
            buffer.write(newer(value))
        else:
            get_field_writer(field, True, is_request_header=False, is_tag=tag is not None)(
                buffer, value
            )
        if tag is None:
            out.write(buffer.getvalue())
        else:
            data = buffer.getvalue()
            tags.append(uvarint_of(tag) + uvarint_of(len(data)) + data)
    tags = [UNKNOWN[0], *tags, UNKNOWN[1]]
    return out.getvalue() + bytes([len(tags)]) + b"".join(tags)


@pytest.mark.parametrize(("api_key", "version"), REQUESTS)
def test_unknown_tagged_fields_are_removed(api_key: int, version: int) -> None:
    """At every level of every flexible request, inside known tagged fields too."""
    schema = load_request_schema(api_key, version)
    if not schema.__flexible__ or any(
        isinstance(classify_field(field), EntityField) and is_optional(field)
        for field in fields(schema)
    ):
        return
    entity = filled(schema)
    plain = b"head" + body(entity)
    assert checked(schema, plain, 4) is plain
    assert checked(schema, b"head" + newer(entity), 4) == plain
    if fields(schema):
        with pytest.raises(MalformedFrame, match="longer than the frame"):
            checked(schema, b"head" + newer(entity)[:-1], 4)


def test_unknown_tagged_fields_count_as_elements() -> None:
    """A cut costs memory."""
    schema = load_request_schema(18, 3)
    tags = uvarint_of(MAX_ELEMENTS + 1) + b"\x2a\x00" * (MAX_ELEMENTS + 1)
    with pytest.raises(MalformedFrame, match=f"more than {MAX_ELEMENTS} elements"):
        checked(schema, b"\x02a\x02b" + tags, 0)
