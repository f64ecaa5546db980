"""Flushing of a log: all waiting callers share an fsync.

Guarantees: below `flushed` everything survives a power loss, including the epochs' file, and every
index of aborted transactions. So do the indexes of all segments that a flushed record follows: a
segment may be sealed when its records are flushed already. So a recovery from there need not read
earlier segments. A failed sync takes the log offline and fails every waiter (KAFKA-10778). If
no caller waited for the end of a sync, its data is written again before the next sync. The callers
decide when to flush.
"""

import asyncio
from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

from nodes.ids import Offset
from nodes.log.checkpoints import LeaderEpochCheckpoint
from nodes.log.config import LogConfig
from nodes.log.errors import LogOffline, LogTruncated
from nodes.log.health import Health
from nodes.log.segment import Segment
from nodes.log.segments import Segments
from nodes.storage.disk import Disk, File


class _Work(NamedTuple):
    """A segment and its files to sync; it may be deleted while others are synced."""

    segment: Segment
    files: list[File]
    sealed: bool
    """Whether the segment is sealed; then `files` includes its indexes."""


class Flusher:
    """The flushed offset of one log, and the callers that wait for it."""

    def __init__(
        self,
        disk: Disk,
        segments: Segments,
        epochs: LeaderEpochCheckpoint,
        health: Health,
        flushed: Offset,
    ) -> None:
        self.flushed = flushed
        self._disk = disk
        self._segments = segments
        self._epochs = epochs
        self._health = health
        self._turn = asyncio.Lock()
        self._unheard = False
        """Whether a sync runs without a waiter: if it fails, the next sync may wrongly succeed."""
        self._unflushed_since: tuple[Offset, float] | None = None

    def due(self, config: LogConfig, now_ms: float) -> bool:
        """Whether flush.messages, flush.ms or a sealed segment asks for a flush.

        The age of unflushed data counts from the first call after its append; `now_ms` is from any
        monotonic clock. As in Kafka, a sealed segment is flushed, which limits the work of a
        recovery.
        """
        unflushed = self._segments.active.next_offset - self.flushed
        if unflushed <= 0:
            self._unflushed_since = None
            return False
        if self._unflushed_since is None or self._unflushed_since[0] != self.flushed:
            self._unflushed_since = self.flushed, now_ms
        age_ms = now_ms - self._unflushed_since[1]
        return (
            unflushed >= config.flush_messages
            or age_ms >= config.flush_ms
            or self.flushed < self._segments.active.base_offset
        )

    def now(self, *, closing: bool = False) -> Offset:
        """Flush; blocks. With `closing`, also sync the active segment's complete indexes.

        A log that never had a record is not synced: a power loss can lose nothing, and thousands of
        empty logs would delay a node's shutdown for minutes.
        """
        self._health.check()
        if self._segments.active.next_offset == 0:
            return self.flushed
        self._unheard |= self._turn.locked()
        work = self._work()
        with self._health.failing():
            for file in chain.from_iterable(files for _, files, _ in work):
                file.sync()
            if closing:
                active = self._segments.active
                segments = self._segments
                self.sync_indexes(segments.all if len(active.index) else segments.sealed)
            epochs = self._epochs.unsynced()
            if epochs is not None:
                epochs.sync()
                epochs.close()
            self._segments.sync_names()
        self._done(work, self._segments.active.next_offset)
        return self.flushed

    def sync_indexes(self, segments: Iterable[Segment]) -> None:
        """Sync what was written of their indexes of offsets and times; blocks."""
        for segment in segments:
            for file in segment.lookups_unsynced():
                file.sync()
            segment.lookups_synced()

    async def off_loop(self) -> Offset:
        """Flush the present content without blocking the loop; see `Log.flush_async`."""
        self._health.check()
        cuts = self._segments.cuts
        wanted = self._segments.active.next_offset
        async with self._turn:
            self._health.check()
            if self.flushed < wanted and self._segments.cuts == cuts:
                await self._sync_all(cuts)
            return self.flushed

    async def _sync_all(self, cuts: int) -> None:
        reached = self._segments.active.next_offset
        active = self._segments.active
        work = self._work()
        epochs = self._epochs.unsynced()
        directories = self._segments.take_unsynced_names()
        done = False
        try:
            with self._health.failing():
                for segment, files, _ in work:
                    for file in files:
                        if not segment.deleted:  # by retention, meanwhile
                            await self._sync(file)
                        if self._segments.cuts != cuts:
                            return  # later appends are not synced
                if active is not self._segments.active and not active.deleted:
                    work.append(_Work(active, active.lookups_unsynced(), True))  # sealed meanwhile
                    for file in work[-1].files:
                        await self._sync(file)
                if epochs is not None:
                    await self._sync(epochs)
                for directory in directories:
                    await self._sync(directory)
            done = self._segments.cuts == cuts
        finally:
            # If the sync was not completed (the caller was cancelled), the next one does all of it.
            self._segments.names_synced(synced=done)
            if epochs is not None:
                epochs.close()
        if done:
            self._done(work, reached)

    async def _sync(self, target: File | str) -> None:
        try:
            await self._disk.sync(target)
        except asyncio.CancelledError:
            self._unheard = True
            raise
        self._health.check()

    def _work(self) -> list[_Work]:
        """The unflushed log files, and the indexes of sealed segments."""
        work = []
        for segment in reversed(self._segments.all):
            flushed = segment.next_offset <= self.flushed
            sealed = segment is not self._segments.active
            lookups = segment.lookups_unsynced() if sealed else []
            if sealed and flushed and not lookups:
                break
            files = [*lookups, *segment.aborted.unsynced(), *([] if flushed else [segment.file])]
            work.append(_Work(segment, files, sealed))
        if self._unheard:
            with self._health.failing():
                for file in chain.from_iterable(files for _, files, _ in work):
                    file.rewrite()
            self._unheard = False
        return work[::-1]

    def _done(self, work: list[_Work], reached: Offset) -> None:
        self._epochs.synced()
        for segment, _, sealed in work:
            segment.aborted.synced()
            if sealed:
                segment.lookups_synced()
        self.flushed = max(self.flushed, reached)

    async def wait(self, offset: Offset) -> None:
        """Return when everything below `offset` is on disk; see `Log.durable`."""
        cuts = self._segments.cuts
        while self.flushed < offset:
            if offset > self._segments.active.next_offset:
                raise LogTruncated(f"offset {offset} is beyond the log's end")
            try:
                await self.off_loop()
            except OSError as error:
                raise LogOffline(f"a sync failed: {error}") from error
            if self._segments.cuts != cuts:
                raise LogTruncated(f"offset {offset} may have been cut off before it was on disk")
