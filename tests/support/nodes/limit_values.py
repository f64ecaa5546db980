"""Requests in which one number is at a limit of its type and everything else is as it should be.

For every message that a listener serves, in its oldest and its newest version: a plausible request
(`Knowledge` says what topics, ids and epochs there are), and from it one request for each number in
it and each value at or beside the limits of that number's type.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
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

from nodes.log.batch import Record, encode_batch
from nodes.wire.codec import encode_request
from nodes.wire.schemas import request_schema
from nodes.wire.versions import Draft

FETCH = 1
VOTE, BEGIN_EPOCH, END_EPOCH, DESCRIBE_QUORUM, FETCH_SNAPSHOT = 52, 53, 54, 55, 59
QUORUM = frozenset({VOTE, BEGIN_EPOCH, END_EPOCH, DESCRIBE_QUORUM, FETCH_SNAPSHOT})
METADATA_TOPIC = "__cluster_metadata"
METADATA_ID = UUID(int=1)
TOPIC_RESOURCE = 2


def _beside(low: int, high: int) -> tuple[int, ...]:
    return (low, low + 1, -2, -1, 0, 1, high - 1, high)


_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
LIMITS: Mapping[str, tuple[Any, ...]] = {
    **{name: _beside(-(1 << (n - 1)), (1 << (n - 1)) - 1) for name, n in _BITS.items()},
    "uint16": (0, 1, 2**16 - 2, 2**16 - 1),
    "uint32": (0, 1, 2**32 - 2, 2**32 - 1),
    "timedelta_i32": tuple(
        timedelta(milliseconds=ms) for ms in (-(2**31), -1, 0, 1, 2**31 - 2, 2**31 - 1)
    ),
    "float64": (0.0, -1.0, 1e308, float("inf"), float("nan")),
}
"""By the type of a field: its smallest and largest values, and those beside them and zero."""


@dataclass(frozen=True, kw_only=True)
class Knowledge:
    """What there is in a cluster, as a well-informed client names it."""

    cluster_id: str
    topic: str
    topic_id: UUID
    node_id: int
    stranger_id: int
    directory_id: UUID
    epoch: int
    at_controller: bool

    def is_of_quorum(self, api_key: int) -> bool:
        """Whether a request is about the metadata log."""
        return api_key in QUORUM or (self.at_controller and api_key == FETCH)


def requests(
    served: Mapping[int, tuple[int, int]], known: Knowledge
) -> Iterator[tuple[str, int, bytes]]:
    """What is at which limit, the api key, and the frame."""
    for key, (oldest, newest) in sorted(served.items()):
        for version in sorted({oldest, newest}):
            try:
                schema: Any = request_schema(key, version)
            except Exception:
                continue  # advertised and never served, as Produce v0
            yield f"{schema.__name__} v{version}", key, _frame(schema, plain(schema, key, known))
            for path, kafka_type in _numbers(schema):
                for value in LIMITS[kafka_type]:
                    values = plain(schema, key, known)
                    _put(values, path, value)
                    what = f"{schema.__name__} v{version} {'.'.join(path)}={value}"
                    yield what, key, _frame(schema, values)


def _frame(schema: Any, values: dict[str, Any]) -> bytes:
    return encode_request(Draft(schema, values), 7, "limits")


def _numbers(schema: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    for field in fields(schema):
        at = (*path, field.name)
        match classify_field(field):
            case PrimitiveField() | PrimitiveTupleField():
                kafka_type = get_schema_field_type(field)
                if kafka_type in LIMITS:
                    yield at, kafka_type
            case EntityField(nested) | EntityTupleField(nested):
                yield from _numbers(nested, at)


def _put(values: Any, path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        values = values[name][0] if isinstance(values[name], list) else values[name]
    values[path[-1]] = [value] if isinstance(values[path[-1]], list) else value


def plain(schema: Any, key: int, known: Knowledge) -> dict[str, Any]:
    """The fields of a plausible request, with one element in every array."""
    values: dict[str, Any] = {}
    for field in fields(schema):
        match classify_field(field):
            case PrimitiveField():
                values[field.name] = _value(field, key, known)
            case PrimitiveTupleField():
                values[field.name] = [_value(field, key, known)]
            case EntityField(nested):
                values[field.name] = plain(nested, key, known)
            case EntityTupleField(nested):
                values[field.name] = [plain(nested, key, known)]
    return values


def _value(field: Any, key: int, known: Knowledge) -> Any:
    name, kafka_type = field.name, get_schema_field_type(field)
    match kafka_type:
        case "string":
            return _text(name, field, key, known)
        case "uuid":
            if "topic" in name:
                return METADATA_ID if known.is_of_quorum(key) else known.topic_id
            return known.directory_id
        case "records":
            return encode_batch([Record(key=b"k", value=b"v")], timestamp_ms=1)
        case "bytes":
            return b"bytes"
        case "bool":
            return False
        case "timedelta_i32" | "timedelta_i64":
            return timedelta(milliseconds=1)
        case "datetime_i64":
            return None
        case "float64":
            return 1.0
    if "epoch" in name:
        return known.epoch
    if name in ("replica_id", "candidate_id", "leader_id", "broker_id", "voter_id"):
        return known.node_id if known.is_of_quorum(key) else known.stranger_id
    if name == "resource_type":
        return TOPIC_RESOURCE
    return 1 if name in ("acks", "max_bytes", "partition_max_bytes", "num_partitions") else 0


def _text(name: str, field: Any, key: int, known: Knowledge) -> Any:
    if name == "cluster_id":
        return known.cluster_id
    if "transactional_id" in name or name in ("rack", "rack_id"):
        return None if type(None) in getattr(field.type, "__args__", ()) else ""
    if "host" in name:
        return "127.0.0.1"
    if key in QUORUM and "topic" in name:
        return METADATA_TOPIC
    if name == "name" and key == FETCH_SNAPSHOT:
        return METADATA_TOPIC
    return known.topic
