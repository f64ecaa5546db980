"""Checks a request before it is decoded: refuses impossible arrays, removes unknown tagged fields.

kio's reader allocates room for all the elements that an array announces before it reads the first,
and a process that asks for too much memory is aborted: a few bytes would end a broker. The reader
also accepts null for any array, although the schema forbids it and handlers rely on that. So each
request is walked once before it is decoded, and has to end where its last field ends. The walk is a
function that is generated from the schema on first use, so that it costs little.

kio's reader also fails on tagged fields that it does not know, but in Kafka's protocol a newer
client may send them at any time (KIP-482). The walk finds them, and they are removed before the
request is decoded.

Pure. The walk does not check values; other errors of a request are left to its reader.
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, fields
from functools import cache
from types import NoneType
from typing import Any, assert_never, get_args

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

from nodes.wire.errors import MalformedFrame

MAX_ELEMENTS = 2_000
"""The most elements of all arrays of one request together. A request is decoded and handled without
a pause, and an element costs up to 16 microseconds: no request may block the event loop for long.
"""

_OF_ONE_PARTITION = dict.fromkeys((52, 53, 54, 55, 59, 80, 81, 82), 100)
"""The quorum's requests are about the one metadata partition, and a voter's few endpoints."""

_ALLOWED: Mapping[int, int] = {
    **_OF_ONE_PARTITION,
    0: 4_000,  # Produce
    1: 4_000,  # Fetch: brokers name 500 partitions at a time, or 2,000 without a session
    2: 4_000,  # ListOffsets
    3: 5_000,  # Metadata
    4: 16_000,  # LeaderAndIsr: a controller names 500 partitions at a time, and their replicas
    6: 16_000,  # UpdateMetadata: the same, with the brokers
    8: 4_000,  # OffsetCommit: a consumer names all its partitions at once
    9: 8_000,  # OffsetFetch, which costs little for each partition
    19: 4_000,  # CreateTopics, with assignments
    28: 4_000,  # TxnOffsetCommit
    45: 6_000,  # AlterPartitionReassignments, with replicas
    56: 8_000,  # AlterPartition: brokers name 500 partitions at a time, and their replicas
    68: 8_000,  # ConsumerGroupHeartbeat: a member names the partitions that it has
}
"""By api key, if an element costs less, or if more or fewer elements make sense."""


def max_elements(api_key: int) -> int:
    """The most elements that all arrays of a request of this api may have together."""
    return _ALLOWED.get(api_key, MAX_ELEMENTS)


_FIXED_SIZES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "error_code": 2,
    "int32": 4,
    "uint32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "float64": 8,
    "timedelta_i64": 8,
    "datetime_i64": 8,
    "uuid": 16,
}
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class _WalkState:
    """The elements that are still allowed, and the cuts (start, end, replacement), in order."""

    __slots__ = ("allowed", "cuts", "elements")

    def __init__(self, allowed: int) -> None:
        self.allowed = self.elements = allowed
        self.cuts: list[tuple[int, int, bytes]] = []

    def spend(self, elements: int) -> None:
        """Count elements. Raises MalformedFrame if there are too many."""
        self.elements -= elements
        if self.elements < 0:
            raise MalformedFrame(f"more than {self.allowed} elements in arrays")

    def cut_since(self, mark: int) -> int:
        """By how many bytes the cuts from number `mark` on shorten the request."""
        return sum(end - start - len(new) for start, end, new in self.cuts[mark:])


_Walk = Callable[[bytes, int, _WalkState], int]
"""Takes a request, the position of a field, and the state; returns the field's end."""
_Step = int | list[str]
"""A number of bytes, or lines of source."""


def checked(schema: Any, request: bytes, position: int) -> bytes:
    """Return `request` without the tagged fields that kio's class `schema` does not have.

    Its body begins at `position`. Raises MalformedFrame if it ends before its last field does, has
    too many elements, or has null for an array that may not be null.
    """
    budget = _WalkState(max_elements(schema.__api_key__))
    try:
        end = _entity(schema)(request, position, budget)
    except (IndexError, struct.error):
        end = len(request) + 1
    if end > len(request):
        raise MalformedFrame("fields or arrays that are longer than the frame")
    if not budget.cuts:
        return request
    kept: list[bytes] = []
    start = 0
    for cut, resume, replacement in budget.cuts:
        kept += (request[start:cut], replacement)
        start = resume
    return b"".join((*kept, request[start:]))


def uvarint(data: bytes, position: int) -> tuple[int, int]:
    """Read an unsigned varint at `position`; return it and its end.

    Raises MalformedFrame, IndexError.
    """
    byte = data[position]
    if byte < 0x80:
        return byte, position + 1
    value = byte & 0x7F
    for shift in range(7, 35, 7):
        position += 1
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
    raise MalformedFrame("an unsigned varint that does not end")


def uvarint_of(value: int) -> bytes:
    """Encode `value` as an unsigned varint."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def prepare(schema: Any) -> None:
    """Make the walk over requests of kio's class `schema`, before the first of them comes."""
    _entity(schema)


@cache
def _entity(schema: Any) -> _Walk:
    source = _Source(bool(schema.__flexible__))
    return source.function(source.entity(schema))


class _Source:
    """Makes the source of walks, which advance `position` over `data` and its nested entities."""

    def __init__(self, flexible: bool) -> None:
        self._flexible = flexible
        self._objects: dict[str, Any] = {
            "uvarint": uvarint,
            "int16": _INT16.unpack_from,
            "int32": _INT32.unpack_from,
            "MalformedFrame": MalformedFrame,
        }

    def function(self, lines: list[str]) -> _Walk:
        """The compiled walk."""
        body = _indented([*lines, "return position"])
        exec("\n".join(["def walk(data, position, budget):", *body]), self._objects)
        walk: _Walk = self._objects["walk"]
        return walk

    def entity(self, schema: Any) -> list[str]:
        """The lines for all fields of `schema`; neighbouring fields of fixed size are one step."""
        lines: list[str] = []
        size = 0
        tagged: dict[int, _Walk] = {}
        for field in fields(schema):
            step = self._field(field)
            tag = get_field_tag(field)
            if tag is not None:
                tagged[tag] = self.function(_lines(step))
            elif isinstance(step, int):
                size += step
            else:
                lines += [*_lines(size), *step]
                size = 0
        lines += _lines(size)
        if self._flexible:
            name = f"tagged{len(self._objects)}"
            self._objects[name] = _tagged_fields(tagged)
            lines += [
                "if data[position] == 0: position += 1",
                f"else: position = {name}(data, position, budget)",
            ]
        return lines

    def _field(self, field: Field[Any]) -> _Step:
        match classify_field(field):
            case PrimitiveField():
                return self._primitive(get_schema_field_type(field))
            case PrimitiveTupleField():
                element = self._primitive(get_schema_field_type(field))
                return self._array(element, _may_be_null(field))
            case EntityTupleField(schema):
                return self._array(self.entity(schema), _may_be_null(field))
            case EntityField(schema):
                lines = self.entity(schema)
                if not is_optional(field):
                    return lines
                # Null is an int8 of -1.
                there = ["position += 1", "if data[position - 1] < 0x80:"]
                return [*there, *_indented(lines)]
            case kind:
                assert_never(kind)

    def _primitive(self, kafka_type: str) -> _Step:
        size = _FIXED_SIZES.get(kafka_type)
        if size is not None:
            return size
        if self._flexible:
            return [*_UVARINT, "if n: position += n - 1"]
        if kafka_type == "string":
            return ["n = int16(data, position)[0]", "position += n + 2 if n > 0 else 2"]
        return ["n = int32(data, position)[0]", "position += n + 4 if n > 0 else 4"]

    def _array(self, element: _Step, nullable: bool) -> list[str]:
        if self._flexible:
            lines = [*_UVARINT, "n -= 1"]
        else:
            lines = ["n = int32(data, position)[0]", "position += 4"]
        if not nullable:
            lines.append("if n < 0: raise MalformedFrame('null instead of an array')")
        each = (
            [f"position += {element} * n"]
            if isinstance(element, int)
            else ["for _ in range(n):", *_indented(element)]
        )
        return [*lines, "if n > 0:", *_indented(["budget.spend(n)", *each])]


_UVARINT = (
    "n = data[position]",
    "position += 1",
    "if n > 0x7f: n, position = uvarint(data, position - 1)",
)
"""Lines that read `n`, which mostly has one byte."""


def _lines(step: _Step) -> list[str]:
    if isinstance(step, int):
        return [f"position += {step}"] if step else []
    return step


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _may_be_null(field: Field[Any]) -> bool:
    # kio's own `is_optional` is about an array's elements.
    return NoneType in get_args(field.type)


def _tagged_fields(known: dict[int, _Walk]) -> _Walk:
    def walk(data: bytes, position: int, budget: _WalkState) -> int:
        if data[position] == 0:
            return position + 1
        count_at, before = position, len(budget.cuts)
        count, position = uvarint(data, position)
        first, left = position, count
        for _ in range(count):
            start = position
            tag, size_at = uvarint(data, position)
            size, position = uvarint(data, size_at)
            field = known.get(tag)
            if field is None:
                budget.spend(1)
                budget.cuts.append((start, position + size, b""))
                left -= 1
            else:
                mark = len(budget.cuts)
                if field(data, position, budget) != position + size:
                    raise MalformedFrame(f"tagged field {tag} does not have its announced length")
                shorter = budget.cut_since(mark)
                if shorter:
                    budget.cuts.insert(mark, (size_at, position, uvarint_of(size - shorter)))
            position += size
        if left < count:
            budget.cuts.insert(before, (count_at, first, uvarint_of(left)))
        return position

    return walk
