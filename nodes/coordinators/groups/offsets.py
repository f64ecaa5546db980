"""The committed offsets of all groups of one coordinator.

An offset that is committed in a transaction is pending until the transaction's marker. Of a pending
and a committed offset the one with the later record counts, whatever the order of the markers, as
in Kafka: compaction keeps the later record, and live state must be what a compacted log says.

A tombstone removes the offset, and what transactions have pending for it.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from nodes.coordinators.groups.records import (
    NO_EXPIRY,
    OFFSET_COMMIT,
    OffsetCommitKey,
    OffsetCommitValue,
    read_commit,
)
from nodes.coordinators.machine import Position, ProducerStamp
from nodes.coordinators.records import CoordinatorRecord, RecordTypes
from nodes.ids import NO_EPOCH, Epoch, Offset

_TYPES: Final = RecordTypes([OFFSET_COMMIT])


class OffsetKey(NamedTuple):
    """Whose offset, and of which partition."""

    group_id: str
    topic: str
    partition: int

    def tombstone(self) -> CoordinatorRecord:
        """The record that removes the offset."""
        return OFFSET_COMMIT.tombstone(
            OffsetCommitKey(group=self.group_id, topic=self.topic, partition=self.partition)
        )


class CommittedOffset(NamedTuple):
    """An offset that was committed, or is pending."""

    offset: Offset
    leader_epoch: Epoch
    metadata: str
    commit_wall_ms: int
    expire_wall_ms: int
    """NO_EXPIRY, unless the client gave a time of retention (OffsetCommit up to version 4)."""
    topic_id: UUID | None
    record_offset: Offset
    """Where its record is in the log."""


NOTHING_COMMITTED: Final = CommittedOffset(
    Offset(-1), NO_EPOCH, "", -1, NO_EXPIRY, None, Offset(-1)
)

_Partitions = dict[int, CommittedOffset]


class Offsets:
    """See the module. `replay` and `end_transaction` change it; everything else reads."""

    def __init__(self) -> None:
        self._committed: dict[str, dict[str, _Partitions]] = {}
        self._pending: dict[int, dict[OffsetKey, CommittedOffset]] = {}
        """By producer id. A key whose offset was deleted meanwhile is removed here too."""
        self._open: dict[str, dict[OffsetKey, dict[int, None]]] = {}
        """By group: the producer ids of the open transactions that have an offset pending."""

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Offsets)
            and self._committed == other._committed
            and self._pending == other._pending
        )

    __hash__ = None  # type: ignore[assignment]

    # -- reading

    def has(self, group_id: str) -> bool:
        """Whether the group has an offset, committed or pending."""
        return group_id in self._committed or group_id in self._open

    def groups(self) -> list[str]:
        """The ids of the groups with offsets, committed or pending."""
        return list(dict.fromkeys((*self._committed, *self._open)))

    def of_group(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """The committed offsets of a group by topic and partition."""
        return self._committed.get(group_id, {})

    def keys_of(self, group_id: str) -> Iterator[OffsetKey]:
        """The keys of the group's offsets, committed or pending, each once."""
        for topic, partitions in self.of_group(group_id).items():
            for partition in partitions:
                yield OffsetKey(group_id, topic, partition)
        for key in self._open.get(group_id, ()):
            if self.committed(key) is None:
                yield key

    def committed(self, key: OffsetKey) -> CommittedOffset | None:
        """The committed offset of a partition."""
        return self.of_group(key.group_id).get(key.topic, {}).get(key.partition)

    def pending(self, key: OffsetKey) -> bool:
        """Whether an open transaction has an offset of this partition."""
        return key in self._open.get(key.group_id, ())

    # -- what changes it

    def replay(self, record: CoordinatorRecord, position: Position) -> None:
        """Apply a record. Raises RecordError."""
        read = read_commit(record)
        if read is not None:
            group_id, topic, partition, offset, leader_epoch, metadata, commit_ms, topic_id = read
            value = CommittedOffset(
                offset, leader_epoch, metadata, commit_ms, NO_EXPIRY, topic_id, position.offset
            )
        else:
            decoded = _TYPES.decode(record)
            if decoded is None:
                return
            group_id, topic = decoded.key.group, decoded.key.topic
            partition = decoded.key.partition
            if decoded.value is None:
                self._remove(OffsetKey(group_id, topic, partition))
                return
            value = _committed_offset(decoded.value, position.offset)
        if position.producer is None:
            self._commit(group_id, topic, partition, value)
            return
        key, producer_id = OffsetKey(group_id, topic, partition), position.producer.producer_id
        self._pending.setdefault(producer_id, {})[key] = value
        self._open.setdefault(group_id, {}).setdefault(key, {})[producer_id] = None

    def _commit(self, group_id: str, topic: str, partition: int, value: CommittedOffset) -> None:
        try:
            self._committed[group_id][topic][partition] = value
        except KeyError:  # the first of its group or topic
            topics = self._committed.setdefault(group_id, {})
            topics.setdefault(topic, {})[partition] = value

    def end_transaction(self, producer: ProducerStamp, *, commit: bool) -> None:
        """Apply a transaction's marker."""
        for key, value in self._pending.pop(producer.producer_id, {}).items():
            self._close(key, producer.producer_id)
            known = self.committed(key)
            if commit and (known is None or known.record_offset < value.record_offset):
                self._commit(*key, value)

    def _remove(self, key: OffsetKey) -> None:
        topics = self._committed.get(key.group_id, {})
        partitions = topics.get(key.topic, {})
        if partitions.pop(key.partition, None) is not None and not partitions:
            del topics[key.topic]
            if not topics:
                del self._committed[key.group_id]
        for producer_id in list(self._open.get(key.group_id, {}).get(key, ())):
            del self._pending[producer_id][key]
            if not self._pending[producer_id]:
                del self._pending[producer_id]
            self._close(key, producer_id)

    def _close(self, key: OffsetKey, producer_id: int) -> None:
        """The producer's transaction has no offset of this partition pending any more."""
        of_group = self._open[key.group_id]
        del of_group[key][producer_id]
        if not of_group[key]:
            del of_group[key]
            if not of_group:
                del self._open[key.group_id]


def _committed_offset(value: OffsetCommitValue, record_offset: Offset) -> CommittedOffset:
    return CommittedOffset(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        value.topic_id,
        record_offset,
    )
