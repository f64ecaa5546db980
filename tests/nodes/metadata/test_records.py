"""Metadata records: Kafka's bytes, both ways, and nothing else."""

import io
import re
from dataclasses import field as dataclass_field
from dataclasses import fields, is_dataclass, make_dataclass, replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_writer

from nodes.ids import BrokerEpoch, NodeId
from nodes.metadata.errors import MetadataError
from nodes.metadata.records import (
    RECORD_TYPES,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    decode,
    encode,
    encode_all,
)
from nodes.metadata.unused_records import QuotaEntity
from tests.support.nodes import kafka_schema

_UUIDS = st.uuids().filter(lambda u: u.int != 0)
_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=20),
    "string": st.text(max_size=20),
    "uuid": _UUIDS,
}


_NESTED = {"end_points": BrokerEndpoint, "features": BrokerFeature, "entity": QuotaEntity}


def _value(field: Any) -> st.SearchStrategy[Any]:
    if "kafka_type" not in field.metadata:
        cls = _NESTED[field.name]
        return st.lists(_entity(cls), max_size=3).map(tuple)
    scalar = _SCALARS[field.metadata["kafka_type"]]
    written = str(field.type)
    value = scalar
    if "tuple" in written:
        items = scalar | st.none() if field.metadata["kafka_type"] == "uuid" else scalar
        value = st.lists(items, max_size=4).map(tuple)
        return value | st.none() if written.endswith("| None") else value
    return value | st.none() if "None" in written else value


def _entity(cls: type[Any]) -> st.SearchStrategy[Any]:
    return st.builds(cls, **{field.name: _value(field) for field in fields(cls)})


@given(st.sampled_from(RECORD_TYPES).flatmap(_entity))
def test_every_record_is_decoded_as_it_was_encoded(record: MetadataRecord) -> None:
    """encode and decode are inverse for every type and value."""
    assert decode(encode(record)) == record


@given(
    st.lists(st.sampled_from([PartitionChangeRecord, *RECORD_TYPES]).flatmap(_entity), max_size=4),
    st.lists(st.tuples(st.integers(0, 9), _UUIDS, st.integers(1, 2)), max_size=4),
)
def test_encode_all_gives_the_same_bytes_as_encode(
    records: list[MetadataRecord], partitions: list[tuple[int, UUID, NodeId]]
) -> None:
    """Also changes that differ in their partition only, whose common bytes are written once."""
    alike = [
        replace(record, partition_id=number, topic_id=topic_id, leader=leader)
        for record in records
        if isinstance(record, PartitionChangeRecord)
        for number, topic_id, leader in partitions
    ]
    assert encode_all([*records, *alike]) == [encode(each) for each in [*records, *alike]]


@given(st.sampled_from(RECORD_TYPES).flatmap(_entity))
def test_another_reader_of_kafkas_schema_reads_the_same(record: MetadataRecord) -> None:
    """Names, types, order, versions and tags are those of Kafka's schema; a tagged field is left
    out only where it has its default.
    """
    name, found = kafka_schema.read(encode(record))
    assert name == type(record).__name__
    assert {_snake(key) for key in found} <= {field.name for field in fields(record)}
    for field in fields(record):
        if field.name in {_snake(key) for key in found}:
            assert _plain(getattr(record, field.name)) == found[_camel(field.name)]
        else:
            assert "tag" in field.metadata
            assert getattr(record, field.name) == field.default


_FIELDS_SINCE = {
    (RegisterBrokerRecord, 0): {"is_migrating_zk_broker", "in_controlled_shutdown", "log_dirs"},
    (RegisterBrokerRecord, 1): {"is_migrating_zk_broker", "log_dirs"},
    (RegisterBrokerRecord, 2): {"log_dirs"},
    (PartitionRecord, 0): {"directories", "eligible_leader_replicas", "last_known_elr"},
    (PartitionRecord, 1): {"eligible_leader_replicas", "last_known_elr"},
    (PartitionChangeRecord, 0): {"eligible_leader_replicas", "last_known_elr", "directories"},
    (PartitionChangeRecord, 1): {"eligible_leader_replicas", "last_known_elr"},
    (BrokerRegistrationChangeRecord, 0): {"in_controlled_shutdown", "log_dirs"},
    (BrokerRegistrationChangeRecord, 1): {"log_dirs"},
}
"""What each older version lacks, after Kafka's schema."""


@pytest.mark.parametrize(("cls", "version"), _FIELDS_SINCE)
@given(st.data())
def test_older_versions_are_read(cls: type[MetadataRecord], version: int, data: Any) -> None:
    """Kafka's controllers still write them; what they lack has its default."""
    record = data.draw(_entity(cls))
    lacks = _FIELDS_SINCE[cls, version]
    older = make_dataclass(
        "Older",
        [
            (f.name, f.type, dataclass_field(default=f.default, metadata=f.metadata))
            for f in fields(cls)
            if f.name not in lacks
        ],
        namespace={"__type__": cls.__type__, "__version__": version, "__flexible__": True},
        frozen=True,
        kw_only=True,
    )
    body = io.BytesIO()
    values = {f.name: getattr(record, f.name) for f in fields(older)}
    entity_writer(older)(body, older(**values))
    value = bytes([1, int(cls.__api_key__), version]) + body.getvalue()
    defaults = {f.name: f.default for f in fields(cls) if f.name in lacks}
    assert decode(value) == replace(record, **defaults)


def test_newer_versions_are_refused() -> None:
    """They may say what this broker would not do."""
    with pytest.raises(MetadataError, match="reads up to 0"):
        decode(bytes([1, 2, 1]) + encode(TopicRecord(name="a", topic_id=UUID(int=1)))[3:])


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _snake(name: str) -> str:
    return re.sub("(?<!^)([A-Z])", r"_\1", name).lower()


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if is_dataclass(value):
        return {_camel(f.name): _plain(getattr(value, f.name)) for f in fields(value)}
    return value


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (NoOpRecord(), "01 14 00 00"),
        (TopicRecord(name="ab", topic_id=UUID(int=1)), "01 02 00 03 6162 " + "00" * 15 + "01 00"),
        (
            PartitionChangeRecord(partition_id=3, topic_id=UUID(int=2)),
            "01 05 02 00000003 " + "00" * 15 + "02 00",
        ),
        (
            PartitionChangeRecord(
                partition_id=3, topic_id=UUID(int=2), isr=(NodeId(7),), leader=NodeId(-1)
            ),
            "01 05 02 00000003 " + "00" * 15 + "02 02 00 05 02 00000007 01 04 ffffffff",
        ),
        (
            BrokerRegistrationChangeRecord(
                broker_id=NodeId(1), broker_epoch=BrokerEpoch(9), fenced=1
            ),
            "01 11 02 00000001 0000000000000009 01 00 01 01",
        ),
    ],
)
def test_bytes_are_those_of_the_schema(record: MetadataRecord, expected: str) -> None:
    """Frame, field order, compact lengths and tags, counted by hand from Kafka's schema."""
    assert encode(record).hex() == expected.replace(" ", "")


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("", "frame version is not a varint"),
        ("00", "frame version 0"),
        ("02 14 00 00", "frame version 2"),
        ("01", "type is not a varint"),
        ("01 ff ff ff ff ff 00", "type is not a varint"),
        ("01 63 00 00", "unknown type 99"),
        ("01 14 01 00", "NoOpRecord of version 1"),
        ("01 14 00", "NoOpRecord with a damaged body"),
        ("01 14 00 00 00", "1 bytes after its end"),
        ("01 14 00 01 63 01 99", "NoOpRecord with a damaged body"),
        ("01 02 00 09 61", "TopicRecord with a damaged body"),
    ],
)
def test_invalid_bytes_are_refused(value: str, complaint: str) -> None:
    """Every way to be malformed has its own clear complaint."""
    with pytest.raises(MetadataError, match=complaint):
        decode(bytes.fromhex(value))


@given(st.binary(max_size=60))
def test_garbage_raises_nothing_but_metadata_error(value: bytes) -> None:
    """Random bytes never raise anything but MetadataError."""
    try:
        record = decode(value)
    except MetadataError:
        return
    assert isinstance(record, tuple(RECORD_TYPES))


@given(st.sampled_from(RECORD_TYPES).flatmap(_entity), st.data())
def test_a_truncated_record_raises_metadata_error(
    record: MetadataRecord, data: st.DataObject
) -> None:
    """No proper prefix of a record is a record."""
    whole = encode(record)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(MetadataError):
        decode(whole[:cut])
