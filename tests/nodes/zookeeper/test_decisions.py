"""The old controller's decisions: examples, and random orders of events."""

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.controller.elections import TopicPolicy, elect_leaders
from nodes.controller.settings import ControlSettings
from nodes.ids import NO_NODE, BrokerEpoch, Epoch, NodeId, Offset, TopicPartition
from nodes.metadata.broker import BrokerImage
from nodes.metadata.image import ClusterImage, PartitionImage
from nodes.metadata.records import (
    MetadataRecord,
    PartitionRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from nodes.zookeeper import decisions
from nodes.zookeeper.broker_view import in_shutdown, registration
from nodes.zookeeper.znodes import Assignment, TopicZnode

TOPIC = UUID(int=1)
CLEAN = TopicPolicy(min_isr=1, eligible_leaders=False)
UNCLEAN = TopicPolicy(min_isr=1, unclean=True, eligible_leaders=False)


def nodes(*numbers: int) -> tuple[NodeId, ...]:
    return tuple(NodeId(number) for number in numbers)


class Cluster:
    """An image that takes records as the controller does, and checks each change."""

    def __init__(self, *live: int) -> None:
        self.image = ClusterImage(features=decisions.levels(ControlSettings()))
        self.czxid = 0
        for node in live:
            self.start(node)

    def take(self, *records: MetadataRecord) -> None:
        offset = Offset(self.image.offset + 1)
        before = self.image
        self.image, delta = self.image.apply(records, offset, Epoch(1))
        for change in delta.partitions.values():
            if change.before is not None and change.after is not None:
                check(change.before, change.after)
        assert before.offset < self.image.offset

    def start(self, node: int) -> None:
        self.czxid += 1
        self.take(registration(NodeId(node), BrokerEpoch(self.czxid), (), None))

    def stop(self, node: int) -> None:
        broker = self.image.brokers[NodeId(node)]
        self.take(UnregisterBrokerRecord(broker_id=broker.node_id, broker_epoch=broker.epoch))

    def make(self, replicas: tuple[NodeId, ...], isr: tuple[NodeId, ...] | None = None) -> None:
        self.take(
            TopicRecord(name="t", topic_id=TOPIC),
            PartitionRecord(
                partition_id=0,
                topic_id=TOPIC,
                replicas=replicas,
                isr=isr or replicas,
                leader=(isr or replicas)[0],
                leader_epoch=Epoch(0),
                partition_epoch=0,
            ),
        )

    @property
    def partition(self) -> PartitionImage:
        found = self.image.partition("t", 0)
        assert found is not None
        return found


def check(before: PartitionImage, after: PartitionImage) -> None:
    """What holds for each change of a partition, in any order of events."""
    assert after.partition_epoch == before.partition_epoch + 1
    assert after.leader_epoch >= before.leader_epoch
    assert after.isr, "the last member stays in the ISR"
    assert after.leader == NO_NODE or after.leader in after.isr
    assert set(after.isr) <= set(after.replicas)
    if after.leader not in (NO_NODE, before.leader):
        assert after.leader_epoch > before.leader_epoch
        assert after.leader in before.isr, "a clean election takes a member of the ISR"
    assert after.leader_recovery_state == 0


def test_dead_leader_is_replaced_by_the_first_live_member() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.make(nodes(1, 2, 3), isr=nodes(1, 3))
    cluster.stop(1)
    (record,) = decisions.without(cluster.image, nodes(1), lambda topic: CLEAN)
    cluster.take(record)
    assert (cluster.partition.leader, cluster.partition.isr) == (3, nodes(3))
    assert cluster.partition.leader_epoch == 1


def test_last_member_stays_and_leads_again() -> None:
    cluster = Cluster(1, 2)
    cluster.make(nodes(1, 2), isr=nodes(1))
    cluster.stop(1)
    cluster.take(*decisions.without(cluster.image, nodes(1), lambda topic: CLEAN))
    assert (cluster.partition.leader, cluster.partition.isr) == (NO_NODE, nodes(1))
    assert decisions.elect_leaderless(cluster.image, lambda topic: CLEAN) == []
    cluster.start(1)
    cluster.take(*decisions.elect_leaderless(cluster.image, lambda topic: CLEAN))
    assert (cluster.partition.leader, cluster.partition.leader_epoch) == (1, 2)


def test_unclean_election_takes_the_first_live_replica() -> None:
    """Kafka asked no logs before KIP-966."""
    cluster = Cluster(1, 2, 3)
    cluster.make(nodes(1, 3, 2), isr=nodes(1))
    cluster.stop(1)
    (record,) = decisions.without(cluster.image, nodes(1), lambda topic: UNCLEAN)
    image, _ = cluster.image.apply([record], Offset(99), Epoch(1))
    partition = image.partition("t", 0)
    assert partition is not None
    assert (partition.leader, partition.isr) == (3, nodes(3))
    assert partition.leader_recovery_state == 0


def test_broker_with_another_epoch_was_gone() -> None:
    """KAFKA-1120: its znode was there at both looks."""
    cluster = Cluster(1, 2)
    again = replace(cluster.image.brokers[NodeId(2)], epoch=BrokerEpoch(9))
    found = {NodeId(1): cluster.image.brokers[NodeId(1)], NodeId(2): again}
    changes = decisions.broker_changes(cluster.image, found)
    assert changes.gone == (cluster.image.brokers[NodeId(2)],)
    assert changes.came == (again,)
    same = dict(cluster.image.brokers)
    assert decisions.broker_changes(cluster.image, same).came == ()


def test_controlled_shutdown_leaves_what_no_other_can_lead() -> None:
    """The partition is named as remaining, and its state does not change."""
    cluster = Cluster(1, 2)
    cluster.make(nodes(1, 2), isr=nodes(1))
    cluster.take(in_shutdown(cluster.image.brokers[NodeId(1)]))
    records, remaining = decisions.shut_down(cluster.image, NodeId(1), lambda topic: CLEAN)
    assert (records, remaining) == ([], [TopicPartition("t", 0)])


def test_controlled_shutdown_moves_leader_and_isr() -> None:
    cluster = Cluster(1, 2)
    cluster.make(nodes(1, 2))
    cluster.take(in_shutdown(cluster.image.brokers[NodeId(1)]))
    records, remaining = decisions.shut_down(cluster.image, NodeId(1), lambda topic: CLEAN)
    cluster.take(*records)
    assert remaining == []
    assert (cluster.partition.leader, cluster.partition.isr) == (2, nodes(2))


def test_new_partition_without_a_live_replica_waits() -> None:
    cluster = Cluster(1)
    znode = TopicZnode(
        topic_id=TOPIC,
        partitions={0: Assignment(replicas=nodes(2, 1)), 1: Assignment(replicas=nodes(2))},
    )
    (record,) = decisions.new_partitions(cluster.image, znode)
    assert (record.partition_id, record.leader, record.isr) == (0, 1, nodes(1))


def test_reassignment_ends_when_the_new_replicas_are_in_sync() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.make(nodes(1, 2))
    moving = replace(
        cluster.partition,
        replicas=nodes(3, 2, 1),
        adding_replicas=nodes(3),
        removing_replicas=nodes(1),
    )

    def with_isr(isr: tuple[NodeId, ...]) -> ClusterImage:
        topic = cluster.image.topics[TOPIC]
        partitions = {0: replace(moving, isr=isr)}
        return replace(cluster.image, topics={TOPIC: replace(topic, partitions=partitions)})

    early = with_isr(nodes(1, 2))
    assert decisions.finished_reassignments(early, lambda topic: CLEAN) == []
    (record,) = decisions.finished_reassignments(with_isr(nodes(3, 2, 1)), lambda topic: CLEAN)
    assert record.replicas == nodes(3, 2)
    assert record.leader in nodes(3, 2)


@settings(deadline=None, max_examples=200)
@given(
    isr=st.sampled_from([nodes(1), nodes(2, 3), nodes(1, 2, 3)]),
    events=st.lists(
        st.tuples(
            st.sampled_from(["stop", "start", "bounce", "shut down", "shrink", "grow", "elect"]),
            st.integers(1, 3),
        ),
        max_size=20,
    ),
)
def test_any_order_of_events_keeps_the_rules(
    isr: tuple[NodeId, ...], events: list[tuple[str, int]]
) -> None:
    """`check` looks at each change; brokers come, go, bounce, and leaders change the ISR."""
    cluster = Cluster(1, 2, 3)
    cluster.make(nodes(1, 2, 3), isr=isr)

    def policy(topic: str) -> TopicPolicy:
        return CLEAN

    for event, number in events:
        node = NodeId(number)
        live = node in cluster.image.brokers
        partition = cluster.partition
        leads = partition.leader in cluster.image.brokers
        if event in ("stop", "bounce") and live:
            cluster.stop(node)
            cluster.take(*decisions.without(cluster.image, [node], policy))
        if (
            event in ("start", "bounce")
            and (event == "bounce" or not live)
            and (node not in cluster.image.brokers)
        ):
            cluster.start(node)
            cluster.take(*decisions.elect_leaderless(cluster.image, policy))
        if event == "shut down" and live:
            cluster.take(in_shutdown(cluster.image.brokers[node]))
            cluster.take(*decisions.shut_down(cluster.image, node, policy)[0])
        if event == "shrink" and leads and node != partition.leader and node in partition.isr:
            smaller = tuple(each for each in partition.isr if each != node)
            cluster.take(written(partition, smaller))
        if event == "grow" and leads and cluster.image.active(node) and node not in partition.isr:
            cluster.take(written(partition, (*partition.isr, node)))
        if event == "elect":
            cluster.take(*decisions.elect_leaderless(cluster.image, policy))
    for broker in list(cluster.image.brokers.values()):
        cluster.stop(broker.node_id)
        cluster.take(*decisions.without(cluster.image, [broker.node_id], policy))
    for node in nodes(1, 2, 3):
        cluster.start(node)
        cluster.take(*decisions.elect_leaderless(cluster.image, policy))
    assert cluster.partition.leader in cluster.partition.isr


def written(partition: PartitionImage, isr: tuple[NodeId, ...]) -> PartitionRecord:
    """An ISR change that a leader has written, as the controller reads it."""
    return PartitionRecord(
        partition_id=0,
        topic_id=TOPIC,
        replicas=partition.replicas,
        isr=isr,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch + 1,
    )


@pytest.mark.parametrize("image", [ClusterImage()])
def test_any_log_is_as_good_as_another(image: ClusterImage) -> None:
    """The mapping knows existing partitions only."""
    cluster = Cluster(1, 2)
    cluster.make(nodes(1, 2))
    logs = decisions.AnyLogs(cluster.image)
    (key,) = logs
    assert len(set(logs[key].values())) == 1
    assert list(decisions.AnyLogs(image)) == []
    with pytest.raises(KeyError):
        decisions.AnyLogs(image)[key]


def test_broker_image_of_a_registration_is_in_service() -> None:
    broker = BrokerImage.of(registration(NodeId(1), BrokerEpoch(5), (), "r"))
    assert broker.active
    assert not BrokerImage.of(in_shutdown(broker)).active


class UncountedLogs(decisions.AnyLogs):
    """To count them is to pass over all partitions."""

    def __len__(self) -> int:
        raise AssertionError("the logs were counted")


def test_an_election_of_many_partitions_counts_no_logs() -> None:
    """It would be done for each of them: 50,000 partitions would take an hour."""
    cluster = Cluster(1, 2)
    cluster.make(nodes(1, 2))
    logs = UncountedLogs(cluster.image)
    found = elect_leaders(cluster.image, None, lambda topic: CLEAN, unclean=False, logs=logs)
    assert found.records == []
    cluster.stop(1)
    cluster.take(*decisions.without(cluster.image, nodes(1), lambda topic: CLEAN))
    cluster.start(1)
    found = elect_leaders(cluster.image, None, lambda topic: CLEAN, unclean=False, logs=logs)
    assert [(topic, partition) for topic, partition, _ in found.answers] == [("t", 0)]
