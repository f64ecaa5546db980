"""What members of the classic protocol tell each other: Java's ConsumerProtocol, in its versions.

A subscription is in JoinGroup, an assignment in SyncGroup. The coordinator reads and writes them
only for groups that have members of both protocols.
"""

import io
import struct
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple

from kio.serial import entity_reader, entity_writer

NEWEST: Final = 3
"""A newer version is read as this one: it has more fields at its end."""

_VERSION: Final = struct.Struct(">h")
_KIO: Final = "kio.schema.consumer_protocol_{}.v{}.data"

Partitions = Mapping[str, frozenset[int]]
"""By topic name."""


class Subscription(NamedTuple):
    """What a member subscribes to, and what it has."""

    topics: tuple[str, ...]
    owned: Partitions
    rack: str | None


def read_subscription(data: bytes) -> Subscription:
    """Raises ValueError if it is damaged."""
    found = _read("subscription", "ConsumerProtocolSubscription", data)
    if found.topics is None:
        raise ValueError("the topics are null")
    owned = _by_topic(getattr(found, "owned_partitions", ()))
    return Subscription(tuple(found.topics), owned, getattr(found, "rack_id", None))


def read_assignment(data: bytes) -> tuple[Partitions, bytes]:
    """The partitions, and what else the assignor says. Raises ValueError if it is damaged."""
    if not data:
        return {}, b""
    found = _read("assignment", "ConsumerProtocolAssignment", data)
    return _by_topic(found.assigned_partitions), found.user_data or b""


def write_assignment(partitions: Partitions, version: int) -> bytes:
    """An assignment in a version, or the newest before it."""
    version = min(max(version, 0), NEWEST)
    module = import_module(_KIO.format("assignment", version))
    rows = tuple(
        module.TopicPartition(topic=topic, partitions=tuple(sorted(partitions[topic])))
        for topic in sorted(partitions)
    )
    buffer = io.BytesIO()
    buffer.write(_VERSION.pack(version))
    cls = module.ConsumerProtocolAssignment
    entity_writer(cls)(buffer, cls(assigned_partitions=rows, user_data=None))
    return buffer.getvalue()


def version_of(data: bytes) -> int:
    """The version of a subscription or an assignment; 0 if it is too short."""
    return int(_VERSION.unpack_from(data)[0]) if len(data) >= _VERSION.size else 0


def _read(name: str, cls: str, data: bytes) -> Any:
    if len(data) < _VERSION.size or version_of(data) < 0:
        raise ValueError(f"a {name} of {len(data)} bytes")
    module = import_module(_KIO.format(name, min(version_of(data), NEWEST)))
    try:
        found, _ = entity_reader(getattr(module, cls))(data, _VERSION.size)
    except Exception as error:  # kio's readers raise unrelated types
        raise ValueError(f"a damaged {name}: {error!r}") from error
    return found


def _by_topic(rows: Iterable[Any] | None) -> Partitions:
    if rows is None:
        raise ValueError("the rows are null")
    result: dict[str, frozenset[int]] = {}
    for row in rows:
        if row.partitions is None:
            raise ValueError(f"the partitions of {row.topic} are null")
        result[row.topic] = result.get(row.topic, frozenset()) | frozenset(row.partitions)
    return result
