"""The essential fields of a Kafka message: which partitions it names, and a few words about each.

Works on any kio message, whatever its kind and version: an element that names a partition is a
part, and a part's caption has the fields that replication depends on. Pure.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from harness.workloads.clients.payload import HEADER_BYTES, MAGIC, client_of, peek_value
from nodes.log.batch import decode_records, iter_batches
from nodes.log.errors import CorruptBatch
from nodes.metadata import records as metadata

NO_LEADER: Final = -1
METADATA: Final = "__cluster_metadata"
INDEX: Final = ("partition_index", "index", "partition")
NAME: Final = ("name", "topic", "topic_name")
SHORT: Final[Mapping[str, str]] = {
    "fetch_offset": "from",
    "base_offset": "at",
    "high_watermark": "hw",
    "current_leader_epoch": "epoch",
    "leader_epoch": "epoch",
    "replica_epoch": "epoch",
    "last_offset": "log end",
    "last_offset_epoch": "last epoch",
    "end_offset": "ends at",
    "leader_id": "leader",
    "leader": "leader",
    "isr": "ISR",
    "vote_granted": "granted",
    "replica_id": "candidate",
}
"""Fields of a part that a caption shows, and their words."""
VALUES_NAMED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a message says about one partition."""

    topic: str
    partition: int
    words: str
    values: tuple[int, ...] = ()
    """Values of the workload's records that the part carries."""
    offsets: tuple[int, int] | None = None
    """The first and the last offset of the records that the part carries."""
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caption:
    """A message in words."""

    parts: tuple[Part, ...]
    error: str = ""
    """The error of the message as a whole."""


def topic_ids(message: Any) -> Iterator[tuple[UUID, str]]:
    """Yield topic ids with their names, where the message has both."""
    for entity in _entities(message):
        found, name = getattr(entity, "topic_id", None), _first_field(entity, NAME)
        if isinstance(found, UUID) and isinstance(name, str) and name:
            yield found, name
        for record in _metadata_records(entity):
            if isinstance(record, metadata.TopicRecord):
                yield record.topic_id, record.name


def caption(message: Any, names: Mapping[UUID, str]) -> Caption:
    """Return a message in words; `names` has the topics' names by id."""
    parts = tuple(_parts(message, "", names))
    return Caption(parts=parts, error=_error(message))


def _parts(entity: Any, topic: str, names: Mapping[UUID, str]) -> Iterator[Part]:
    name, topic_id = _first_field(entity, NAME), getattr(entity, "topic_id", None)
    if isinstance(name, str):
        topic = name
    elif isinstance(topic_id, UUID):
        topic = names.get(topic_id, METADATA if topic_id.int == 1 else str(topic_id))
    index = _first_field(entity, INDEX)
    if topic and isinstance(index, int):
        yield from _part(entity, topic, index, names)
        return
    for child in _children(entity):
        yield from _parts(child, topic, names)


def _part(entity: Any, topic: str, index: int, names: Mapping[UUID, str]) -> Iterator[Part]:
    words = [f"{word} {_format(value)}" for word, value in _fields(entity)]
    values, offsets = _records(entity, topic)
    if values:
        more = "…" if len(values) > VALUES_NAMED else ""
        words.insert(0, ", ".join(map(value_name, values[:VALUES_NAMED])) + more)
    if offsets is not None and (not values or offsets[0] or "fetch" in type(entity).__module__):
        first, last = offsets
        words.insert(0, f"records {first}" + (f" to {last}" if last > first else ""))
    error = _error(entity)
    yield Part(
        topic=topic,
        partition=index,
        words=", ".join([error, *words] if error else words),
        values=values,
        offsets=offsets,
        error=error,
    )
    for record in _metadata_records(entity):
        yield from _metadata_part(record, names)


def _fields(entity: Any) -> Iterator[tuple[str, Any]]:
    for field in fields(entity):
        value = getattr(entity, field.name)
        if field.name == "new_isr_with_epochs":
            yield "new ISR", [member.broker_id for member in value]
        elif field.name == "new_isr" and value:
            yield "new ISR", value
        elif field.name == "diverging_epoch" and value is not None and value.end_offset >= 0:
            yield "diverges:", f"epoch {value.epoch} ended at {value.end_offset}"
        elif field.name in SHORT and value is not None and value != -1:
            yield SHORT[field.name], value


def _metadata_part(record: Any, names: Mapping[UUID, str]) -> Iterator[Part]:
    """Yield a part for a record of the metadata log that concerns a partition."""
    if isinstance(record, metadata.PartitionRecord | metadata.PartitionChangeRecord):
        topic = names.get(record.topic_id, str(record.topic_id))
        changes = [f"ISR {_format(record.isr)}"] if record.isr is not None else []
        if record.leader == NO_LEADER:
            changes.insert(0, "no leader")
        elif record.leader >= 0:
            changes.insert(0, f"leader {record.leader}")
        words = "decided: " + (", ".join(changes) or "nothing of leader or ISR")
        yield Part(topic=topic, partition=record.partition_id, words=words)


def _records(entity: Any, topic: str) -> tuple[tuple[int, ...], tuple[int, int] | None]:
    """Return the values and the offsets that a part carries."""
    data = getattr(entity, "records", None)
    if not data:
        return (), None
    values: list[int] = []
    offsets: list[int] = []
    try:
        for at, header in iter_batches(data):
            offsets += (header.base_offset, header.base_offset + header.last_offset_delta)
            if topic != METADATA and not header.is_control:
                values += [
                    peek_value(record.value)
                    for record in decode_records(data, at)
                    if record.value and len(record.value) >= HEADER_BYTES
                    if record.value.startswith(MAGIC)
                ]
    except CorruptBatch:
        pass  # the caption has what could be read
    return tuple(values), (offsets[0], offsets[-1]) if offsets else None


def _metadata_records(entity: Any) -> Iterator[Any]:
    """Yield the metadata records that a part of the metadata log carries."""
    data = getattr(entity, "records", None)
    if not data or _first_field(entity, INDEX) != 0:
        return
    try:
        for at, header in iter_batches(data):
            if not header.is_control:
                for record in decode_records(data, at):
                    yield metadata.decode(record.value or b"")
    except Exception:  # not metadata: the records of a topic
        return


def value_name(value: int) -> str:
    """Return a value's name: the client's number and the client's own count."""
    return f"{client_of(value)}#{value & 0xFFFF_FFFF}"


def _error(entity: Any) -> str:
    code = getattr(entity, "error_code", None)
    return code.name if isinstance(code, ErrorCode) and code is not ErrorCode.none else ""


def _first_field(entity: Any, names: tuple[str, ...]) -> Any:
    return next((v for name in names if (v := getattr(entity, name, None)) is not None), None)


def _format(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "{" + ", ".join(map(str, value)) + "}"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _children(entity: Any) -> Iterator[Any]:
    if is_dataclass(entity):
        for field in fields(entity):
            value = getattr(entity, field.name)
            if isinstance(value, tuple):
                yield from (each for each in value if is_dataclass(each))
            elif is_dataclass(value):
                yield value


def _entities(entity: Any) -> Iterator[Any]:
    yield entity
    for child in _children(entity):
        yield from _entities(child)
