"""A cluster's administration that does as it is told, or does not answer."""

from collections import Counter
from collections.abc import Mapping, Sequence

from nemesis.administration import NO_CONFIGS, PartitionKey, Placement


class FakeAdministration:
    """A cluster that does as it is told, unless it is `deaf`."""

    def __init__(self) -> None:
        self.live = [1, 2, 3]
        self.votes = [1, 2, 3]
        self.placed: dict[PartitionKey, Placement] = {
            ("a", 0): Placement(1, (1, 2), (1, 2)),
            ("a", 1): Placement(2, (2, 3), (2, 3)),
        }
        self.settings = {("a", "segment.bytes"): "1073741824"}
        self.refused: dict[PartitionKey, str] = {}
        self.logs: dict[PartitionKey, tuple[int, int]] = {}
        """The start and the end of the logs that faults wrote."""
        self.elections: list[tuple[Sequence[PartitionKey], bool]] = []
        self.moves: dict[str, dict[PartitionKey, Sequence[int]]] = {}
        self.members: dict[str, int] = {}
        self.left: set[int] = set()
        self.undone: list[str] = []
        self.kept: list[str] = []
        self.debts = ""
        self.deaf = False

    def brokers(self) -> Sequence[int]:
        """As set. Raises OSError when deaf."""
        self._hear()
        return list(self.live)

    def voters(self) -> Sequence[int]:
        """As set."""
        self._hear()
        return list(self.votes)

    def topics(self) -> Mapping[str, int]:
        """As placed."""
        self._hear()
        return dict(Counter(topic for topic, _ in self.placed))

    def placement(self, topics: Sequence[str]) -> Mapping[PartitionKey, Placement]:
        """As set."""
        self._hear()
        return {at: each for at, each in self.placed.items() if at[0] in topics}

    def move(
        self, layer: str, targets: Mapping[PartitionKey, Sequence[int]]
    ) -> Mapping[PartitionKey, str]:
        """At once, unless refused."""
        self._hear()
        for at, replicas in targets.items():
            if at not in self.refused:
                self.moves.setdefault(layer, {})[at] = tuple(replicas)
                self.placed[at] = Placement(replicas[0], tuple(replicas), tuple(replicas))
        return {at: why for at, why in self.refused.items() if at in targets}

    def accepted_moves(self, layer: str) -> Mapping[PartitionKey, Sequence[int]]:
        """The moves made."""
        return self.moves.get(layer, {})

    def elect(
        self, partitions: Sequence[PartitionKey], *, unclean: bool
    ) -> Mapping[PartitionKey, str]:
        """The preferred, unless refused."""
        self._hear()
        self.elections.append((partitions, unclean))
        for at in partitions:
            if at not in self.refused:
                self.placed[at] = self.placed[at]._replace(leader=self.placed[at].assignment[0])
        return {at: self.refused.get(at, "") for at in partitions}

    def topic_config(self, topic: str, name: str) -> str | None:
        """As set."""
        self._hear()
        return self.settings.get((topic, name))

    def set_topic_config(self, layer: str, topics: Sequence[str], name: str, value: str) -> None:
        """At once."""
        self._hear()
        self.settings.update({(topic, name): value for topic in topics})

    def brokers_config(self, name: str) -> str | None:
        """As set."""
        self._hear()
        return self.settings.get(("", name))

    def set_brokers_config(self, layer: str, name: str, value: str) -> None:
        """At once."""
        self._hear()
        self.settings["", name] = value

    def extend_topic_config(self, layer: str, topic: str, name: str, items: Sequence[str]) -> None:
        """At once."""
        self._hear()
        self.settings[topic, name] = ",".join(items)

    def write_records(self, partition: PartitionKey, timestamps_ms: Sequence[int]) -> bool:
        """At once, and committed."""
        low, high = self.logs.get(partition, (0, 0))
        self.logs[partition] = low, high + len(timestamps_ms)
        return not self.deaf

    def find_offset(self, partition: PartitionKey, timestamp_ms: int) -> int | None:
        """The log's start, or its end."""
        low, high = self.logs.get(partition, (0, 0))
        return None if self.deaf else low if timestamp_ms == -2 else high

    def delete_records(self, partition: PartitionKey, before: int) -> bool:
        """At once."""
        self.logs[partition] = before, self.logs[partition][1]
        return not self.deaf

    def create_topic(
        self,
        layer: str,
        name: str,
        *,
        partitions: int,
        replicas: int,
        configs: Mapping[str, str] = NO_CONFIGS,
    ) -> None:
        """Led by broker 1."""
        self._hear()
        on = tuple(self.live[:replicas])
        self.placed.update({(name, n): Placement(1, on, on) for n in range(partitions)})

    def grow_topic(self, name: str, partitions: int) -> None:
        """Led by broker 1."""
        self._hear()
        self.placed.update({(name, n): Placement(1, (1,), (1,)) for n in range(partitions)})

    def delete_topic(self, name: str) -> None:
        """At once."""
        self._hear()
        self.placed = {at: each for at, each in self.placed.items() if at[0] != name}

    def join(self, layer: str, *, voter: bool = False) -> int:
        """The next number, in service and with a vote at once."""
        node = self.members[layer] = max(self.live) + 1
        self.live.append(node)
        if voter:
            self.votes.append(node)
        return node

    def joined(self, layer: str) -> int:
        """Who joined."""
        return self.members[layer]

    def leave(self, layer: str, node: int) -> None:
        """At once."""
        self.live.remove(node)
        self.left.add(node)

    def remove_voter(self, layer: str, node: int) -> None:
        """At once."""
        self._hear()
        self.votes.remove(node)

    def is_removed(self, node: int) -> bool:
        """Who was told to."""
        return node in self.left

    def keep(self, layer: str) -> None:
        """Note it."""
        self.kept.append(layer)

    def undo(self, layer: str) -> None:
        """Note it."""
        self.undone.append(layer)

    def pending_work(self, layer: str) -> str:
        """As set."""
        return self.debts

    def _hear(self) -> None:
        if self.deaf:
            raise OSError("nobody answers")
