"""Reads the records of brokers and partitions in a metadata log.

Records of a metadata transaction count when the transaction ends (KIP-868). Records of other kinds
are skipped; broker programs differ in them.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from nodes.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    EndTransactionRecord,
    FenceBrokerRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    decode,
)

RELEVANT: Final[tuple[type[MetadataRecord], ...]] = (
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    UnfenceBrokerRecord,
    TopicRecord,
    RemoveTopicRecord,
    PartitionRecord,
    PartitionChangeRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    AbortTransactionRecord,
)
_RELEVANT_TYPES: Final = frozenset(int(each.__api_key__) for each in RELEVANT)
"""A type is one byte as a varint: the second byte of a record's frame."""

Records = tuple[MetadataRecord, ...]


def decode_relevant(values: Iterable[bytes | None]) -> Records:
    """Return the records of brokers, partitions and transactions. Raises MetadataError."""
    return tuple(decode(each) for each in values if each and each[1] in _RELEVANT_TYPES)


def committed(batches: Iterable[Records]) -> Iterator[Records]:
    """Yield for each batch the records that take effect with it: those of a transaction take
    effect at its end."""
    held: list[MetadataRecord] | None = None
    for records in batches:
        effective: list[MetadataRecord] = []
        for record in records:
            match record:
                case BeginTransactionRecord():
                    held = []
                case EndTransactionRecord():
                    effective += held or ()
                    held = None
                case AbortTransactionRecord():
                    held = None
                case _:
                    (effective if held is None else held).append(record)
        yield tuple(effective)
