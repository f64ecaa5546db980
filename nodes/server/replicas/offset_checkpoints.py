"""What the log directory's offset checkpoints say now, and may say after a crash.

Each file has to be durable, as in Kafka: a log start that is lost brings back records that were
deleted, a file that is half there keeps the node from starting. But a sync takes milliseconds when
the disk is busy, and the periodic ones must not hold up requests: they wait off the loop. Then a
write may overtake one that is under way, and until it is over either may be what is found.

Guarantees: a file never goes back to an older state than one that was durable. Left to others:
what the offsets are, and when to write them.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

from nodes.ids import Offset, TopicPartition
from nodes.log.checkpoints import CheckpointError, OffsetCheckpoint
from nodes.storage.disk import Disk

log = logging.getLogger("nodes.logs")

Offsets = Mapping[TopicPartition, Offset]


class KeptOffsets:
    """One of the three offset checkpoints; `path` is its file."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._path = path
        self._file = OffsetCheckpoint(disk, path)
        self._durable: Offsets | None = None
        self._possible: Offsets = {}
        self._turn = asyncio.Lock()

    def read(self, *, dispensable: bool) -> dict[TopicPartition, Offset]:
        """What the incarnation before left; nothing when that is damaged but `dispensable`.

        Raises CheckpointError, OSError.
        """
        try:
            found = self._file.read()
        except CheckpointError as error:
            if not dispensable:
                raise CheckpointError(
                    f"{error}. Put a copy in its place, or remove it: then records that were "
                    "deleted, but share a segment with others, are back on this node"
                ) from error
            log.error("%s; going on as if it were missing", error)
            return {}
        self._possible = found
        return dict(found)

    def may_say(self, partition: TopicPartition) -> Offset | None:
        """The largest offset that the next start may find for the partition; None: none."""
        return self._possible.get(partition)

    def save(self, offsets: Offsets) -> None:
        """Write the offsets; blocks until they are durable. Raises OSError."""
        self._begin(offsets)
        self._file.write(offsets)
        self._durable = self._possible = offsets

    async def save_off_loop(self, offsets: Callable[[], Offsets]) -> None:
        """Return when what `offsets` gave at or after the call is durable, or something newer.

        Callers that come while a write is under way share the next one. Raises OSError.
        """
        async with self._turn:
            latest = offsets()
            if latest == self._durable:
                return
            self._begin(latest)
            if await self._file.write_off_loop(latest):
                self._durable = self._possible = latest

    def _begin(self, offsets: Offsets) -> None:
        """Either state may be found, until the newer one is durable."""
        self._durable = None
        before = self._possible
        after = {p: max(offset, before.get(p, offset)) for p, offset in offsets.items()}
        self._possible = {**before, **after}
