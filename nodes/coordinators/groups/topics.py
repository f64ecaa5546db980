"""The cluster's topics as the group coordinator sees them, and the hash of what a group reads.

The hash is Kafka's (KIP-1101), so that a group's remembered hash means the same to Kafka. Only
whether it changes matters: then the group's target assignment is out of date.
"""

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from nodes.coordinators.groups.xxh3 import xxh3_64

MOST_KNOWN: Final = 10_000

_MAGIC: Final = b"\0"
_INT: Final = struct.Struct("<i")
_LONG: Final = struct.Struct("<q")


class Topic(NamedTuple):
    """A topic that exists."""

    topic_id: UUID
    name: str
    racks: tuple[tuple[str, ...], ...]
    """For each partition the racks of its replicas, those that are known, sorted."""

    @property
    def partitions(self) -> int:
        """How many partitions it has."""
        return len(self.racks)


class TopicsView(Protocol):
    """All topics at one moment."""

    @property
    def version(self) -> int:
        """Grows with every change of the cluster's metadata: an offset of the metadata log."""
        ...

    @property
    def names_version(self) -> int:
        """The `version` of the last topic that was created, as far as this view knows."""
        ...

    def names(self) -> Iterable[str]:
        """The names of all topics."""
        ...

    def topic(self, name: str) -> Topic | None:
        """The topic of this name."""
        ...

    def topic_of(self, topic_id: UUID) -> Topic | None:
        """The topic of this id."""
        ...


class TopicHashes:
    """The hashes of topics. A topic that did not change is not hashed again."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Topic, int]] = {}

    def group_hash(self, names: Iterable[str], topics: TopicsView) -> int:
        """The hash of those of the named topics that exist; 0 if none does."""
        found = [topic for name in sorted(names) if (topic := topics.topic(name)) is not None]
        if not found:
            return 0
        return xxh3_64(b"".join(_LONG.pack(self._hash(topic)) for topic in found))

    def _hash(self, topic: Topic) -> int:
        known = self._known.get(topic.name)
        if known is not None and known[0] == topic:
            return known[1]
        value = topic_hash(topic)
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[topic.name] = (topic, value)
        return value


def topic_hash(topic: Topic) -> int:
    """Kafka's Utils.computeTopicHash, in the bytes that hash4j makes of its arguments."""
    high, low = struct.unpack(">qq", topic.topic_id.bytes)
    parts = [_MAGIC, _LONG.pack(high), _LONG.pack(low), _text(topic.name)]
    parts.append(_INT.pack(topic.partitions))
    for partition, racks in enumerate(topic.racks):
        parts.append(_INT.pack(partition))
        for rack in racks:
            text = _text(rack)
            parts += [text[-_INT.size :], text]
    return xxh3_64(b"".join(parts))


def _text(text: str) -> bytes:
    """UTF-16 code units, and their number behind them."""
    data = text.encode("utf-16-le", "surrogatepass")
    return data + _INT.pack(len(data) // 2)
