"""The offset checkpoint files of the log directory, and what they may contain after a crash.

Each file has to be durable, as in Kafka: a lost log start brings back records that were deleted,
and a half-written file keeps the node from starting. But a sync takes milliseconds on a busy disk,
and the periodic writes must not delay requests, so they run off the event loop. Then a blocking
write may overtake one that is under way. Until both are over, the next start may find either.

Guarantees: a file never goes back to an older state than one that was durable. Left to others:
the offsets themselves, and when to write them.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

from nodes.ids import Offset, TopicPartition
from nodes.log.checkpoints import CheckpointError, OffsetCheckpoint
from nodes.storage.disk import Disk

log = logging.getLogger("nodes.logs")

Offsets = Mapping[TopicPartition, Offset]


class TrackedCheckpoint:
    """One of the four offset checkpoints, in the file `path`."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._path = path
        self._file = OffsetCheckpoint(disk, path)
        self._durable: Offsets | None = None
        self._possible: Offsets = {}
        self._write_lock = asyncio.Lock()

    def read(self, *, optional: bool) -> dict[TopicPartition, Offset]:
        """Return the offsets that the last run left; none if the file is damaged but `optional`.

        Raises CheckpointError, OSError.
        """
        try:
            found = self._file.read()
        except CheckpointError as error:
            if not optional:
                raise CheckpointError(
                    f"{error}. Replace it with a copy, or remove it. If you remove it, deleted "
                    "records that share a segment with other records are back on this node"
                ) from error
            log.error("%s; continuing as if the file were missing", error)
            return {}
        self._possible = found
        return dict(found)

    @property
    def is_used(self) -> bool:
        """Whether the file may have offsets."""
        return bool(self._possible)

    def possible_offset(self, partition: TopicPartition) -> Offset | None:
        """The largest offset that the next start may find for the partition, or None."""
        return self._possible.get(partition)

    def save(self, offsets: Offsets) -> None:
        """Write the offsets; blocks until they are durable. Raises OSError."""
        self._begin(offsets)
        self._file.write(offsets)
        self._durable = self._possible = offsets

    async def save_off_loop(self, offsets: Callable[[], Offsets]) -> None:
        """Return when the offsets of the time of this call, or later ones, are durable.

        Callers that come while a write is under way share the next one. Raises OSError.
        """
        async with self._write_lock:
            latest = offsets()
            if latest == self._durable:
                return
            self._begin(latest)
            if await self._file.write_off_loop(latest):
                self._durable = self._possible = latest

    def _begin(self, offsets: Offsets) -> None:
        """Until the newer state is durable, the next start may find either state."""
        self._durable = None
        before = self._possible
        after = {p: max(offset, before.get(p, offset)) for p, offset in offsets.items()}
        self._possible = {**before, **after}
