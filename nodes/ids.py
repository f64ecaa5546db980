"""Names for the numbers that replication must never confuse.

Pure types, no behaviour. An epoch is not an offset and a broker epoch is not a leader epoch; the
type checker keeps them apart, at run time they are plain integers.
"""

from typing import NamedTuple, NewType

NodeId = NewType("NodeId", int)
"""A node: Kafka's node.id, the same number for its broker and its controller role."""

Epoch = NewType("Epoch", int)
"""A leader epoch of a partition, or the quorum epoch of the metadata log."""

BrokerEpoch = NewType("BrokerEpoch", int)
"""One registration of one broker: the metadata offset of its registration record."""

Offset = NewType("Offset", int)
"""A position in a log, in records."""

NO_NODE = NodeId(-1)
NO_EPOCH = Epoch(-1)
NO_OFFSET = Offset(-1)


class TopicPartition(NamedTuple):
    """One partition of one topic; printed as Kafka names its directory."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
