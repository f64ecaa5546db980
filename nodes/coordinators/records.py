"""The records of the coordinators' internal topics: key and value as Kafka writes them.

A key begins with the number of its record type, a value with its version, two bytes each; then
follow the bodies by Kafka's schemas. A record without a value is a tombstone: it removes what
earlier records with its key said.
"""

import io
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from nodes.record_schemas import Schema

_NUMBER: Final = struct.Struct(">h")


class RecordError(Exception):
    """A record of a known type that cannot be read."""


class CoordinatorRecord(NamedTuple):
    """Key and value of one record; None is a tombstone."""

    key: bytes
    value: bytes | None


class Decoded(NamedTuple):
    """A record as entities; `value` is None for a tombstone."""

    type: "RecordType"
    key: Any
    value: Any


@dataclass(frozen=True, slots=True)
class RecordType:
    """One type of record: its number, the schemas of key and value, the newest value version.

    `also_numbers` are older numbers of the same type. A key has only one version.
    """

    number: int
    key: Schema[Any]
    value: Schema[Any]
    newest_value: int = 0
    also_numbers: tuple[int, ...] = ()

    @property
    def numbers(self) -> tuple[int, ...]:
        """Every number of this type."""
        return (self.number, *self.also_numbers)

    def encode(self, key: Any, value: Any | None, version: int) -> CoordinatorRecord:
        """Encode an entity of each schema, the value in `version`; None makes a tombstone."""
        return CoordinatorRecord(
            _body(self.number, self.key, key, self.number),
            None if value is None else _body(version, self.value, value, version),
        )

    def tombstone(self, key: Any) -> CoordinatorRecord:
        """The record that removes what `key` stands for."""
        return self.encode(key, None, 0)


class RecordTypes:
    """The types of one internal topic."""

    def __init__(self, types: Iterable[RecordType]) -> None:
        self._by_number = {number: each for each in types for number in each.numbers}

    def decode(self, record: CoordinatorRecord) -> Decoded | None:
        """Decode a record; None for a type that this build does not know, as Kafka skips it.

        Raises RecordError if the record is damaged, or has a newer version than this build reads.
        """
        number = _number(record.key)
        found = self._by_number.get(number)
        if found is None:
            return None
        key = _read(found.key, found.number, record.key)
        if record.value is None:
            return Decoded(found, key, None)
        version = _number(record.value)
        if not 0 <= version <= found.newest_value:
            raise RecordError(f"{found.value.cls.__name__} of version {version}")
        return Decoded(found, key, _read(found.value, version, record.value))


def _body(number: int, schema: Schema[Any], entity: Any, version: int) -> bytes:
    buffer = io.BytesIO()
    buffer.write(_NUMBER.pack(number))
    schema.writer(version)(buffer, entity)
    return buffer.getvalue()


def _number(data: bytes) -> int:
    if len(data) < _NUMBER.size:
        raise RecordError(f"{len(data)} bytes are too few for a record's number")
    return int(_NUMBER.unpack_from(data)[0])


def _read(schema: Schema[Any], version: int, data: bytes) -> Any:
    try:
        entity, _ = schema.reader(version)(data, _NUMBER.size)
    except Exception as error:  # kio's readers raise unrelated types
        raise RecordError(f"a damaged {schema.cls.__name__}: {error!r}") from error
    return entity
