"""CreateTopics: what is made, what is refused, and why."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from nodes.controller.controller import MAX_PREFERRED_ELECTIONS
from nodes.controller.topics import (
    MAX_PARTITIONS_PER_REQUEST,
    NewPartitions,
    NewTopic,
    create_partitions,
    create_topics,
)
from nodes.metadata.records import ConfigRecord, PartitionRecord, TopicRecord
from tests.support.nodes.controller_cluster import Cluster, node, nodes


@pytest.fixture
def cluster() -> Cluster:
    """Three brokers in service."""
    return Cluster(brokers=3)


def _error(cluster: Cluster, name: str, *assignments: Any, **values: Any) -> ErrorCode:
    answer = cluster.create(name, *assignments, **values)
    assert answer.error is not None
    assert cluster.written == []
    return answer.error.code


def test_a_topic_is_created_in_one_batch(cluster: Cluster) -> None:
    """Topic, configuration, then partitions; the first replica leads, all are in sync."""
    answer = cluster.create(
        "t", partitions=4, replication_factor=3, configs={"min.insync.replicas": "2"}
    )
    assert answer.error is None
    assert (answer.partitions, answer.replication_factor) == (4, 3)
    kinds = [type(record) for record in cluster.written]
    assert kinds == [TopicRecord, ConfigRecord] + [PartitionRecord] * 4
    topic = cluster.image.topic("t")
    assert topic is not None
    assert topic.topic_id == answer.topic_id
    assert topic.topic_id.version == 4, "random, as Kafka's"
    for partition in topic.partitions.values():
        assert partition.isr == partition.replicas
        assert partition.leader == partition.preferred_leader
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
    assert {p.leader for p in topic.partitions.values()} == set(nodes(1, 2, 3))
    assert cluster.image.topic_config("t") == {"min.insync.replicas": "2"}
    assert cluster.image.topic_config("other") == {}


def test_minus_one_is_replaced_by_the_defaults() -> None:
    """num.partitions and default.replication.factor."""
    cluster = Cluster(brokers=3, default_partitions=2, default_replication_factor=3)
    answer = cluster.create("t")
    assert (answer.partitions, answer.replication_factor) == (2, 3)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("", ErrorCode.invalid_topic_exception),
        (".", ErrorCode.invalid_topic_exception),
        ("..", ErrorCode.invalid_topic_exception),
        ("a/b", ErrorCode.invalid_topic_exception),
        ("a\n", ErrorCode.invalid_topic_exception),
        ("ä", ErrorCode.invalid_topic_exception),
        ("x" * 250, ErrorCode.invalid_topic_exception),
        ("taken", ErrorCode.topic_already_exists),
        ("has_line", ErrorCode.invalid_topic_exception),
        ("__cluster_metadata", ErrorCode.invalid_request),
    ],
)
def test_illegal_topic_names_are_refused(cluster: Cluster, name: str, code: ErrorCode) -> None:
    """Illegal, taken, colliding in metrics ('.' and '_'), or the metadata log's own."""
    cluster.create("taken")
    cluster.create("has.line")
    assert _error(cluster, name) is code


@pytest.mark.parametrize("name", ["x" * 249, "a.B_c-9", "...", "__consumer_offsets"])
def test_legal_topic_names_are_accepted(cluster: Cluster, name: str) -> None:
    """The limits are Kafka's, no stricter."""
    assert cluster.create(name).error is None


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"partitions": 0}, ErrorCode.invalid_partitions),
        ({"partitions": -2}, ErrorCode.invalid_partitions),
        ({"replication_factor": 0}, ErrorCode.invalid_replication_factor),
        ({"replication_factor": 4}, ErrorCode.invalid_replication_factor),
        ({"partitions": MAX_PARTITIONS_PER_REQUEST + 1}, ErrorCode.policy_violation),
    ],
)
def test_invalid_partition_and_replica_counts_are_refused(
    cluster: Cluster, values: dict[str, int], code: ErrorCode
) -> None:
    """Zero, below, above what there are brokers for, above what one batch holds."""
    assert _error(cluster, "t", **values) is code


def test_fenced_and_leaving_brokers_are_used_last(cluster: Cluster) -> None:
    """They hold replicas only where the others do not suffice, and are not in sync."""
    cluster.create("other", nodes(3, 1))
    cluster.beat(3, want_shut_down=True)
    assert cluster.create("t", replication_factor=3).error is None
    assert set(cluster.partition("t").isr) == set(nodes(1, 2))
    assert cluster.create("u", replication_factor=2).error is None
    assert set(cluster.partition("u").replicas) == set(nodes(1, 2))
    assert _error(cluster, "v", replication_factor=4) is ErrorCode.invalid_replication_factor
    cluster.lose(1, 2)
    assert _error(cluster, "w", replication_factor=1) is ErrorCode.invalid_replication_factor


def test_manual_assignments_are_used_unchanged(cluster: Cluster) -> None:
    """The first live replica leads; a fenced one is assigned but not in sync."""
    cluster.lose(1)
    answer = cluster.create("t", nodes(1, 2), nodes(3, 1))
    assert answer.error is None
    assert cluster.partition(number=0).replicas == nodes(1, 2)
    assert cluster.partition(number=0).leader == node(2)
    assert cluster.partition(number=1).isr == nodes(3)


@pytest.mark.parametrize(
    ("assignments", "values", "code"),
    [
        ([nodes(1, 2)], {"partitions": 1}, ErrorCode.invalid_request),
        ([nodes(1, 2)], {"replication_factor": 2}, ErrorCode.invalid_request),
        ([nodes(1, 1)], {}, ErrorCode.invalid_replica_assignment),
        ([nodes(1, 9)], {}, ErrorCode.invalid_replica_assignment),
        ([()], {}, ErrorCode.invalid_replica_assignment),
        ([nodes(1, 2), nodes(1)], {}, ErrorCode.invalid_replica_assignment),
    ],
)
def test_invalid_manual_assignments_are_refused(
    cluster: Cluster, assignments: list[Any], values: dict[str, int], code: ErrorCode
) -> None:
    """Doubled, unknown, empty, uneven, or with counts beside them."""
    assert _error(cluster, "t", *assignments, **values) is code


@pytest.mark.parametrize("numbers", [(0, 2), (1,), (0, 0)])
def test_assigned_partitions_are_counted_from_zero(
    cluster: Cluster, numbers: tuple[int, ...]
) -> None:
    """No gap, no repetition."""
    topic = NewTopic(name="t", assignments=tuple((n, nodes(1)) for n in numbers))
    result = create_topics(cluster.controller.state, [topic])
    (answer,) = result.response
    assert answer.error is not None
    assert answer.error.code is ErrorCode.invalid_replica_assignment
    assert not result.records


def test_an_assignment_to_fenced_brokers_only_has_no_leader(cluster: Cluster) -> None:
    """Refused rather than born leaderless."""
    cluster.lose(1)
    assert _error(cluster, "t", nodes(1)) is ErrorCode.invalid_replica_assignment


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("min.insync.replicas", "0"),
        ("min.insync.replicas", "two"),
        ("retention.ms", "-2"),
        ("retention.bytes", "1e9"),
        ("segment.bytes", str(1 << 31)),
        ("compression.type", "brotli"),
        ("unclean.leader.election.enable", "maybe"),
        ("no.such.config", "1"),
    ],
)
def test_invalid_configurations_are_refused(cluster: Cluster, name: str, value: str) -> None:
    """Unknown names and values that this broker could not honour."""
    assert _error(cluster, "t", configs={name: value}) is ErrorCode.invalid_config


@pytest.mark.parametrize(
    ("name", "value", "stored"),
    [
        ("min.insync.replicas", " 2 ", {"min.insync.replicas": "2"}),
        ("retention.ms", "-1", {"retention.ms": "-1"}),
        ("compression.type", "zstd", {"compression.type": "zstd"}),
        ("message.timestamp.type", "CreateTime", {"message.timestamp.type": "CreateTime"}),
        ("message.timestamp.type", "LogAppendTime", {"message.timestamp.type": "LogAppendTime"}),
        ("unclean.leader.election.enable", "TRUE", {"unclean.leader.election.enable": "TRUE"}),
    ],
)
def test_valid_configurations_are_stored(
    cluster: Cluster, name: str, value: str, stored: dict[str, str]
) -> None:
    """As given, without the blanks around it."""
    assert cluster.create("t", configs={name: value}).error is None
    assert cluster.image.topic_config("t") == stored


def test_each_topic_of_a_request_has_its_own_result(cluster: Cluster) -> None:
    """Good ones are made beside bad ones; a name given twice is answered once, with an error."""
    topics = [
        NewTopic(name=name) for name in ("good", "bad/", "twice", "twice", "a.b", "a_b", "good2")
    ]
    answers = cluster.take(create_topics(cluster.controller.state, topics))
    errors = {answer.name: answer.error and answer.error.code for answer in answers}
    assert errors == {
        "good": None,
        "bad/": ErrorCode.invalid_topic_exception,
        "twice": ErrorCode.invalid_request,
        "a.b": None,
        "a_b": ErrorCode.invalid_topic_exception,
        "good2": None,
    }
    assert sorted(cluster.image.topic_ids) == ["a.b", "good", "good2"]


def test_validate_only_writes_nothing(cluster: Cluster) -> None:
    """The same answers, and no topic."""
    result = create_topics(cluster.controller.state, [NewTopic(name="t")], validate_only=True)
    (answer,) = result.response
    assert answer.error is None
    assert not result.records


def test_a_request_may_create_at_most_ten_thousand_partitions(cluster: Cluster) -> None:
    """The limit itself is allowed, and a second topic beside it is not."""
    topics = [
        NewTopic(name="big", partitions=MAX_PARTITIONS_PER_REQUEST, replication_factor=3),
        NewTopic(name="more"),
    ]
    big, more = create_topics(cluster.controller.state, topics).response
    assert big.error is None
    assert more.error is not None
    assert more.error.code is ErrorCode.policy_violation
    assert MAX_PREFERRED_ELECTIONS < MAX_PARTITIONS_PER_REQUEST


def test_a_topic_has_at_least_one_replica_and_one_partition(cluster: Cluster) -> None:
    """In Kafka's words; -1 stands for the default."""
    for factor in (0, -2):
        answer = cluster.create("t", partitions=0, replication_factor=factor)
        assert answer.error is not None
        assert answer.error.code is ErrorCode.invalid_replication_factor
        assert answer.error.message.startswith("Replication factor must be larger than 0, or -1")
    for count in (0, -2):
        assert _error(cluster, "t", partitions=count) is ErrorCode.invalid_partitions


def test_partitions_are_added_behind_those_that_are_there(cluster: Cluster) -> None:
    """By placement or as assigned. Each topic of a request has its own result."""
    for name in ("assigned", "placed", "same"):
        cluster.create(name, nodes(1, 2))
    cluster.create("less", nodes(1, 2), nodes(2, 1))
    grown = create_partitions(
        cluster.controller.state,
        [
            NewPartitions(name="assigned", count=3, assignments=(nodes(2, 3), nodes(3, 1))),
            NewPartitions(name="placed", count=2),
            NewPartitions(name="same", count=1),
            NewPartitions(name="less", count=1),
            NewPartitions(name="twice", count=2),
            NewPartitions(name="twice", count=3),
            NewPartitions(name="unknown", count=2),
        ],
    )
    answers = cluster.take(grown)
    assert [(each.name, each.error and each.error.code) for each in answers] == [
        ("assigned", None),
        ("placed", None),
        ("same", ErrorCode.invalid_partitions),
        ("less", ErrorCode.invalid_partitions),
        ("twice", ErrorCode.invalid_request),
        ("unknown", ErrorCode.unknown_topic_or_partition),
    ]
    assert "already has 1" in str(answers[2].error)
    assert "currently has 2" in str(answers[3].error)
    assert [cluster.partition("assigned", number).replicas for number in range(3)] == [
        nodes(1, 2), nodes(2, 3), nodes(3, 1),
    ]  # fmt: skip
    assert len(cluster.partition("placed", 1).replicas) == 2
