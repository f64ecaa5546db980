"""What counts in a metadata log: records of brokers and partitions, those of transactions once
they are over (KIP-868).

Other records, which a make of broker may have more of than another, are passed over.
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

TELLING: Final[tuple[type[MetadataRecord], ...]] = (
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
_TELLING_TYPES: Final = frozenset(int(each.__api_key__) for each in TELLING)
"""Each is one byte as a varint, the second of a record's frame."""

Records = tuple[MetadataRecord, ...]


def decoded(values: Iterable[bytes | None]) -> Records:
    """The records that tell of brokers, partitions or transactions. Raises MetadataError."""
    return tuple(decode(each) for each in values if each and each[1] in _TELLING_TYPES)


def counting(batches: Iterable[Records]) -> Iterator[Records]:
    """What of the log counts with each of its batches: of a transaction, all of it at its end."""
    held: list[MetadataRecord] | None = None
    for records in batches:
        counts: list[MetadataRecord] = []
        for record in records:
            match record:
                case BeginTransactionRecord():
                    held = []
                case EndTransactionRecord():
                    counts += held or ()
                    held = None
                case AbortTransactionRecord():
                    held = None
                case _:
                    (counts if held is None else held).append(record)
        yield tuple(counts)
