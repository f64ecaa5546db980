"""Topics are deleted by name or id, once."""

from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from nodes.controller.deletions import DeleteTopicResult, TopicRef, delete_topics
from tests.support.nodes.controller_cluster import Cluster, nodes, refused


@pytest.fixture
def cluster() -> Cluster:
    """Two brokers and three topics."""
    cluster = Cluster(brokers=2)
    for name in "abc":
        cluster.create(name, nodes(1, 2), configs={"retention.ms": "1"})
    return cluster


def delete(cluster: Cluster, *refs: TopicRef) -> list[DeleteTopicResult]:
    """Ask for it."""
    return cluster.take(delete_topics(cluster.controller.state, refs))


def test_topics_are_deleted_by_name_and_by_id(cluster: Cluster) -> None:
    """Both are told both; configuration goes too, and the name may come back as another topic."""
    first, second = cluster.image.topic_ids["a"], cluster.image.topic_ids["b"]
    answers = delete(cluster, TopicRef(name="a"), TopicRef(topic_id=second))
    assert [(a.name, a.topic_id, a.error) for a in answers] == [
        ("a", first, None),
        ("b", second, None),
    ]
    assert list(cluster.image.topic_ids) == ["c"]
    assert cluster.image.topic_config("a") == {}
    cluster.create("a", nodes(1))
    assert cluster.image.topic_ids["a"] != first


def test_unknown_or_ambiguous_topics_are_refused_one_by_one(cluster: Cluster) -> None:
    """Kafka's codes; a topic that is named twice stays, a good one beside them goes."""
    known = cluster.image.topic_ids["a"]
    answers = delete(
        cluster,
        TopicRef(name="none"),
        TopicRef(topic_id=UUID(int=5)),
        TopicRef(),
        TopicRef(name="a", topic_id=known),
        TopicRef(name="b"),
        TopicRef(name="b"),
        TopicRef(name="c"),
    )
    assert [a.error and a.error.code for a in answers] == [
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.invalid_request,
        ErrorCode.invalid_request,
        ErrorCode.invalid_request,
        None,
    ]
    assert list(cluster.image.topic_ids) == ["a", "b"]


def test_a_name_and_its_own_id_are_the_same_topic_twice(cluster: Cluster) -> None:
    """One refusal, and the topic stays."""
    both = [TopicRef(name="a"), TopicRef(topic_id=cluster.image.topic_ids["a"])]
    (answer,) = delete(cluster, *both)
    assert answer.error is not None
    assert answer.error.code is ErrorCode.invalid_request
    assert "a" in cluster.image.topic_ids


def test_deletion_can_be_disabled() -> None:
    """delete.topic.enable=false refuses all of it."""
    cluster = Cluster(brokers=1, delete_topics=False)
    cluster.create("a", nodes(1))
    with refused(ErrorCode.topic_deletion_disabled):
        delete(cluster, TopicRef(name="a"))
