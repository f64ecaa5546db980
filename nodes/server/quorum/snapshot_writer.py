"""Writes snapshots of the metadata (KIP-630), so that the start of the metadata log can be deleted.

It writes one snapshot at a time, when enough was committed since the last one, or when the last one
is old. The state is immutable, so it is written in slices, and the event loop runs in between. If a
snapshot cannot be written, the next attempt is when the next one is due: the log still has
everything.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple, Protocol

from nodes.ids import Epoch, Offset
from nodes.raft.positions import SnapshotId
from nodes.raft.snapshot import Snapshot, SnapshotEncoder
from nodes.server.quorum.delivery import CommittedBatch, DeliveredSinceSnapshot
from nodes.server.quorum.member import QuorumMember

SLICE_RECORDS: Final = 200

log = logging.getLogger("nodes.raft")


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLimits:
    """When a snapshot is due."""

    record_bytes: int = 20 << 20
    """metadata.log.max.record.bytes.between.snapshots"""

    interval_ms: float = 3_600_000
    """metadata.log.max.snapshot.interval.ms; 0: never because of time alone"""


class SnapshotContent(NamedTuple):
    """The state after the record at `last_offset`, which has `epoch`, as records."""

    last_offset: Offset
    epoch: Epoch
    records: Iterator[bytes]


class SnapshotSource(Protocol):
    """A listener that keeps the state."""

    def snapshot_content(self) -> SnapshotContent:
        """The state of now; the iterator makes the records one by one."""


class SnapshotWriter:
    """See the module. It is a listener, and comes after the source."""

    def __init__(
        self, member: QuorumMember, source: SnapshotSource, limits: SnapshotLimits
    ) -> None:
        self._member = member
        self._source = source
        self._limits = limits
        self._writing = False
        self._last_ms: float | None = None

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """A snapshot was loaded or fetched."""
        self._last_ms = self._member.now_ms()

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """Begin a snapshot if one is due."""
        now_ms = self._member.now_ms()
        if self._last_ms is None:
            self._last_ms = now_ms
        done = self._member.delivery.since_snapshot
        late = 0 < self._limits.interval_ms <= now_ms - self._last_ms
        if done.size_bytes >= self._limits.record_bytes or (late and done.records):
            self.begin()

    def on_active(self, epoch: Epoch) -> None:
        """Leaders and followers write snapshots alike."""

    def on_inactive(self, epoch: Epoch) -> None:
        """Leaders and followers write snapshots alike."""

    def begin(self) -> None:
        """Write a snapshot of the state in the background, unless one is being written."""
        if self._writing:
            return
        content = self._source.snapshot_content()
        if content.last_offset < 0:
            return
        self._writing = True
        self._last_ms = self._member.now_ms()
        delivery = self._member.delivery
        delivery.since_snapshot = DeliveredSinceSnapshot()
        self._member.spawn(self._write(content, delivery.last_timestamp_ms))

    async def _write(self, content: SnapshotContent, last_timestamp_ms: int) -> None:
        member = self._member
        offset = Offset(content.last_offset + 1)
        snapshot_id = SnapshotId(offset, content.epoch)
        voters = member.log.voter_history.before(offset)
        encoder = SnapshotEncoder(snapshot_id, member.wall_clock())
        began_ms = member.now_ms()
        try:
            partial = member.log.begin_snapshot(snapshot_id)
            try:
                partial.append(encoder.header(last_timestamp_ms, voters))
                while values := list(islice(content.records, SLICE_RECORDS)):
                    partial.append(encoder.batch(values))
                    await asyncio.sleep(0)
                partial.append(encoder.footer())
                size = partial.size
                await partial.complete()
            finally:
                partial.discard()
            current = member.log.snapshot
            if current is None or current < snapshot_id:
                member.log.add_snapshot(snapshot_id)
            log.info(
                "snapshot %s: %d bytes in %.0f ms", snapshot_id, size, member.now_ms() - began_ms
            )
        except OSError as error:
            log.error("snapshot %s could not be written: %s", snapshot_id, error)
        finally:
            self._writing = False
