"""A log as compaction may leave it: in memory, by rules of its own.

Compaction may remove a record that a later record of its key supersedes, the records of aborted
transactions, and tombstones. It may do so up to any offset below the last stable offset. What a
coordinator remembers must not depend on that. The broker's cleaner is not used here: it cleans
seldom, and it may have a mistake.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from nodes.coordinators.machine import Machine, Position, ProducerStamp
from nodes.coordinators.records import CoordinatorRecord
from nodes.ids import Offset
from nodes.log.batch import BatchHeader, iter_batches
from nodes.log.key_values import read_key_values
from nodes.log.log import Log
from nodes.log.transactions.markers import decode_marker

READ_BYTES: Final = 1 << 20


class LogRecord(NamedTuple):
    """A record with a key; `producer` is set if it is a part of a transaction."""

    offset: Offset
    timestamp: int
    producer: ProducerStamp | None
    key: bytes
    value: bytes | None


class Ended(NamedTuple):
    """The marker of a transaction."""

    offset: Offset
    timestamp: int
    producer: ProducerStamp
    committed: bool


Entry = LogRecord | Ended


def read_entries(log: Log) -> Iterator[Entry]:
    """Yield the records and markers of the whole log, in order.

    A marker whose record was removed counts as one that aborts. A replica that lagged may have
    records of its transaction: they were aborted, or newer records of their keys follow.
    """
    offset = log.start_offset
    while offset < log.end_offset:
        data = log.read(offset, READ_BYTES, log.end_offset)
        for at, header in iter_batches(data):
            offset = header.next_offset
            yield from entries_of(data, at, header)
            if header.is_control and header.producer_id >= 0 and not header.record_count:
                stamp = ProducerStamp(header.producer_id, header.producer_epoch)
                yield Ended(header.base_offset, header.max_timestamp, stamp, committed=False)


def entries_of(data: bytes, at: int, header: BatchHeader) -> Iterator[Entry]:
    """Yield the records or the marker of the uncompressed batch at position `at`."""
    stamp = ProducerStamp(header.producer_id, header.producer_epoch)
    if header.is_control:
        marker = decode_marker(data, at)
        if marker is not None:
            yield Ended(header.base_offset, header.max_timestamp, stamp, marker.committed)
        return
    for delta, stamp_delta, key, value in read_key_values(data, at, header):
        if key is not None:
            yield LogRecord(
                Offset(header.base_offset + delta),
                header.record_timestamp(stamp_delta),
                stamp if header.is_transactional else None,
                key,
                value,
            )


def compacted(entries: Iterable[Entry], below: int, *, tombstones: bool) -> list[Entry]:
    """Return what is left if the log is cleaned below the offset `below`, with or without its
    tombstones. No transaction may be open there.
    """
    entries = list(entries)
    aborted = aborted_offsets(entries)
    last: dict[bytes, Offset] = {}
    for each in entries:
        if isinstance(each, LogRecord) and each.offset < below and each.offset not in aborted:
            last[each.key] = each.offset

    def stays(entry: Entry) -> bool:
        if isinstance(entry, Ended) or entry.offset >= below:
            return True
        return last.get(entry.key) == entry.offset and (tombstones or entry.value is not None)

    return [each for each in entries if stays(each)]


def aborted_offsets(entries: Iterable[Entry]) -> set[Offset]:
    """Return the offsets of the records of aborted transactions."""
    return set(abort_markers(entries))


def abort_markers(entries: Iterable[Entry]) -> dict[Offset, Offset]:
    """Return the offset of the marker of each record of an aborted transaction, by the record's."""
    markers = markers_of(entries)
    return {offset: each.offset for offset, each in markers.items() if not each.committed}


def markers_of(entries: Iterable[Entry]) -> dict[Offset, Ended]:
    """Return the marker of each record of a transaction that has ended, by the record's offset."""
    written: dict[int, list[Offset]] = {}
    markers: dict[Offset, Ended] = {}
    for each in entries:
        if isinstance(each, LogRecord):
            if each.producer is not None:
                written.setdefault(each.producer.producer_id, []).append(each.offset)
            continue
        markers |= dict.fromkeys(written.pop(each.producer.producer_id, []), each)
    return markers


def folded(entries: Iterable[Entry]) -> dict[bytes, LogRecord]:
    """Return the last record of each key that has a value: all that compaction has to keep."""
    entries = list(entries)
    aborted = aborted_offsets(entries)
    last: dict[bytes, LogRecord] = {}
    for each in entries:
        if isinstance(each, LogRecord) and each.offset not in aborted:
            last.pop(each.key, None)
            if each.value is not None:
                last[each.key] = each
    return last


def replay_entries(machine: Machine, entries: Iterable[Entry]) -> None:
    """Let `machine` replay the records and markers."""
    for each in entries:
        if isinstance(each, Ended):
            position = Position(each.offset, each.timestamp, None)
            machine.end_transaction(each.producer, position, commit=each.committed)
        else:
            position = Position(each.offset, each.timestamp, each.producer)
            machine.replay(CoordinatorRecord(each.key, each.value), position)
