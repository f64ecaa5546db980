"""Elections that somebody asks for: who is elected, and what each partition is answered."""

import pytest
from kio.schema.errors import ErrorCode

from nodes.controller.elections import (
    LogsOf,
    clear_eligible_leaders,
    elect_leaders,
    rebalance,
)
from nodes.controller.partition_changes import LogEnd
from nodes.controller.situation import ControllerResult
from nodes.ids import NO_NODE, Epoch, Offset
from nodes.metadata.records import PartitionChangeRecord
from tests.support.nodes.controller_cluster import Cluster, node, nodes, state_of

Answer = tuple[str, int, ErrorCode | None]
"""Topic, partition, error."""


def elect(
    cluster: Cluster,
    wanted: list[tuple[str, int]] | None,
    *,
    unclean: bool = False,
    logs: LogsOf | None = None,
) -> list[Answer]:
    """Ask for an election, and make it."""
    found = elect_leaders(
        cluster.image, wanted, cluster.controller.state.policy, unclean=unclean, logs=logs
    )
    cluster.take(ControllerResult(records=found.records, response=None))
    return [
        (topic, number, None if error is None else error.code)
        for topic, number, error in found.answers
    ]


@pytest.fixture
def astray() -> Cluster:
    """Broker 2 leads four partitions that prefer broker 1, which is back and in sync with all but
    the last; and one that prefers broker 2."""
    cluster = Cluster(brokers=3, auto_leader_rebalance=False)
    cluster.create("t", *[nodes(1, 2)] * 3, nodes(2, 1))
    cluster.create("u", nodes(1, 2))
    cluster.lose(1)
    cluster.beat(1)
    for number in range(4):
        cluster.alter(2, [2, 1], number=number)
    return cluster


def leaders(cluster: Cluster) -> list[int]:
    """The leaders of all partitions."""
    return [partition.leader for _, partition in cluster.image.partitions()]


def test_only_the_named_partitions_are_elected(astray: Cluster) -> None:
    assert elect(astray, [("t", 1)]) == [("t", 1, None)]
    assert leaders(astray) == [2, 1, 2, 2, 2]


def test_without_names_all_are_elected_and_what_needs_none_is_not_answered(
    astray: Cluster,
) -> None:
    """t-3 is led as preferred. The preferred leader of u-0 is not in sync."""
    unavailable = ErrorCode.preferred_leader_not_available
    assert elect(astray, None) == [
        ("t", 0, None), ("t", 1, None), ("t", 2, None), ("u", 0, unavailable),
    ]  # fmt: skip
    assert leaders(astray) == [1, 1, 1, 2, 2]
    assert elect(astray, None) == [("u", 0, unavailable)]


def test_each_named_partition_is_answered_once(astray: Cluster) -> None:
    """Whatever it was named for, and however often."""
    wanted = [("t", 3), ("t", 9), ("u", 0), ("v", 0), ("t", 0), ("t", 0)]
    assert elect(astray, wanted) == [
        ("t", 3, ErrorCode.election_not_needed),
        ("t", 9, ErrorCode.unknown_topic_or_partition),
        ("u", 0, ErrorCode.preferred_leader_not_available),
        ("v", 0, ErrorCode.unknown_topic_or_partition),
        ("t", 0, None),
    ]


def test_an_unknown_partition_is_named(astray: Cluster) -> None:
    """In Kafka's words."""
    wanted = [("t", 9), ("v", 0)]
    policy = astray.controller.state.policy
    found = elect_leaders(astray.image, wanted, policy, unclean=False)
    texts = [None if error is None else error.message for _, _, error in found.answers]
    assert texts == ["No such partition as t-9", "No such topic as v"]


def test_an_unclean_election_prefers_the_longest_log() -> None:
    """The last in-sync replica is gone. Of the others the second has more, if that is known."""
    cluster = Cluster(brokers=3, auto_leader_rebalance=False)
    for name in ("known", "unknown"):
        cluster.create(name, nodes(1, 2, 3))
        cluster.alter(1, [1], name=name)
    cluster.lose(1)
    ends = {node(2): LogEnd(Epoch(0), Offset(5)), node(3): LogEnd(Epoch(0), Offset(6))}
    (key,) = (key for key, _ in cluster.image.partitions() if key.topic == "known")
    wanted = [("known", 0), ("unknown", 0)]
    elect(cluster, wanted, unclean=True, logs={key: ends})
    assert cluster.partition("known").leader == 3
    assert cluster.partition("unknown").leader == NO_NODE


def test_an_unclean_election_is_only_for_partitions_without_a_leader() -> None:
    """The last in-sync replica is gone, and 2 lacks records."""
    cluster = Cluster(brokers=2, auto_leader_rebalance=False)
    cluster.create("led", nodes(1, 2))
    cluster.create("t", nodes(1, 2))
    cluster.create("gone", nodes(1))
    cluster.alter(1, [1], name="t")
    cluster.lose(1)
    assert [cluster.partition(name).leader for name in ("t", "gone")] == [NO_NODE, NO_NODE]
    wanted = [("led", 0), ("t", 0), ("gone", 0)]
    assert elect(cluster, wanted, unclean=True) == [
        ("led", 0, ErrorCode.election_not_needed),
        ("t", 0, None),
        ("gone", 0, ErrorCode.eligible_leaders_not_available),
    ]
    assert state_of(cluster.partition("t"))[:2] == (2, nodes(2))


def test_the_eligibility_of_those_outside_the_isr_ends_with_another_minimum() -> None:
    """Only where there is one to end, only of the named topics, and not without an ISR: in a
    partition without a leader nothing is committed."""
    cluster = Cluster(brokers=4, min_isr=2, auto_leader_rebalance=False)
    for name in ("low", "whole", "other", "last"):
        cluster.create(name, nodes(1, 2, 3) if name != "last" else nodes(3))
    for name in ("low", "other"):
        cluster.alter(1, [1], name=name)
    cluster.create("lost", nodes(1, 4))
    cluster.lose(3, 4)
    cluster.register(4, incarnation=9)  # uncleanly
    low, lost = cluster.image.topic("low"), cluster.image.topic("lost")
    assert low is not None
    assert lost is not None
    assert not cluster.partition("lost").elr
    assert cluster.partition("lost").last_known_elr
    assert cluster.partition("low").elr
    assert not cluster.partition("low").last_known_elr
    assert cluster.partition("last").elr
    assert not cluster.partition("last").isr
    asked = ["low", "whole", "lost", "last", "none"]
    assert clear_eligible_leaders(cluster.image, asked) == [
        PartitionChangeRecord(topic_id=low.topic_id, partition_id=0, eligible_leader_replicas=()),
        PartitionChangeRecord(topic_id=lost.topic_id, partition_id=0, last_known_elr=()),
    ]


def test_leaderships_move_only_to_live_replicas_in_sync(astray: Cluster) -> None:
    """The preferred leader of u-0 is not in sync; the brokers' shares are counted with it."""
    policy = astray.controller.state.policy

    def moved(percentage: int) -> list[int]:
        found = rebalance(astray.image, policy, limit=9, imbalance_percentage=percentage)
        return [record.partition_id for record in found]

    assert moved(99) == [0, 1, 2]
    assert moved(100) == []
    elect(astray, [("t", 0), ("t", 1)])
    assert moved(49) == [2], "2 of the 4 that prefer broker 1 are led by others: 50 %"
    assert moved(50) == []
    astray.lose(1)
    assert moved(0) == []
