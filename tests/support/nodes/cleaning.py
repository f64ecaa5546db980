"""Compacted logs for tests: appended, cleaned, and read as consumers do."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

from nodes.ids import Epoch, Offset
from nodes.log.batch import (
    HEADER_BYTES,
    BatchHeader,
    Record,
    assemble,
    decode_records,
    encode_batch,
    iter_batches,
    read_header,
)
from nodes.log.cleaning.cleaner import Cleaning, Step
from nodes.log.cleaning.offset_map import BYTES_PER_KEY, OffsetMap
from nodes.log.compression import compress, decompress
from nodes.log.config import CompactionConfig, LogConfig
from nodes.log.log import Log
from nodes.log.transactions.markers import decode_marker
from nodes.storage.disk import Disk, File
from tests.support.nodes.batches import content

COMPACTED = LogConfig(
    segment_bytes=400,
    index_interval_bytes=100,
    max_message_bytes=5000,
    producer_expiration_ms=1 << 62,
    compaction=CompactionConfig(delete_retention_ms=100),
)
Pair = tuple[bytes, bytes | None]


def keyed(
    *pairs: Pair,
    codec: int = 0,
    timestamp_ms: int = 1000,
    producer: tuple[int, int, int] = (-1, -1, -1),
    base_offset: int = 0,
    epoch: int = -1,
) -> bytes:
    """A batch with these keys and values; `producer` is id, epoch and base sequence."""
    plain = encode_batch(
        [Record(key=key, value=value) for key, value in pairs],
        timestamp_ms=timestamp_ms,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        base_offset=Offset(base_offset),
        leader_epoch=Epoch(epoch),
    )
    header = read_header(plain)
    return assemble(
        header._replace(attributes=header.attributes | codec), compress(codec, plain[HEADER_BYTES:])
    )


def small_map(keys: int = 1 << 20, start: int = 0, *, records: int = 1000) -> OffsetMap:
    """An offset map for so many keys, and few superseded records of theirs; it has one dictionary
    or several, depending on how many records there may be.
    """
    budget = keys * BYTES_PER_KEY + BYTES_PER_KEY // 2
    return OffsetMap(Offset(start), Offset(start + records), budget)


def cleaning(
    log: Log,
    *,
    first_dirty: int = 0,
    end: int | None = None,
    now_ms: int = 5000,
    keys: int = 1 << 20,
    records: int = 1000,
) -> Cleaning:
    """A cleaning of all stable segments but the active one, or below `end`; flushes it first. The
    map is one for so many keys and records.
    """
    log.flush()
    stable = log.segments.of(log.last_stable_offset(log.end_offset)).base_offset
    return Cleaning(
        log,
        stable if end is None else Offset(end),
        offsets=small_map(keys, max(first_dirty, log.start_offset), records=records),
        now_ms=now_ms,
        window_bytes=300,
    )


def do(cleaning: Cleaning, disk: Disk, between: Callable[[Step], None] = lambda step: None) -> None:
    """Do all steps of a cleaning. What is to be synced is synced as late as a step allows it."""
    unsynced: list[File | str] = []
    with closing(cleaning.steps()) as steps:
        for step in steps:
            unsynced += step.to_sync
            if step.synced:
                for target in unsynced:
                    if isinstance(target, str):
                        disk.sync_dir(target)
                    else:
                        target.sync()
                unsynced.clear()
            between(step)


def roll(log: Log, config: LogConfig = COMPACTED) -> None:
    """Seal the active segment, by its age."""
    if log.segments.active.size:
        log.configure(replace(config, segment_ms=0))
        log.expire(1 << 60, Offset(0))
        log.configure(config)


def records_of(batches: Sequence[bytes]) -> Iterator[tuple[BatchHeader, Record]]:
    """Every record of these batches, decompressed."""
    for batch in batches:
        header = read_header(batch)
        plain = assemble(
            header._replace(attributes=header.attributes & ~7),
            decompress(header.compression, batch[HEADER_BYTES:]),
        )
        for record in decode_records(plain):
            yield header, record


def pairs_of(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of every record that a reader of the whole log sees."""
    return [
        (record.offset, record.key, record.value)
        for header, record in records_of(content(log))
        if not header.is_control
    ]


def committed_pairs(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    """As `pairs_of`, for a reader with isolation.level=read_committed."""
    coming = sorted(
        log.aborted_transactions(log.start_offset, log.end_offset), key=lambda t: -t.first_offset
    )
    aborted: set[int] = set()
    found = []
    for batch in content(log):
        header = read_header(batch)
        while coming and coming[-1].first_offset <= header.last_offset:
            aborted.add(coming.pop().producer_id)
        if header.is_control:
            marker = decode_marker(batch)
            if marker is not None and not marker.committed:
                aborted.discard(marker.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            found += [(r.offset, r.key, r.value) for _, r in records_of([batch])]
    return found


def folded(log: Log) -> dict[bytes | None, bytes]:
    """The last value of each key that is not deleted, of committed records."""
    state: dict[bytes | None, bytes] = {}
    for _, key, value in committed_pairs(log):
        if value is None:
            state.pop(key, None)
        else:
            state[key] = value
    return state


def has_no_gap(log: Log) -> bool:
    """Whether each batch begins where the one before ends."""
    end = read_header(content(log)[0]).base_offset if log.end_offset > log.start_offset else None
    for batch in content(log):
        for _, header in iter_batches(batch):
            if header.base_offset != end:
                return False
            end = header.next_offset
    return end in (None, log.end_offset)
