"""Snapshots of the metadata log in Kafka's file format (KIP-630). Pure.

A snapshot is a sequence of record batches with offsets from 0 on, all with the epoch in its name: a
control batch with the SnapshotHeader and (from kraft.version 1 on) the voters, then the records of
the state, then a control batch with the SnapshotFooter. `read` accepts only a whole snapshot: every
CRC, offset and epoch must be right, and the footer must be the last record.

Others handle the files, and the meaning of the records.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kio.schema.snapshot_footer_record.v0.data import SnapshotFooterRecord
from kio.schema.snapshot_header_record.v0.data import SnapshotHeaderRecord
from kio.schema.voters_record.v0.data import VotersRecord

from nodes.ids import Epoch, Offset
from nodes.log.batch import Record, check_crc, decode_records, encode_batch, iter_batches
from nodes.log.errors import CorruptBatch
from nodes.raft.control_records import (
    DYNAMIC_KRAFT_VERSION,
    control_messages,
    kraft_version,
    record_of,
    snapshot_footer,
    snapshot_header,
    voter_set,
    voters_record,
)
from nodes.raft.errors import ControlRecordError, SnapshotCorrupt
from nodes.raft.positions import SnapshotId
from nodes.raft.voters import VoterSet

SUFFIX: Final = ".checkpoint"
PART_SUFFIX: Final = ".checkpoint.part"
"""The suffix while a snapshot is written or received."""

_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A whole snapshot: the records of the state below `snapshot_id.offset`, and the voters."""

    snapshot_id: SnapshotId
    last_timestamp_ms: int
    voters: VoterSet | None
    """None if the voters were not recorded yet."""
    records: tuple[bytes, ...]


def file_name(snapshot_id: SnapshotId) -> str:
    """Kafka's name for the file."""
    return f"{snapshot_id.offset:020d}-{snapshot_id.epoch:010d}{SUFFIX}"


def id_of(name: str) -> SnapshotId | None:
    """The snapshot of a file name; None for any other file."""
    match = _NAME.fullmatch(name)
    return SnapshotId(Offset(int(match[1])), Epoch(int(match[2]))) if match else None


class SnapshotEncoder:
    """Makes a snapshot's batches, in order: `header`, any number of `batch`, `footer`."""

    def __init__(self, snapshot_id: SnapshotId, timestamp_ms: int) -> None:
        self._epoch = snapshot_id.epoch
        self._timestamp_ms = timestamp_ms
        self._next = Offset(0)

    def header(self, last_timestamp_ms: int, voters: VoterSet) -> bytes:
        """The first batch. A static (configured) voter set is not recorded."""
        records = [record_of(snapshot_header(last_timestamp_ms))]
        if not voters.is_static:
            records.append(record_of(kraft_version(DYNAMIC_KRAFT_VERSION)))
            records.append(record_of(voters_record(voters)))
        return self._encode(records, control=True)

    def batch(self, values: Sequence[bytes]) -> bytes:
        """Some records of the state, at least one."""
        return self._encode([Record(value=value) for value in values], control=False)

    def footer(self) -> bytes:
        """The last batch."""
        return self._encode([record_of(snapshot_footer())], control=True)

    def _encode(self, records: list[Record], *, control: bool) -> bytes:
        base, self._next = self._next, Offset(self._next + len(records))
        return encode_batch(
            records,
            base_offset=base,
            leader_epoch=self._epoch,
            timestamp_ms=self._timestamp_ms,
            control=control,
        )


def read(snapshot_id: SnapshotId, data: bytes) -> Snapshot:
    """Read the snapshot in a file's bytes. Raises SnapshotCorrupt."""
    try:
        return _read(snapshot_id, data)
    except (CorruptBatch, ControlRecordError) as error:
        raise SnapshotCorrupt(f"{file_name(snapshot_id)}: {error}") from error


def _read(snapshot_id: SnapshotId, data: bytes) -> Snapshot:
    expected, end = Offset(0), 0
    header: SnapshotHeaderRecord | None = None
    voters: VoterSet | None = None
    records: list[bytes] = []
    whole = False
    for position, batch in iter_batches(data):
        check_crc(data, position, batch)
        if whole:
            raise CorruptBatch("a batch after the footer")
        if batch.base_offset != expected or batch.partition_leader_epoch != snapshot_id.epoch:
            raise CorruptBatch(
                f"a batch at {batch.base_offset} of epoch {batch.partition_leader_epoch}, "
                f"where offset {expected} is due"
            )
        expected, end = batch.next_offset, position + batch.size
        for _, message in control_messages(data, position, batch):
            match message:
                case SnapshotHeaderRecord():
                    header = message
                case SnapshotFooterRecord():
                    whole = True
                case VotersRecord():
                    voters = voter_set(message)
        if header is None:
            raise CorruptBatch("no header in the first batch")
        if not batch.is_control:
            records += [record.value or b"" for record in decode_records(data, position)]
    if header is None or not whole or end != len(data):
        raise CorruptBatch(f"{len(data)} bytes without a footer at their end")
    return Snapshot(
        snapshot_id=snapshot_id,
        last_timestamp_ms=header.last_contained_log_timestamp,
        voters=voters,
        records=tuple(records),
    )
