"""XXH3 with 64 bits, as Java's signed long: Kafka's hash of the metadata of topics."""

import xxhash


def xxh3_64(data: bytes) -> int:
    """The hash without a seed, from -2^63 to 2^63 - 1."""
    value = xxhash.xxh3_64_intdigest(data)
    return value - (1 << 64) if value >> 63 else value
