"""The topics of the cluster image, as the group coordinators of a broker see them."""

from collections.abc import Callable, Iterable, Mapping
from uuid import UUID

from nodes.coordinators.groups.topics import Topic
from nodes.ids import NO_OFFSET, NodeId
from nodes.metadata.broker import BrokerImage
from nodes.metadata.image import ClusterImage, TopicImage


class ImageTopics:
    """A TopicsView of the newest image. A topic that did not change is not described again.

    A partition's racks are those of its replicas' brokers, if these are registered.
    """

    def __init__(self, image: Callable[[], ClusterImage]) -> None:
        self._newest = image
        self._image = ClusterImage()
        self._names_version = NO_OFFSET
        self._racks: dict[NodeId, str | None] = {}
        self._known: dict[UUID, tuple[TopicImage, Topic]] = {}

    def current(self) -> "ImageTopics":
        """This view, brought up to the newest image."""
        image = self._newest()
        old = self._image
        if image is old:
            return self
        if image.topic_ids is not old.topic_ids:
            if not image.topic_ids.items() <= old.topic_ids.items():
                self._names_version = image.offset
            self._known = {
                topic_id: known
                for topic_id, known in self._known.items()
                if topic_id in image.topics
            }
        if image.brokers is not old.brokers:
            racks = _racks(image.brokers)
            if racks != self._racks:
                self._racks = racks
                self._known.clear()
        self._image = image
        return self

    @property
    def version(self) -> int:
        """See TopicsView."""
        return self._image.offset

    @property
    def names_version(self) -> int:
        """See TopicsView."""
        return self._names_version

    def names(self) -> Iterable[str]:
        """See TopicsView."""
        return self._image.topic_ids

    def topic(self, name: str) -> Topic | None:
        """See TopicsView."""
        topic_id = self._image.topic_ids.get(name)
        return None if topic_id is None else self.topic_of(topic_id)

    def topic_of(self, topic_id: UUID) -> Topic | None:
        """See TopicsView."""
        found = self._image.topics.get(topic_id)
        if found is None:
            return None
        known = self._known.get(topic_id)
        if known is None or known[0] is not found:
            known = self._known[topic_id] = (found, self._described(found))
        return known[1]

    def _described(self, topic: TopicImage) -> Topic:
        racks = []
        for partition in range(len(topic.partitions)):
            image = topic.partitions.get(partition)
            replicas = () if image is None else image.replicas
            known = (self._racks.get(node) for node in replicas)
            racks.append(tuple(sorted(rack for rack in known if rack is not None)))
        return Topic(topic.topic_id, topic.name, tuple(racks))


def _racks(brokers: Mapping[NodeId, BrokerImage]) -> dict[NodeId, str | None]:
    return {node: broker.rack for node, broker in brokers.items()}
