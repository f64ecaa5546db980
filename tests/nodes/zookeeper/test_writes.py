"""From records to writes: what is written, in which order, and on which condition."""

from uuid import UUID

from nodes.ids import Epoch, NodeId, Offset
from nodes.metadata.image import ClusterImage, ConfigResource
from nodes.metadata.records import (
    TOPIC_RESOURCE,
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from nodes.zookeeper import writes, znodes
from nodes.zookeeper.operations import Create, SetData
from nodes.zookeeper.znodes import Assignment, StateZnode

TOPIC = UUID(int=1)


def nodes(*numbers: int) -> tuple[NodeId, ...]:
    return tuple(NodeId(number) for number in numbers)


def partition(number: int, *replicas: int) -> PartitionRecord:
    return PartitionRecord(
        partition_id=number,
        topic_id=TOPIC,
        replicas=nodes(*replicas),
        isr=nodes(*replicas),
        leader=NodeId(replicas[0]),
        leader_epoch=Epoch(0),
        partition_epoch=0,
    )


def image(*records: MetadataRecord) -> ClusterImage:
    return ClusterImage().apply(records, Offset(0), Epoch(1))[0]


def with_topic(*partitions: PartitionRecord) -> ClusterImage:
    return image(TopicRecord(name="t", topic_id=TOPIC), *partitions)


def test_new_topic_has_its_assignment_before_its_states() -> None:
    """A state without a topic would belong to nobody. The configuration comes first of all."""
    config = ConfigRecord(resource_type=2, resource_name="t", name="a", value="b")
    records = [TopicRecord(name="t", topic_id=TOPIC), config, partition(0, 1, 2), partition(1, 2)]
    plan = writes.plan(ClusterImage(), records, 7)
    (changed,) = plan.configs
    assert (changed.resource, changed.values) == (ConfigResource(TOPIC_RESOURCE, "t"), {"a": "b"})
    topic, *states = plan.writes
    assert topic.alone
    assert [each.path for each in topic.operations] == [
        "/brokers/topics/t",
        "/brokers/topics/t/partitions",
    ]
    assert isinstance(topic.operations[0], Create)
    assert znodes.read_topic(topic.operations[0].data).partitions == {
        0: Assignment(replicas=nodes(1, 2)),
        1: Assignment(replicas=nodes(2)),
    }
    assert [each.operations[1].path for each in states] == [
        "/brokers/topics/t/partitions/0/state",
        "/brokers/topics/t/partitions/1/state",
    ]
    first = states[0].operations[1]
    assert isinstance(first, Create)
    assert znodes.read_state(first.data) == StateZnode(
        leader=NodeId(1), leader_epoch=Epoch(0), isr=nodes(1, 2), controller_epoch=7
    )


def test_change_is_conditional_on_the_state_that_it_was_decided_on() -> None:
    """The version of the znode is the partition epoch."""
    before = with_topic(partition(0, 1, 2))
    change = PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=nodes(2), leader=NodeId(2))
    (write,) = writes.plan(before, [change], 7).writes
    (operation,) = write.operations
    assert isinstance(operation, SetData)
    assert operation.version == 0
    assert znodes.read_state(operation.data) == StateZnode(
        leader=NodeId(2), leader_epoch=Epoch(1), isr=nodes(2), controller_epoch=7
    )
    after = before.apply([change], Offset(1), Epoch(1))[0]
    (later,) = writes.plan(after, [change], 7).writes
    assert isinstance(later.operations[0], SetData)
    assert later.operations[0].version == 1


def test_assignments_of_one_topic_do_not_overwrite_each_other() -> None:
    """Each write has the changes before it, and waits for them."""
    before = with_topic(partition(0, 1), partition(1, 1), partition(2, 1))
    changes = [
        PartitionChangeRecord(
            partition_id=number,
            topic_id=TOPIC,
            replicas=nodes(2, 1),
            adding_replicas=nodes(2),
            removing_replicas=nodes(1),
        )
        for number in (0, 2)
    ]
    first, second = writes.plan(before, changes, 7).writes
    assert first.alone
    assert second.alone
    written = second.operations[1]
    assert isinstance(written, SetData)
    assert written.path == "/brokers/topics/t"
    moving = Assignment(replicas=nodes(2, 1), adding=nodes(2), removing=nodes(1))
    assert znodes.read_topic(written.data).partitions == {
        0: moving,
        1: Assignment(replicas=nodes(1)),
        2: moving,
    }


def test_more_partitions_extend_the_assignment() -> None:
    plan = writes.plan(with_topic(partition(0, 1)), [partition(1, 2), partition(2, 1)], 7)
    topic, *states = plan.writes
    assert isinstance(topic.operations[0], SetData)
    assert sorted(znodes.read_topic(topic.operations[0].data).partitions) == [0, 1, 2]
    assert len(states) == 2


def test_deletion_only_marks() -> None:
    plan = writes.plan(with_topic(partition(0, 1)), [RemoveTopicRecord(topic_id=TOPIC)], 7)
    assert (list(plan.writes), plan.configs, plan.deletions) == ([], (), (TOPIC,))


def test_configurations_have_the_names_of_kafka() -> None:
    """The name of all brokers is <default>. Kinds that are not used here are left out."""
    for resource, entity in (
        (ConfigResource(2, "t"), "topics/t"),
        (ConfigResource(4, "3"), "brokers/3"),
        (ConfigResource(4, ""), "brokers/<default>"),
    ):
        assert writes.config_entity(resource) == entity
        assert writes.resource_of(entity) == resource
    assert writes.resource_of("users/alice") is None
    assert writes.resource_of("topics/<default>") == ConfigResource(2, "<default>")
