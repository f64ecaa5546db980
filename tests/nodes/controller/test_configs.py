"""Configuration changes: operations, checks, and what follows for eligible leaders."""

import pytest
from kio.schema.errors import ErrorCode

from nodes.controller import configs
from nodes.controller.configs import (
    AlterConfigResult,
    ConfigChange,
    ConfigOperation,
    ResourceChanges,
    alter_configs,
)
from nodes.metadata.image import ConfigResource
from nodes.metadata.topic_configs import Source, effective, sources
from tests.support.nodes.controller_cluster import Cluster, node, nodes

TOPIC = ConfigResource(2, "t")
ALL = ConfigResource(4, "")
FIRST = ConfigResource(4, "1")
SET, DELETE, APPEND, SUBTRACT = ConfigOperation
GROUP = ConfigResource(32, "g")
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
THROTTLED = "leader.replication.throttled.replicas"


@pytest.fixture
def cluster() -> Cluster:
    """Three brokers and a topic."""
    cluster = Cluster(brokers=3, min_isr=2)
    cluster.create("t", nodes(1, 2, 3), configs={"retention.ms": "1"})
    return cluster


def alter(
    cluster: Cluster,
    resource: ConfigResource,
    *changes: tuple[str, int, str | None],
    replaces: bool = False,
    validate_only: bool = False,
) -> AlterConfigResult:
    """Change one resource."""
    request = ResourceChanges(
        resource=resource,
        changes=tuple(ConfigChange(name=n, operation=o, value=v) for n, o, v in changes),
        replaces=replaces,
    )
    state = cluster.controller.state
    result = alter_configs(state, [request], validate_only=validate_only)
    (answer,) = cluster.take(result)
    return answer


def test_each_config_operation_gives_the_expected_value(cluster: Cluster) -> None:
    """Set, delete, append, subtract; what is not named stays."""
    assert alter(cluster, TOPIC, ("flush.ms", SET, "7"), (THROTTLED, APPEND, "0:1")).error is None
    assert alter(cluster, TOPIC, (THROTTLED, APPEND, "0:2,0:1")).error is None
    assert cluster.image.topic_config("t") == {
        "retention.ms": "1",
        "flush.ms": "7",
        THROTTLED: "0:1,0:2",
    }
    alter(cluster, TOPIC, (THROTTLED, SUBTRACT, "0:1"), ("retention.ms", DELETE, None))
    assert cluster.image.topic_config("t") == {"flush.ms": "7", THROTTLED: "0:2"}


def test_alter_configs_replaces_all_values(cluster: Cluster) -> None:
    """AlterConfigs deletes what it does not name."""
    assert alter(cluster, TOPIC, ("flush.ms", SET, "7"), replaces=True).error is None
    assert cluster.image.topic_config("t") == {"flush.ms": "7"}


def test_only_changed_values_are_written_and_none_by_validate_only(cluster: Cluster) -> None:
    """A topic's value that is as it was needs no record; a broker's is written to be read again."""
    alter(cluster, TOPIC, ("retention.ms", SET, "1"))
    assert cluster.written == []
    alter(cluster, TOPIC, ("retention.ms", SET, "2"), validate_only=True)
    assert cluster.written == []
    for _ in range(2):
        alter(cluster, FIRST, ("log.retention.ms", SET, "2"))
        assert len(cluster.written) == 1


@pytest.mark.parametrize(
    ("resource", "change", "code", "words"),
    [
        (TOPIC, ("what", SET, "1"), ErrorCode.invalid_config, "Unknown topic config name: what"),
        (TOPIC, ("retention.ms", SET, "x"), ErrorCode.invalid_config, "whole number"),
        (TOPIC, ("retention.ms", SET, "-2"), ErrorCode.invalid_config, "not between"),
        (TOPIC, ("retention.ms", SET, None), ErrorCode.invalid_request, "Null value"),
        (TOPIC, ("retention.ms", 9, "1"), ErrorCode.invalid_request, "operations type 9"),
        (TOPIC, ("retention.ms", APPEND, "1"), ErrorCode.invalid_config, "not LIST"),
        (TOPIC, (THROTTLED, SET, "1-2"), ErrorCode.invalid_config, "partition:broker"),
        (TOPIC, ("min.cleanable.dirty.ratio", SET, "2"), ErrorCode.invalid_config, "0 and 1"),
        (ConfigResource(2, ""), ("flush.ms", SET, "1"), ErrorCode.invalid_request, "Default topic"),
        (
            ConfigResource(2, "gone"),
            ("flush.ms", SET, "1"),
            ErrorCode.unknown_topic_or_partition,
            "does not exist",
        ),
        (ConfigResource(4, "x"), ("log.roll.ms", SET, "1"), ErrorCode.invalid_request, "base 10"),
        (ConfigResource(8, "1"), ("x", SET, "1"), ErrorCode.invalid_request, "resource type 8"),
        (ALL, ("node.id", SET, "4"), ErrorCode.invalid_request, "dynamically: node.id"),
        (ALL, ("log.roll.ms", SET, "x"), ErrorCode.invalid_request, "whole number"),
        (FIRST, ("min.insync.replicas", SET, "1"), ErrorCode.invalid_config, "Broker-level"),
        (ALL, ("min.insync.replicas", DELETE, None), ErrorCode.invalid_config, "Cluster-level"),
        (ConfigResource(32, ""), (SESSION, SET, "50000"), ErrorCode.invalid_request, "Default"),
        (GROUP, ("foo", SET, "1"), ErrorCode.invalid_config, "Unknown group config name: foo"),
        (GROUP, ("foo", APPEND, "1"), ErrorCode.invalid_config, "not LIST"),
        (GROUP, (SESSION, SET, "x"), ErrorCode.invalid_config, "Not a number of type INT"),
        (GROUP, (SESSION, SET, "1000"), ErrorCode.invalid_config, "group.consumer.min.session"),
        (GROUP, (SESSION, SET, "60001"), ErrorCode.invalid_config, "group.consumer.max.session"),
        (GROUP, (HEARTBEAT, SET, "1"), ErrorCode.invalid_config, "group.consumer.min.heartbeat"),
        (GROUP, (HEARTBEAT, SET, "20000"), ErrorCode.invalid_config, "group.consumer.max.heart"),
    ],
)
def test_invalid_config_changes_are_refused(
    cluster: Cluster,
    resource: ConfigResource,
    change: tuple[str, int, str | None],
    code: ErrorCode,
    words: str,
) -> None:
    """Codes and words as Kafka's, and nothing is written."""
    error = alter(cluster, resource, change).error
    assert error is not None
    assert error.code is code
    assert words in error.message
    assert cluster.written == []


def test_a_group_has_configurations_whether_it_exists_or_not(cluster: Cluster) -> None:
    """As in Kafka. To delete what is unknown is no error."""
    assert alter(cluster, GROUP, (SESSION, SET, " 50000 "), (HEARTBEAT, SET, "6000")).error is None
    assert cluster.image.configs[GROUP] == {SESSION: "50000", HEARTBEAT: "6000"}
    assert alter(cluster, GROUP, (SESSION, DELETE, None), ("foo", DELETE, None)).error is None
    assert cluster.image.configs[GROUP] == {HEARTBEAT: "6000"}


def test_the_limits_of_a_groups_configuration_are_the_controllers_properties() -> None:
    """The session must last longer than the pause between heartbeats."""
    with_limits = Cluster(brokers=1, static={"group.consumer.min.session.timeout.ms": "5000"})
    assert alter(with_limits, GROUP, (SESSION, SET, "6000")).error is None
    error = alter(with_limits, GROUP, (HEARTBEAT, SET, "6000")).error
    assert error is not None
    assert "must be greater than consumer.heartbeat" in error.message


def test_a_value_that_contradicts_another_one_is_refused(cluster: Cluster) -> None:
    """The lower bound of the compaction lag is already there when the upper one is set."""
    assert alter(cluster, TOPIC, ("min.compaction.lag.ms", SET, "9")).error is None
    error = alter(cluster, TOPIC, ("max.compaction.lag.ms", SET, "8")).error
    assert error is not None
    assert error.code is ErrorCode.invalid_config
    assert "max.compaction.lag.ms" not in cluster.image.topic_config("t")


def test_a_resource_or_a_name_twice_is_refused(cluster: Cluster) -> None:
    """Which of the two would count?"""
    twice = alter(cluster, TOPIC, ("flush.ms", SET, "1"), ("flush.ms", SET, "2"))
    assert twice.error is not None
    assert twice.error.code is ErrorCode.invalid_request
    request = ResourceChanges(resource=TOPIC, changes=())
    result = alter_configs(cluster.controller.state, [request, request])
    assert [a.error and a.error.code for a in result.response] == [ErrorCode.invalid_request] * 2


def test_the_first_source_is_in_force(cluster: Cluster) -> None:
    """The topic, the broker, the cluster, the file in any of its units, the default."""
    static = {"log.retention.hours": "2", "log.retention.minutes": "3"}

    def found(topic: str | None = "t") -> list[tuple[Source, str]]:
        image = cluster.image
        every = sources("retention.ms", image, static, topic=topic, node_id=node(1))
        assert effective("retention.ms", image, static, topic=topic, node_id=node(1)) == (
            every[0].value
        )
        return [(each.source, each.value) for each in every]

    below = [
        (Source.STATIC_BROKER, "180000"),
        (Source.STATIC_BROKER, "7200000"),
        (Source.DEFAULT, "604800000"),
    ]
    assert found() == [(Source.TOPIC, "1"), *below]
    assert found(None) == below
    alter(cluster, ALL, ("log.retention.ms", SET, "5"))
    alter(cluster, FIRST, ("log.retention.minutes", SET, "-1"))
    assert found(None) == [
        (Source.DYNAMIC_BROKER, "-1"),
        (Source.DYNAMIC_DEFAULT_BROKER, "5"),
        *below,
    ]
    assert cluster.image.broker_config(node(1)) == {
        "min.insync.replicas": "2",
        "log.retention.ms": "5",
        "log.retention.minutes": "-1",
    }
    assert "log.retention.minutes" not in cluster.image.broker_config(node(2))


@pytest.mark.parametrize("resource", [TOPIC, ALL])
def test_a_new_min_isr_ends_eligibility(cluster: Cluster, resource: ConfigResource) -> None:
    """Who left the ISR under a minimum of 2 lacks what is committed under a minimum of 1."""
    cluster.alter(1, [1])
    assert cluster.partition().elr == nodes(2, 3)
    alter(cluster, resource, ("min.insync.replicas", SET, "1"))
    assert len(cluster.written) == 2
    assert cluster.partition().elr == ()
    cluster.lose(1)
    assert cluster.partition().elr == nodes(1)


def test_no_replica_becomes_eligible_while_the_leader_may_not_know_the_min_isr(
    cluster: Cluster,
) -> None:
    """It would take the smaller ISR from the answer and commit alone under the old minimum."""
    alter(cluster, TOPIC, ("min.insync.replicas", SET, "3"))
    cluster.alter(1, [1, 2])
    assert (cluster.partition().isr, cluster.partition().elr) == (nodes(1, 2), ())
    cluster.beat(1)
    cluster.alter(1, [1])
    assert (cluster.partition().isr, cluster.partition().elr) == (nodes(1), nodes(2))
    cluster.take_over()
    cluster.alter(1, [1, 3])
    cluster.alter(1, [1])
    assert cluster.partition().elr == nodes(2)
    cluster.beat(1)
    cluster.alter(1, [1, 3])
    cluster.alter(1, [1])
    assert cluster.partition().elr == nodes(2, 3)


def test_a_new_min_isr_keeps_the_candidates_of_a_leaderless_partition(cluster: Cluster) -> None:
    """Nothing is committed there meanwhile; without them nobody could ever lead."""
    cluster.alter(1, [1])
    cluster.lose(1, 2, 3)
    assert cluster.partition().elr == nodes(1, 2, 3)
    alter(cluster, TOPIC, ("min.insync.replicas", SET, "1"))
    assert cluster.partition().elr == nodes(1, 2, 3)
    cluster.beat(3)
    assert (cluster.partition().isr, cluster.partition().elr) == (nodes(3), ())


def test_an_unclean_election_begins_when_it_is_allowed(cluster: Cluster) -> None:
    """The next tick elects for the partitions that wait."""
    cluster.alter(1, [1, 2])
    cluster.alter(1, [1])
    cluster.lose(1, 2)
    assert cluster.partition().leader == -1
    alter(cluster, TOPIC, ("unclean.leader.election.enable", SET, "true"))
    cluster.now_ms += 50
    cluster.tick()
    assert cluster.partition().leader == 3


@pytest.mark.parametrize(
    ("name", "value", "fits"),
    [
        ("compression.type", "gzip", True),
        ("compression.type", "1", False),
        ("log.retention.hours", "-1", True),
        ("log.retention.hours", "gzip", False),
        ("log.retention.hours", "-2", False),
    ],
)
def test_a_default_of_topics_is_checked_as_theirs_or_as_a_number_of_its_unit(
    name: str, value: str, fits: bool
) -> None:
    check = configs._broker_configs()[name]  # anew: the others were made at the import
    assert (check(value) is None) == fits
