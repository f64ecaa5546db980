"""The last offset of each key in the dirty part of a log, in bounded memory.

A key of 31 bytes or more is represented by 31 bytes of BLAKE2b; nobody can construct two keys with
the same ones. A shorter key represents itself: it needs no more memory. The map takes keys until
its memory is used up; the log is then cleaned only up to the last offset that was added.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final
from zlib import crc32

from nodes.ids import NO_OFFSET, Offset
from nodes.log.cleaning.spans import Span

BYTES_PER_KEY: Final = 176
"""The most memory that a key needs: its two objects, and its place in the dictionary, which is half
empty after it grew. `python -m tests.tools.compaction_speed` measures it.
"""
_DIGEST_BYTES: Final = 31
"""Of a bytes object of 64 bytes, 33 are not its content."""
_SHARDS: Final = 64


class OffsetMap:
    """For one cleaning. `latest_offset` is the last offset up to which it has every key.

    The keys are in many small dictionaries, because a large one holds the event loop when it grows.
    """

    def __init__(self, buffer_bytes: int, load_factor: float = 1.0) -> None:
        self.capacity = max(1, int(buffer_bytes * load_factor) // BYTES_PER_KEY)
        self.latest_offset = NO_OFFSET
        self._shards: tuple[dict[bytes, int], ...] = tuple({} for _ in range(_SHARDS))
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, spans: Sequence[Span], base_offset: Offset, start: Offset) -> bool:
        """Add the records from offset `start` on; false if the map is full before the last one."""
        shards, count, latest, full = self._shards, self._count, NO_OFFSET, False
        for span in spans:
            key, offset = span[5], base_offset + span[2]
            if key is None or offset < start:
                continue
            if count >= self.capacity:
                full = True
                break
            if len(key) >= _DIGEST_BYTES:
                key = blake2b(key, digest_size=_DIGEST_BYTES).digest()
                shard = shards[key[0] % _SHARDS]
            else:
                shard = shards[crc32(key) % _SHARDS]
            count += key not in shard
            shard[key] = offset
            latest = Offset(offset)
        self._count = count
        self.reached(latest)
        return not full

    def last_offset(self, key: bytes) -> int:
        """The last offset of a key; -1 if the dirty part does not have it."""
        if len(key) >= _DIGEST_BYTES:
            key = blake2b(key, digest_size=_DIGEST_BYTES).digest()
            return self._shards[key[0] % _SHARDS].get(key, NO_OFFSET)
        return self._shards[crc32(key) % _SHARDS].get(key, NO_OFFSET)

    def reached(self, offset: Offset) -> None:
        """Every key up to `offset` is in the map."""
        self.latest_offset = max(self.latest_offset, offset)
