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
from types import GenericAlias, NoneType
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
        return _writer(self, version)

    def reader(self, version: int) -> Callable[[bytes, int], tuple[R, int]]:
        """A function that reads a body of `version` at a position: the record, its size in bytes.

        Fields that the version lacks have their defaults. It raises what kio raises on damaged
        data, which are unrelated types.
        """
        return _reader(self, version)

    def class_of(self, version: int) -> Any:
        """The class with exactly the fields of `version`."""
        cls = cast(Hashable, self.cls)
        return at_version(cls, version, flexible=version >= self.flexible_since)


@cache
def _writer(schema: Schema[Any], version: int) -> Callable[[io.BytesIO, Any], None]:
    target = schema.class_of(version)
    write = cast(Callable[[io.BytesIO, Any], None], entity_writer(target))
    if target is schema.cls:
        return write
    convert = _converter(cast(Hashable, schema.cls), target)
    return lambda buffer, record: write(buffer, convert(record))


@cache
def _reader(schema: Schema[Any], version: int) -> Callable[[bytes, int], tuple[Any, int]]:
    source = schema.class_of(version)
    read = cast(Callable[[bytes, int], tuple[Any, int]], entity_reader(source))
    if source is schema.cls:
        return read
    convert = _converter(source, cast(Hashable, schema.cls))

    def read_older(data: bytes, position: int) -> tuple[Any, int]:
        found, size = read(data, position)
        return convert(found), size

    return read_older


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
    nested = _entity_in(kind)
    older = nested and at_version(cast(Hashable, nested), version, flexible=flexible)
    if older is nested:
        return kind
    array = GenericAlias(tuple, (older, ...))
    return array | None if NoneType in get_args(kind) else array


def _entity_in(kind: Any) -> Any:
    """The entity class of an array of entities, also of one that may be null; else None."""
    for each in get_args(kind):
        if is_dataclass(each):
            return each
        if (found := _entity_in(each)) is not None:
            return found
    return None


@cache
def _converter(source: Any, target: Any) -> Callable[[Any], Any]:
    """A function that makes an entity of `target` from one of `source`.

    Both are classes of the same type of record, with the fields of different versions.
    """
    known = {each.name: each.type for each in fields(source)}
    plain, nested = [], []
    for each in fields(target):
        if each.name in known:
            convert = _nested_converter(known[each.name], each.type)
            plain.append(each.name) if convert is None else nested.append((each.name, convert))

    def converted(record: Any) -> Any:
        values = {name: getattr(record, name) for name in plain}
        for name, convert in nested:
            value = getattr(record, name)
            values[name] = None if value is None else convert(value)
        return target(**values)

    return converted


def _nested_converter(source: Any, target: Any) -> Callable[[Any], Any] | None:
    """How a field's value is converted: an entity, a tuple of entities, or (None) not at all."""
    if is_dataclass(target):
        return _converter(cast(Hashable, source), cast(Hashable, target))
    older, newer = _entity_in(source), _entity_in(target)
    if older is None or newer is None:
        return None
    convert = _converter(cast(Hashable, older), cast(Hashable, newer))
    return lambda items: tuple(convert(item) for item in items)
