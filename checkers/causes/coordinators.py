"""Which partition of an internal topic keeps what a coordinator knows of a group or of a
transactional id, and which causes may have removed that from it.

A coordinator answers when all in-sync replicas of its partition have its decision, so only a cause
that removes committed records can make a later coordinator forget one. What a coordinator decided
has no known offset, so time alone tells whether a cause may have removed it.
"""

from collections.abc import Callable

from checkers.causes.cause import Cause
from checkers.causes.causes import Causes


def java_hash(text: str) -> int:
    """Return Java's String.hashCode: over UTF-16 code units, as a signed 32-bit number."""
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(data[::2], data[1::2], strict=True):
        value = (31 * value + (high << 8) + low) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def partition_of(causes: Causes, topic: str, key: str) -> int | None:
    """Return the partition of an internal topic that keeps what belongs to a group or transactional
    id `key`: Kafka's Utils.abs(key.hashCode) % partitions. None if no leader of the topic is
    recorded."""
    known = [partition for name, partition in causes.led | causes.contradicted.keys()
             if name == topic]  # fmt: skip
    if not known:
        return None
    value = java_hash(key)
    return 0 if value == -(1 << 31) else abs(value) % (max(known) + 1)


def forgetting(
    causes: Causes, took_committed: Callable[[Cause], bool], topic: str, key: str
) -> list[int]:
    """Return the numbers of the causes by which the coordinator of `key` may have forgotten what
    it had decided. took_committed: see `Frames.took_committed`."""
    partition = partition_of(causes, topic, key)
    return [
        number
        for number, cause in enumerate(causes.causes)
        if (cause.topic, cause.partition) == (topic, partition) and took_committed(cause)
    ]
