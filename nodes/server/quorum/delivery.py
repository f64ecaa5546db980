"""Delivers the committed batches of the metadata log to the listeners, in log order.

At each start a node delivers from its newest snapshot (or from offset 0), a bounded part at a time,
and checks each batch against its CRC. A snapshot that is installed later is delivered in place of
the batches that it replaces. A leader becomes active when the first record of its own epoch has
been delivered. Only then are all records of earlier leaders known here, and none of them can be
lost any more (KAFKA-12619).
"""

import asyncio
from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from nodes.ids import Epoch, Offset
from nodes.log.batch import check_crc, decode_records, iter_batches
from nodes.raft.errors import NotLeader
from nodes.raft.leadership import Leadership
from nodes.raft.snapshot import Snapshot
from nodes.server.quorum.metadata_log import MetadataLog

DELIVERY_BYTES: Final = 1 << 16
"""Listeners get about this much at a time, but at least one batch: some thousand records, which
take milliseconds to apply. The event loop runs in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedBatch:
    """One batch of the log below the high watermark. A control batch has no records here."""

    base_offset: Offset
    last_offset: Offset
    epoch: Epoch
    timestamp_ms: int
    records: tuple[bytes, ...]


class RaftListener(Protocol):
    """A listener hears of commits in log order. It may append in `on_active` and in `on_commit`."""

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Replace the whole state by this snapshot of the log below its offset."""

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """These batches are committed; there is no gap since the last call."""

    def on_active(self, epoch: Epoch) -> None:
        """This node leads, and everything that earlier leaders committed has been delivered."""

    def on_inactive(self, epoch: Epoch) -> None:
        """The leadership that `on_active` reported is lost."""


@dataclass(slots=True)
class DeliveredSinceSnapshot:
    """How much was delivered after the newest snapshot."""

    records: int = 0
    size_bytes: int = 0


class Delivery:
    """See the module. `call_soon` runs a callback on the loop, unless the member has halted."""

    def __init__(self, log: MetadataLog, call_soon: Callable[[Callable[[], None]], None]) -> None:
        self.listeners: list[RaftListener] = []
        self.delivered = Offset(0)
        self.since_snapshot = DeliveredSinceSnapshot()
        self.last_timestamp_ms = -1
        self.active_epoch: Epoch | None = None
        self._log = log
        self._call_soon = call_soon
        self._high_watermark = Offset(0)
        self._leadership: Leadership | None = None
        self._delivering = False
        self._waiters: list[tuple[Offset, int, asyncio.Future[None]]] = []
        self._next_waiter = 0

    def advance(self, high_watermark: Offset, leadership: Leadership | None) -> None:
        """Everything below `high_watermark` is committed: deliver what is new."""
        self._high_watermark = high_watermark
        self._leadership = leadership
        if not self._delivering:
            self._delivering = True
            try:
                self._deliver()
            finally:
                self._delivering = False

    def restore(self, snapshot: Snapshot) -> None:
        """Continue from a snapshot, unless as much was delivered already."""
        offset = snapshot.snapshot_id.offset
        if offset > self.delivered:
            self.delivered = offset
            self.since_snapshot = DeliveredSinceSnapshot()
            self.last_timestamp_ms = snapshot.last_timestamp_ms
            for listener in self.listeners:
                listener.on_snapshot(snapshot)

    def leadership_lost(self, error: NotLeader) -> None:
        """This node leads no more: fail the calls of `wait`, and notify the listeners."""
        self._leadership = None
        waiters, self._waiters = self._waiters, []
        for _, _, waiter in waiters:
            if not waiter.done():
                waiter.set_exception(error)
        if self.active_epoch is not None:
            epoch, self.active_epoch = self.active_epoch, None
            for listener in self.listeners:
                listener.on_inactive(epoch)

    async def wait(self, offset: Offset) -> None:
        """Wait until `offset` is delivered. Raises the error of `leadership_lost`."""
        if offset >= self.delivered:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._next_waiter += 1
            insort(self._waiters, (offset, self._next_waiter, waiter))
            await waiter

    def _deliver(self) -> None:
        batches = self._read()
        if batches:
            self.delivered = Offset(batches[-1].last_offset + 1)
            self.last_timestamp_ms = batches[-1].timestamp_ms
            for listener in self.listeners:
                listener.on_commit(batches)
        self._activate()
        while self._waiters and self._waiters[0][0] < self.delivered:
            waiter = self._waiters.pop(0)[2]
            if not waiter.done():
                waiter.set_result(None)
        if batches and self.delivered < self._high_watermark:
            self._call_soon(lambda: self.advance(self._high_watermark, self._leadership))

    def _activate(self) -> None:
        leadership = self._leadership
        if leadership is None or self.active_epoch is not None:
            return
        if self.delivered > leadership.start_offset:
            self.active_epoch = leadership.epoch
            for listener in self.listeners:
                listener.on_active(leadership.epoch)

    def _read(self) -> list[CommittedBatch]:
        data = self._log.read(self.delivered, DELIVERY_BYTES, self._high_watermark)
        batches = []
        for position, header in iter_batches(data):
            check_crc(data, position, header)
            values = () if header.is_control else decode_records(data, position)
            batches.append(
                CommittedBatch(
                    base_offset=header.base_offset,
                    last_offset=header.last_offset,
                    epoch=header.partition_leader_epoch,
                    timestamp_ms=header.max_timestamp,
                    records=tuple(record.value or b"" for record in values),
                )
            )
            self.since_snapshot.records += len(batches[-1].records)
            self.since_snapshot.size_bytes += header.size
        return batches
