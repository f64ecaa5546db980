"""Records of internal logs in every version, by the example of a group's metadata."""

import struct
from dataclasses import dataclass, field
from typing import ClassVar

import pytest
from kio.static.constants import EntityType
from kio.static.primitive import i16

from nodes.coordinators.records import (
    CoordinatorRecord,
    RecordError,
    RecordType,
    RecordTypes,
)
from nodes.record_schemas import Schema, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key with one string, in one version."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = False
    group: str = field(metadata=wire("string"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """An entry of an array: version 1 adds a field."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(2)
    __flexible__: ClassVar[bool] = True
    name: str = field(metadata=wire("string"))
    timeout: int = field(metadata=wire("int32", since=1), default=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """Version 1 has `expires` alone, version 2 is flexible and has a tag."""

    __type__: ClassVar = EntityType.data
    __version__: ClassVar[i16] = i16(2)
    __flexible__: ClassVar[bool] = True
    protocol: str | None = field(metadata=wire("string"))
    members: tuple[Member, ...]
    expires: int = field(metadata=wire("int64", since=1, until=1), default=-1)
    epoch: int = field(metadata=wire("int32", tag=0), default=0)


KIND = RecordType(7, Schema(Key, 99), Schema(Value, 2), newest_value=2, also_numbers=(6,))
TYPES = RecordTypes([KIND])
WHOLE = Value(protocol="range", members=(Member(name="m", timeout=5),), expires=9, epoch=3)


@pytest.mark.parametrize(
    ("version", "kept"),
    [
        (0, Value(protocol="range", members=(Member(name="m"),))),
        (1, Value(protocol="range", members=(Member(name="m", timeout=5),), expires=9)),
        (2, Value(protocol="range", members=(Member(name="m", timeout=5),), epoch=3)),
    ],
)
def test_a_version_keeps_its_fields(version: int, kept: Value) -> None:
    """What a version lacks is not written, and has its default when it is read."""
    record = KIND.encode(Key(group="g"), WHOLE, version)
    decoded = TYPES.decode(record)
    assert decoded is not None
    assert (decoded.type, decoded.key, decoded.value) == (KIND, Key(group="g"), kept)


def test_bytes_are_those_of_the_schemas() -> None:
    """Number or version, then the fields; an old version is not flexible."""
    record = KIND.encode(Key(group="g"), WHOLE, 0)
    assert record.key == struct.pack(">hh", 7, 1) + b"g"
    assert record.value == struct.pack(">hh5sih", 0, 5, b"range", 1, 1) + b"m"


def test_old_numbers_and_tombstones() -> None:
    """A key may have an older number; a record without a value is a tombstone."""
    key, value = KIND.tombstone(Key(group="g"))
    assert value is None
    decoded = TYPES.decode(CoordinatorRecord(struct.pack(">h", 6) + key[2:], None))
    assert decoded is not None
    assert (decoded.key, decoded.value) == (Key(group="g"), None)


def test_unknown_types_are_skipped_and_damage_is_an_error() -> None:
    """A newer Kafka may have written other types, but a known one must be readable."""
    record = KIND.encode(Key(group="g"), WHOLE, 2)
    assert TYPES.decode(record._replace(key=struct.pack(">h", 8) + b"anything")) is None
    for damaged in (
        record._replace(key=b"\0"),
        record._replace(key=record.key[:-1]),
        record._replace(value=struct.pack(">h", 3)),
        record._replace(value=(record.value or b"")[:5]),
    ):
        with pytest.raises(RecordError):
            TYPES.decode(damaged)
