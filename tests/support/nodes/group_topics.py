"""A cluster's topics for tests of group coordinators; topic ids count up."""

from collections.abc import Iterable
from uuid import UUID

from nodes.coordinators.groups.topics import Topic


class FakeTopics:
    """A TopicsView that tests change."""

    def __init__(self, **topics: int) -> None:
        self.version = 1
        self.names_version = 1
        self._topics: dict[str, Topic] = {}
        self._created = 0
        for name, partitions in topics.items():
            self.create(name, partitions)

    def create(self, name: str, partitions: int) -> Topic:
        """Create a topic."""
        self.version += 1
        self.names_version = self.version
        self._created += 1
        topic = Topic(UUID(int=0xA << 120 | self._created), name, ((),) * partitions)
        self._topics[name] = topic
        return topic

    def delete(self, name: str) -> None:
        """Delete a topic."""
        self.version += 1
        del self._topics[name]

    def grow(self, name: str, partitions: int) -> None:
        """Give a topic more partitions."""
        self.version += 1
        self._topics[name] = self._topics[name]._replace(racks=((),) * partitions)

    def names(self) -> Iterable[str]:
        """All names."""
        return tuple(self._topics)

    def topic(self, name: str) -> Topic | None:
        """The topic of this name."""
        return self._topics.get(name)

    def topic_of(self, topic_id: UUID) -> Topic | None:
        """The topic of this id."""
        return next((each for each in self._topics.values() if each.topic_id == topic_id), None)
