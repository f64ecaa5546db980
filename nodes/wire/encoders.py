"""Encodes kio's messages fast, with functions that are generated for every class on first use.

kio's own writer walks a message field by field, with a call and a struct for each. Here the schema
is walked once and turned into Python source, in which neighbouring fields of fixed size are one
`struct.pack`. Every class gets two functions: one encodes an entity, one encodes a dict of field
values (as `versions.fill` accepts them), so that a response of a thousand partitions needs no
thousand entities. The bytes are those of kio's writer; the tests compare them for every message.

The result is a list of pieces. `records` are a piece of their own, so that a megabyte that was read
from a file is not copied on its way to the socket. Pure.
"""

import struct
from collections.abc import Callable
from dataclasses import Field, fields
from datetime import datetime, timedelta
from functools import cache
from typing import Any, assert_never
from uuid import UUID

from kio.serial._implicit_defaults import get_tagged_field_default
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

from nodes.wire.frames import Piece
from nodes.wire.screening import uvarint_of
from nodes.wire.versions import Draft, default_of, fill

_Put = Callable[[Piece], None]
_Encode = Callable[[_Put, Any], None]

_FIXED = {
    "bool": ("?", "{}"),
    "int8": ("b", "{}"),
    "int16": ("h", "{}"),
    "uint16": ("H", "{}"),
    "error_code": ("h", "{}"),
    "int32": ("i", "{}"),
    "uint32": ("I", "{}"),
    "int64": ("q", "{}"),
    "float64": ("d", "{}"),
    "timedelta_i32": ("i", "ms({})"),
    "timedelta_i64": ("q", "ms({})"),
    "datetime_i64": ("q", "epoch_ms({})"),
    "uuid": ("16s", "uuid({})"),
}
"""By Kafka's type: the struct code, and the expression of the packed value."""


def pieces(message: Any) -> list[Piece]:
    """Return the encoded body of `message` (a Draft or a kio entity), as pieces in order.

    Raises struct.error, TypeError or AttributeError for values that the schema cannot hold.
    """
    out: list[Piece] = []
    if isinstance(message, Draft):
        _of_values(message.schema)(out.append, message.values)
    else:
        cls: Any = type(message)
        _of_entity(cls)(out.append, message)
    return out


def encoded(message: Any) -> bytes:
    """Return the encoded body of `message` in one piece; see `pieces`."""
    return b"".join(pieces(message))


def _ms(value: timedelta) -> int:
    return round(value.total_seconds() * 1000) if value else 0


def _epoch_ms(value: datetime | None) -> int:
    return -1 if value is None else round(value.timestamp() * 1000)


def _uuid(value: UUID | None) -> bytes:
    return bytes(16) if value is None else value.bytes


_HELPERS: dict[str, Any] = {
    "short": tuple(uvarint_of(value) for value in range(0x80)),
    "uvarint": uvarint_of,
    "pack": struct.pack,
    "ms": _ms,
    "epoch_ms": _epoch_ms,
    "uuid": _uuid,
}


def prepare(cls: Any) -> None:
    """Make what encodes Drafts of kio's class `cls`, before the first of them is sent."""
    _of_values(cls)


@cache
def _of_entity(cls: Any) -> _Encode:
    source = _Source(bool(cls.__flexible__), "e.{name}".format)
    return source.function(cls)


@cache
def _of_values(cls: Any) -> _Encode:
    source = _Source(bool(cls.__flexible__), "e.get({name!r}, {default})".format)
    return source.function(cls)


def _as_entity(cls: Any, item: Any) -> Any:
    return fill(cls, **item) if type(item) is dict else item


class _Source:
    """The source of one function `encode(put, e)`, and the objects that it uses by name.

    `access` makes the expression of a field's value from the field's name and the name of its
    default.
    """

    def __init__(self, flexible: bool, access: Callable[..., str]) -> None:
        self._flexible = flexible
        self._access = access
        self._objects = dict(_HELPERS)
        self._lines: list[str] = []
        self._codes = ""
        self._values: list[str] = []

    def function(self, cls: Any) -> _Encode:
        """The compiled function for `cls`."""
        tagged: dict[int, Field[Any]] = {}
        for field in fields(cls):
            tag = get_field_tag(field)
            if tag is None:
                self._plain(field)
            else:
                tagged[int(tag)] = field
        if tagged:
            self._tagged(tagged)
        elif self._flexible:
            self._codes += "x"  # no tagged fields: one byte of zero
        self._end_run()
        body = "".join(f"    {line}\n" for line in self._lines or ["pass"])
        exec(f"def encode(put, e):\n{body}", self._objects)
        encode: _Encode = self._objects["encode"]
        return encode

    def _name(self, value: Any) -> str:
        name = f"o{len(self._objects)}"
        self._objects[name] = value
        return name

    def _value(self, field: Field[Any], default: Any) -> str:
        return self._access(name=field.name, default=self._name(default))

    def _end_run(self) -> None:
        """Write the fields of fixed size that were collected so far as one pack."""
        if self._codes:
            packer = self._name(struct.Struct(">" + self._codes).pack)
            self._lines.append(f"put({packer}({', '.join(self._values)}))")
        self._codes, self._values = "", []

    def _plain(self, field: Field[Any]) -> None:
        value = self._value(field, default_of(field))
        if isinstance(classify_field(field), PrimitiveField):
            fixed = _FIXED.get(get_schema_field_type(field))
            if fixed is not None:
                self._codes += fixed[0]
                self._values.append(fixed[1].format(value))
                return
        self._end_run()
        self._lines.append(f"x = {value}")
        self._lines += self._written(field, nullable=is_optional(field))

    def _written(self, field: Field[Any], *, nullable: bool) -> list[str]:
        """Return lines that write `x`, the value of `field`, to `put`."""
        match classify_field(field):
            case PrimitiveField():
                return self._primitive(get_schema_field_type(field), nullable)
            case PrimitiveTupleField():
                return self._array(self._elements(get_schema_field_type(field)))
            case EntityTupleField(cls):
                return self._array([f"for y in x: {self._nested(cls, 'y')}"])
            case EntityField(cls):
                write = self._nested(cls, "x")
                if not nullable:
                    return [write]
                return ["put(b'\\xff' if x is None else b'\\x01')", f"if x is not None: {write}"]
            case kind:
                assert_never(kind)

    def _nested(self, cls: Any, item: str) -> str:
        """Return a call that writes `item`, an entity or a dict."""
        entity, values = self._name(_of_entity(cls)), self._name(_of_values(cls))
        return f"({values} if type({item}) is dict else {entity})(put, {item})"

    def _primitive(self, kafka_type: str, nullable: bool) -> list[str]:
        fixed = _FIXED.get(kafka_type)
        if fixed is not None:
            return [f"put(pack('>{fixed[0]}', {fixed[1].format('x')}))"]
        if self._flexible:
            null, size = "b'\\x00'", "put(short[n + 1] if n < 127 else uvarint(n + 1))"
        elif kafka_type == "string":
            null, size = "b'\\xff\\xff'", "put(pack('>h', n))"
        else:
            null, size = "b'\\xff\\xff\\xff\\xff'", "put(pack('>i', n))"
        write = [*(["x = x.encode()"] if kafka_type == "string" else []), "n = len(x)", size]
        write.append("put(x)")
        if not nullable:
            return write
        return [f"if x is None: put({null})", "else:", *(f"    {line}" for line in write)]

    def _elements(self, kafka_type: str) -> list[str]:
        fixed = _FIXED.get(kafka_type)
        if kafka_type == "uuid":
            return ["put(b''.join(map(uuid, x)))"]
        if fixed is not None:
            return [f"put(pack(f'>{{len(x)}}{fixed[0]}', *x))"]
        lines = self._primitive(kafka_type, nullable=False)
        return ["for x in x:", *(f"    {line}" for line in lines)]

    def _array(self, elements: list[str]) -> list[str]:
        if self._flexible:
            null, size = "b'\\x00'", "put(short[n + 1] if n < 127 else uvarint(n + 1))"
        else:
            null, size = "b'\\xff\\xff\\xff\\xff'", "put(pack('>i', n))"
        write = ["x = tuple(x)", "n = len(x)", size, *elements]
        return [f"if x is None: put({null})", "else:", *(f"    {line}" for line in write)]

    def _tagged(self, tagged: dict[int, Field[Any]]) -> None:
        """Write the tagged fields (KIP-482) that differ from their default, in order of tag."""
        self._end_run()
        self._lines += ["tags = []", "out = put"]
        for tag, field in sorted(tagged.items()):
            default = get_tagged_field_default(field)
            kind = classify_field(field)
            name = self._name(default)
            self._lines += [f"x = {self._access(name=field.name, default=name)}"]
            if isinstance(kind, EntityField):
                entity = f"{self._name(_as_entity)}({self._name(kind.type_)}, x)"
            else:
                entity = "tuple(x)" if kind.is_array else "x"
            # A tagged field that is written has a value: null is expressed by leaving it out.
            write = [
                "part = []",
                "put = part.append",
                *self._written(field, nullable=False),
                "part = b''.join(part)",
                f"tags.append({uvarint_of(tag)!r} + uvarint(len(part)) + part)",
            ]
            lines = [f"x = {entity}", f"if x != {name}:", *(f"    {line}" for line in write)]
            self._lines += [f"if x is not {name}:", *(f"    {line}" for line in lines)]
        self._lines.append("out(uvarint(len(tags)) + b''.join(tags) if tags else b'\\x00')")
