"""The hash of topics, against Kafka 4.2's (hash4j's stream, as Utils.computeTopicHash feeds it)."""

from uuid import UUID

from nodes.coordinators.groups.topics import Topic, TopicHashes, topic_hash
from tests.support.nodes.group_topics import FakeTopics

TOPIC_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")


def test_a_topics_hash_is_kafkas() -> None:
    """With racks, with many partitions, with one."""
    racks = (("r0", "r1"), ("r1", "r2"), ())
    assert topic_hash(Topic(TOPIC_ID, "foo", racks)) == -902510909480469632
    many = Topic(TOPIC_ID, "a-topic-with-a-longer-name", ((),) * 100)
    assert topic_hash(many) == 3401198049083523074
    assert topic_hash(Topic(TOPIC_ID, "t", ((),))) == 7159487611581674277


def test_the_hash_of_a_group_changes_with_each_of_its_topics() -> None:
    """Created, deleted, grown, created again; not with other topics."""
    topics = FakeTopics()
    hashes = TopicHashes()
    seen = [hashes.group_hash(["a", "b"], topics)]
    assert seen == [0]
    for change in (
        lambda: topics.create("a", 1),
        lambda: topics.create("b", 1),
        lambda: topics.grow("b", 2),
        lambda: topics.delete("b"),
        lambda: topics.create("b", 2),
    ):
        change()
        seen.append(hashes.group_hash(["b", "a"], topics))
        topics.create(f"other-{len(seen)}", 1)
        assert hashes.group_hash(["a", "b"], topics) == seen[-1]
    assert seen[4] == seen[1]
    assert len({*seen}) == len(seen) - 1
