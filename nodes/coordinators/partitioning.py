"""Which partition of an internal topic a group or a transactional id belongs to, as in Kafka."""

from functools import lru_cache


@lru_cache(maxsize=256)  # an id may have 32,767 characters
def java_hash(text: str) -> int:
    """Java's String.hashCode: over UTF-16 code units, as a signed 32-bit number."""
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(data), 2):
        value = (31 * value + (data[at] << 8) + data[at + 1]) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def partition_for(key: str, partitions: int) -> int:
    """The partition of `key` among `partitions`: Kafka's Utils.abs(key.hashCode) % partitions."""
    value = java_hash(key)
    return 0 if value == -(2**31) else abs(value) % partitions
