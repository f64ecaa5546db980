"""Topics of the cluster image, as group coordinators see them."""

from dataclasses import replace
from uuid import UUID

from nodes.coordinators.groups.image_topics import ImageTopics
from nodes.coordinators.groups.topics import Topic
from nodes.ids import BrokerEpoch, Epoch, NodeId, Offset
from nodes.metadata.broker import BrokerImage
from nodes.metadata.image import ClusterImage, PartitionImage, TopicImage

TOPIC_ID = UUID(int=1)


def partition(*replicas: int) -> PartitionImage:
    nodes = tuple(NodeId(each) for each in replicas)
    return PartitionImage(
        replicas=nodes, isr=nodes, leader=nodes[0], leader_epoch=Epoch(0), partition_epoch=0
    )


def broker(node: int, rack: str | None) -> BrokerImage:
    return BrokerImage(
        node_id=NodeId(node), epoch=BrokerEpoch(1), incarnation_id=None, endpoints=(), rack=rack
    )


def cluster() -> ClusterImage:
    topic = TopicImage(
        name="t", topic_id=TOPIC_ID, partitions={0: partition(2, 1), 1: partition(1, 3)}
    )
    return ClusterImage(
        offset=Offset(7),
        brokers={NodeId(1): broker(1, "b"), NodeId(2): broker(2, "a"), NodeId(3): broker(3, None)},
        topics={TOPIC_ID: topic},
        topic_ids={"t": TOPIC_ID},
    )


class Cluster:
    def __init__(self) -> None:
        self.image = cluster()
        self.view = ImageTopics(lambda: self.image)

    def change(self, **changes: object) -> None:
        offset = Offset(self.image.offset + 1)
        self.image = replace(self.image, offset=offset, **changes)  # type: ignore[arg-type]


def test_a_topic_has_its_partitions_and_their_racks() -> None:
    """Sorted, and without brokers that have none."""
    view = Cluster().view.current()
    topic = Topic(TOPIC_ID, "t", (("a", "b"), ("b",)))
    assert view.topic("t") == view.topic_of(TOPIC_ID) == topic
    assert view.topic("u") is view.topic_of(UUID(int=2)) is None
    assert (view.version, list(view.names())) == (7, ["t"])


def test_the_version_of_names_grows_with_created_topics_alone() -> None:
    """Not with a change of a partition, a broker, or a deleted topic."""
    test = Cluster()
    assert test.view.current().names_version == 7
    test.change()
    assert (test.view.current().version, test.view.names_version) == (8, 7)
    new = UUID(int=2)
    created = TopicImage(name="u", topic_id=new, partitions={0: partition(1)})
    test.change(
        topics={**test.image.topics, new: created}, topic_ids={**test.image.topic_ids, "u": new}
    )
    assert test.view.current().names_version == 9
    test.change(topics={new: created}, topic_ids={"u": new})
    assert test.view.current().names_version == 9
    assert test.view.topic("t") is None


def test_a_topic_is_described_anew_when_it_or_a_rack_changes() -> None:
    """And only then."""
    test = Cluster()
    before = test.view.current().topic("t")
    test.change()
    assert test.view.current().topic("t") is before
    grown = replace(test.image.topics[TOPIC_ID], partitions={0: partition(1)})
    test.change(topics={TOPIC_ID: grown})
    assert test.view.current().topic("t") == Topic(TOPIC_ID, "t", (("b",),))
    test.change(brokers={**test.image.brokers, NodeId(1): broker(1, "z")})
    assert test.view.current().topic("t") == Topic(TOPIC_ID, "t", (("z",),))
