"""The topics that consumers subscribe to, in the metadata of their protocols.

Java's ConsumerProtocol: a version, then an array of topics, which every version begins with. The
coordinator reads it for one purpose: offsets of topics that a group no longer reads may expire.
"""

import struct
from collections.abc import Iterable


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all members; None if one member's metadata has another form."""
    topics: set[str] = set()
    try:
        for each in metadata:
            topics.update(_topics(each))
    except (struct.error, ValueError):
        return None
    return frozenset(topics)


def _topics(metadata: bytes) -> list[str]:
    """Raises struct.error or ValueError on another form of data."""
    _version, count = struct.unpack_from(">hi", metadata)
    if count < 0:
        raise ValueError(f"{count} topics")
    topics = []
    at = 6
    for _ in range(count):
        (size,) = struct.unpack_from(">h", metadata, at)
        name = metadata[at + 2 : at + 2 + size]
        if size < 0 or len(name) < size:
            raise ValueError(f"a topic's name of {size} bytes")
        topics.append(name.decode())
        at += 2 + size
    return topics
