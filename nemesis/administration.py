"""What faults may ask of the cluster's own administration: members, replicas, leaders, topics.

These are the orders that any administrator gives, over the cluster's own protocol. Each gives up
within a second or two, for a cluster under faults often answers nobody; whether it was taken is
then not known. What takes longer goes on by itself and is looked at later.

Whatever a strike does goes by its layer, a name that no other strike has. `undo` takes all of it
back, as far as nobody else changed it since: at once where the cluster answers, else as soon as it
does.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

At = tuple[str, int]
"""A partition: topic and number."""


class Placed(NamedTuple):
    """Where a partition is."""

    leader: int | None
    replicas: tuple[int, ...]
    """While it moves: the old and the new ones."""
    target: tuple[int, ...]
    """Where it is going to be; the first is the preferred leader."""

    @property
    def moving(self) -> bool:
        """Whether it is being moved."""
        return self.replicas != self.target


class Administration(Protocol):
    """See the module. Any thread may call. A call that fails raises an error of the target's."""

    def brokers(self) -> Sequence[int]:
        """The brokers in service that are not about to leave, ascending."""
        ...

    def voters(self) -> Sequence[int]:
        """The voters of the metadata quorum, ascending."""
        ...

    def topics(self) -> Mapping[str, int]:
        """The number of partitions of every topic, in the order of their names."""
        ...

    def placement(self, topics: Sequence[str]) -> Mapping[At, Placed]:
        """Where every partition of these topics is, in their order; none of an unknown topic."""
        ...

    def move(self, layer: str, targets: Mapping[At, Sequence[int]]) -> Mapping[At, str]:
        """Order that partitions get these replicas; returns who was refused, and why."""
        ...

    def ordered(self, layer: str) -> Mapping[At, Sequence[int]]:
        """The moves of the layer that the cluster took."""
        ...

    def elect(self, partitions: Sequence[At], *, unclean: bool) -> Mapping[At, str]:
        """Elect the preferred leaders; or where there is no leader any replica alive, which may
        lose records. Returns what the cluster said of each partition: nothing where it elected.
        """
        ...

    def setting(self, topic: str, name: str) -> str | None:
        """The value of a topic's configuration that is in force."""
        ...

    def configure(self, layer: str, topics: Sequence[str], name: str, value: str) -> None:
        """Change a configuration of topics, on top of what other layers set."""
        ...

    def create_topic(self, layer: str, name: str, *, partitions: int, replicas: int) -> None:
        """Create a topic."""
        ...

    def grow_topic(self, name: str, partitions: int) -> None:
        """Raise a topic's number of partitions."""
        ...

    def delete_topic(self, name: str) -> None:
        """Delete a topic; nothing happens where there is none."""
        ...

    def join(self, layer: str, *, voter: bool = False) -> int:
        """Start a broker on a new machine, which joins by itself; returns its number.

        A `voter` is a controller too, and gets a vote once it has caught up. Undone, it leaves: its
        replicas are moved away, it is stopped in order, unregistered, and its machine removed.
        """
        ...

    def joined(self, layer: str) -> int:
        """The number of the broker that joined. Raises LookupError when none did."""
        ...

    def leave(self, layer: str, node: int) -> None:
        """Let a broker leave: its replicas are moved away, it gives up its vote if it has one, is
        stopped in order, unregistered, and loses its data.

        Undone, it is started again and gets its vote back.
        """
        ...

    def remove_voter(self, layer: str, node: int) -> None:
        """Take a controller's vote. Undone, it gets it back."""
        ...

    def has_left(self, node: int) -> bool:
        """Whether a broker that was let go is stopped, unregistered and empty."""
        ...

    def keep(self, layer: str) -> None:
        """What the layer did stays."""
        ...

    def undo(self, layer: str) -> None:
        """Take back what the layer did; nothing happens where nothing is left of it."""
        ...

    def owed(self, layer: str) -> str:
        """What of it is still to be taken back or done, and why, in words; empty when nothing."""
        ...
