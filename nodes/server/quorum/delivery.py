"""Hands committed batches of the metadata log to those who live by them, in log order.

Every node delivers from its newest snapshot (or offset 0) at each start, a bounded part at a time,
each batch checked against its CRC. A snapshot that is installed later stands for the batches that
it replaces. A leader becomes active
when the first record of its own epoch has been delivered: only then is everything of earlier
leaders known here, and nothing of it can vanish any more (KAFKA-12619).
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
"""Listeners get about this much at a time, one batch at least: some thousand records, which take
milliseconds to apply. The event loop runs in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedBatch:
    """One batch of the log below the high watermark. A control batch has no records here."""

    base_offset: Offset
    last_offset: Offset
    epoch: Epoch
    timestamp_ms: int
    records: tuple[bytes, ...]


class RaftListener(Protocol):
    """Told of commits in log order. May append in `on_active` and in `on_commit`."""

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """The state below the snapshot's offset is this, whatever was told before."""

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """These are committed; nothing was left out since the last call."""

    def on_active(self, epoch: Epoch) -> None:
        """This node leads, and everything committed by earlier leaders has been delivered."""

    def on_inactive(self, epoch: Epoch) -> None:
        """The leadership that `on_active` announced is lost."""


@dataclass(slots=True)
class Progress:
    """What was delivered after the newest snapshot."""

    records: int = 0
    size_bytes: int = 0


class Delivery:
    """`later` runs a callback soon, on the loop, unless the member has halted by then."""

    def __init__(self, log: MetadataLog, later: Callable[[Callable[[], None]], None]) -> None:
        self.listeners: list[RaftListener] = []
        self.delivered = Offset(0)
        self.since_snapshot = Progress()
        self.last_timestamp_ms = -1
        self.active_epoch: Epoch | None = None
        self._log = log
        self._later = later
        self._high_watermark = Offset(0)
        self._leadership: Leadership | None = None
        self._running = False
        self._waiters: list[tuple[Offset, int, asyncio.Future[None]]] = []
        self._next_waiter = 0

    def advance(self, high_watermark: Offset, leadership: Leadership | None) -> None:
        """Everything below `high_watermark` is committed; deliver what is new of it."""
        self._high_watermark = high_watermark
        self._leadership = leadership
        if not self._running:
            self._running = True
            try:
                self._deliver()
            finally:
                self._running = False

    def restore(self, snapshot: Snapshot) -> None:
        """Begin, or go on, from a snapshot, unless more than it holds was delivered already."""
        offset = snapshot.snapshot_id.offset
        if offset > self.delivered:
            self.delivered = offset
            self.since_snapshot = Progress()
            self.last_timestamp_ms = snapshot.last_timestamp_ms
            for listener in self.listeners:
                listener.on_snapshot(snapshot)

    def lose(self, error: NotLeader) -> None:
        """This node leads no more: tell those who wait, and the listeners."""
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
        """Until `offset` was delivered. Raises the error that `lose` is given."""
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
            self._later(lambda: self.advance(self._high_watermark, self._leadership))

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
