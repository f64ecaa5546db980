"""Records of Kafka's internal logs, declared once and read and written in every version.

kio lacks these records, so their classes are declared in kio's form: frozen dataclasses whose
fields name their wire type (`wire`). A class has the fields of all versions. A field that only some
versions have says so, and needs a default. Field names, order and tags are those of Kafka's JSON
schemas.
"""

import io
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, fields, is_dataclass, make_dataclass
from functools import cache
from types import GenericAlias
from typing import Any, Final, Generic, TypeVar, cast, get_args

from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from kio.static.primitive import i16

R = TypeVar("R")
NEWEST: Final = 2**15 - 1


def wire(
    kafka_type: str, *, tag: int | None = None, since: int = 0, until: int = NEWEST
) -> dict[str, object]:
    """Describe a field. `since` and `until`: the first and the last version with it.

    A tagged field needs neither: readers of older versions skip it.
    """
    known: dict[str, object] = {"kafka_type": kafka_type, "since": since, "until": until}
    return known if tag is None else {**known, "tag": tag}


@dataclass(frozen=True, slots=True)
class Schema(Generic[R]):
    """One record type. `flexible_since`: the first version in flexible encoding (KIP-482)."""

    cls: type[R]
    flexible_since: int = 0

    def writer(self, version: int) -> Callable[[io.BytesIO, R], None]:
        """A function that writes a record's body in `version`, without what the version lacks."""
        schema = self._class_of(version)
        write = cast(Callable[[io.BytesIO, Any], None], entity_writer(schema))
        if schema is self.cls:
            return write
        return lambda buffer, record: write(buffer, _convert(record, schema))

    def reader(self, version: int) -> Callable[[bytes, int], tuple[R, int]]:
        """A function that reads a body of `version` at a position: the record, its size in bytes.

        Fields that the version lacks have their defaults. It raises what kio raises on damaged
        data, which are unrelated types.
        """
        schema = self._class_of(version)
        read = cast(Callable[[bytes, int], tuple[Any, int]], entity_reader(schema))
        if schema is self.cls:
            return read

        def read_older(data: bytes, position: int) -> tuple[R, int]:
            found, size = read(data, position)
            return _convert(found, self.cls), size

        return read_older

    def _class_of(self, version: int) -> Any:
        cls = cast(Hashable, self.cls)
        return at_version(cls, version, flexible=version >= self.flexible_since)


@cache
def at_version(cls: Any, version: int, *, flexible: bool) -> Any:
    """The class with exactly the fields of `version`; `cls` itself if it has the same."""
    kept = [
        (each, _type_at(each.type, version, flexible))
        for each in fields(cls)
        if each.metadata.get("since", 0) <= version <= each.metadata.get("until", NEWEST)
        and (flexible or "tag" not in each.metadata)
    ]
    same = all(each.type is kind for each, kind in kept) and len(kept) == len(fields(cls))
    if same and cls.__flexible__ == flexible:
        return cls
    namespace = {
        "__type__": getattr(cls, "__type__", EntityType.data),
        "__version__": i16(version),
        "__flexible__": flexible,
    }
    if hasattr(cls, "__api_key__"):
        namespace["__api_key__"] = cls.__api_key__
    return make_dataclass(
        f"{cls.__name__}V{version}",
        [
            (each.name, kind, field(default=each.default, metadata=each.metadata))
            for each, kind in kept
        ],
        namespace=namespace,
        frozen=True,
        slots=True,
        kw_only=True,
    )


def _type_at(kind: Any, version: int, flexible: bool) -> Any:
    """The type of a field, with nested entities in the fields of `version`."""
    if is_dataclass(kind):
        return at_version(cast(Hashable, kind), version, flexible=flexible)
    nested = next((each for each in get_args(kind) if is_dataclass(each)), None)
    older = nested and at_version(cast(Hashable, nested), version, flexible=flexible)
    return kind if older is nested else GenericAlias(tuple, (older, ...))


def _convert(record: Any, cls: Any) -> Any:
    """The record as an entity of `cls`, which has other fields of the same type of record."""
    known = {each.name for each in fields(record)}
    values = {}
    for each in fields(cls):
        if each.name not in known:
            continue
        value = getattr(record, each.name)
        nested = each.type if is_dataclass(each.type) else None
        items = next((n for n in get_args(each.type) if is_dataclass(n)), None)
        if nested is not None and value is not None:
            value = _convert(value, nested)
        elif items is not None and value is not None:
            value = tuple(_convert(item, items) for item in value)
        values[each.name] = value
    return cls(**values)
