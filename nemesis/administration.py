"""The administration requests that faults may send: members, replicas, leaders, topics.

They are the requests of any administrator, over the cluster's own protocol. Each gives up within a
second or two, because a cluster under faults often does not answer; it is then unknown whether the
cluster accepted the request. Longer work continues in the background and is checked later.

Everything that an injection does carries its layer, a name that is unique to the injection. `undo`
reverts the layer, except for what somebody else changed since: at once if the cluster answers,
otherwise as soon as it does.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

NO_CONFIGS: Final[Mapping[str, str]] = MappingProxyType({})

PartitionKey = tuple[str, int]
"""A partition: topic and number."""


class Placement(NamedTuple):
    """The leader and the replicas of a partition."""

    leader: int | None
    replicas: tuple[int, ...]
    """During a reassignment: the old and the new replicas."""
    assignment: tuple[int, ...]
    """The replicas that the partition is to have; the first is the preferred leader."""

    @property
    def moving(self) -> bool:
        """Whether the partition is being reassigned."""
        return self.replicas != self.assignment


class Administration(Protocol):
    """See the module. Any thread may call. A failed call raises an error of the target."""

    def brokers(self) -> Sequence[int]:
        """The brokers in service that are not being removed, ascending."""
        ...

    def voters(self) -> Sequence[int]:
        """The voters of the metadata quorum, ascending."""
        ...

    def topics(self) -> Mapping[str, int]:
        """The number of partitions of every topic, sorted by topic."""
        ...

    def placement(self, topics: Sequence[str]) -> Mapping[PartitionKey, Placement]:
        """The placement of every partition of these topics, in order; unknown topics have none."""
        ...

    def move(
        self, layer: str, targets: Mapping[PartitionKey, Sequence[int]]
    ) -> Mapping[PartitionKey, str]:
        """Request these replicas for partitions; return the refused partitions with reasons."""
        ...

    def accepted_moves(self, layer: str) -> Mapping[PartitionKey, Sequence[int]]:
        """The moves of the layer that the cluster accepted."""
        ...

    def elect(
        self, partitions: Sequence[PartitionKey], *, unclean: bool
    ) -> Mapping[PartitionKey, str]:
        """Elect the preferred leaders. `unclean`: elect any live replica of each partition without
        a leader, which may lose records. Return the error of each partition, empty on success.
        """
        ...

    def topic_config(self, topic: str, name: str) -> str | None:
        """The value in force of a topic's configuration."""
        ...

    def set_topic_config(self, layer: str, topics: Sequence[str], name: str, value: str) -> None:
        """Set a configuration of topics, on top of the settings of other layers."""
        ...

    def brokers_config(self, name: str) -> str | None:
        """The value of a configuration that all brokers have by default; None if it is not set."""
        ...

    def set_brokers_config(self, layer: str, name: str, value: str) -> None:
        """Set a configuration that all brokers have by default, on top of other layers' values."""
        ...

    def extend_topic_config(self, layer: str, topic: str, name: str, items: Sequence[str]) -> None:
        """Append items to a topic's configuration that is a list; `undo` removes them."""
        ...

    def create_topic(
        self,
        layer: str,
        name: str,
        *,
        partitions: int,
        replicas: int,
        configs: Mapping[str, str] = NO_CONFIGS,
    ) -> None:
        """Create a topic."""
        ...

    def write_records(self, partition: PartitionKey, timestamps_ms: Sequence[int]) -> bool:
        """Write a record for each timestamp, with acks=all; return whether a broker confirms it."""
        ...

    def find_offset(self, partition: PartitionKey, timestamp_ms: int) -> int | None:
        """The first offset at or after a time, or of one of Kafka's special timestamps: -1 if there
        is no such record, None without an answer.
        """
        ...

    def delete_records(self, partition: PartitionKey, before: int) -> bool:
        """Delete the records below an offset; return whether a broker confirms it."""
        ...

    def grow_topic(self, name: str, partitions: int) -> None:
        """Increase a topic's number of partitions."""
        ...

    def delete_topic(self, name: str) -> None:
        """Delete a topic; do nothing if it does not exist."""
        ...

    def join(self, layer: str, *, voter: bool = False) -> int:
        """Start a broker on a new machine and return its node id; it joins by itself.

        A `voter` is also a controller, and gets a vote when it has caught up. `undo` removes the
        broker: it moves the replicas away, stops the broker cleanly, unregisters it and removes its
        machine.
        """
        ...

    def joined(self, layer: str) -> int:
        """The node id of the broker that joined. Raises LookupError when none did."""
        ...

    def leave(self, layer: str, node: int) -> None:
        """Remove a broker: move its replicas away, remove its vote if it has one, stop it cleanly,
        unregister it and delete its data.

        `undo` starts it again and gives its vote back.
        """
        ...

    def remove_voter(self, layer: str, node: int) -> None:
        """Remove a controller from the voters; `undo` adds it again."""
        ...

    def is_removed(self, node: int) -> bool:
        """Whether a removed broker is stopped, unregistered and empty."""
        ...

    def keep(self, layer: str) -> None:
        """Keep the changes of the layer for good."""
        ...

    def undo(self, layer: str) -> None:
        """Revert the changes of the layer; do nothing if none is left."""
        ...

    def pending_work(self, layer: str) -> str:
        """What is still to be done or reverted for the layer, and why; empty if nothing."""
        ...
