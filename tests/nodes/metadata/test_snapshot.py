"""The image as records and back, and the difference of two images."""

import random
from dataclasses import fields
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodes.ids import BrokerEpoch, Epoch, NodeId, Offset
from nodes.metadata.broker import BrokerImage
from nodes.metadata.image import ClusterImage, ConfigResource, Delta, PartitionImage
from nodes.metadata.records import (
    RECOVERING,
    BeginTransactionRecord,
    BrokerEndpoint,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    decode,
    encode,
)
from nodes.metadata.snapshot import difference, to_records
from nodes.metadata.unused_records import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)
from tests.support.nodes.controller_cluster import nodes

SMALL = settings(
    max_examples=20, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
"""A cluster takes many draws, two at times more than one example may; those are passed over."""

NODES = st.tuples() | st.lists(st.integers(1, 9).map(NodeId), max_size=4, unique=True).map(tuple)
DIRECTORIES = st.lists(st.none() | st.uuids(version=4), max_size=3).map(tuple)
NAMES = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=6)

IDS = st.integers(1, 3).map(lambda n: UUID(int=n))
ENTRY = st.builds(
    AccessControlEntryRecord,
    id=IDS,
    resource_type=st.just(2),
    resource_name=NAMES,
    pattern_type=st.just(3),
    principal=st.just("User:a"),
    host=st.just("*"),
    operation=st.integers(1, 9),
    permission_type=st.just(2),
)
UNUSED = ENTRY | st.builds(RemoveAccessControlEntryRecord, id=IDS)


def registrations() -> st.SearchStrategy[MetadataRecord]:
    """Any broker."""
    endpoint = st.builds(
        BrokerEndpoint,
        name=NAMES,
        host=NAMES,
        port=st.integers(0, 65535),
        security_protocol=st.just(1),
    )
    return st.builds(
        RegisterBrokerRecord,
        broker_id=st.integers(1, 9).map(NodeId),
        incarnation_id=st.uuids(version=4),
        broker_epoch=st.integers(0, 2**40).map(BrokerEpoch),
        end_points=st.lists(endpoint, max_size=2).map(tuple),
        rack=st.none() | NAMES,
        fenced=st.booleans(),
        in_controlled_shutdown=st.booleans(),
        log_dirs=DIRECTORIES,
    )


def partitions(topic_id: UUID) -> st.SearchStrategy[MetadataRecord]:
    """Any state of a partition of the topic."""
    return st.builds(
        PartitionRecord,
        partition_id=st.integers(0, 5),
        topic_id=st.just(topic_id),
        replicas=NODES.filter(bool),
        isr=NODES,
        removing_replicas=NODES,
        adding_replicas=NODES,
        leader=st.integers(-1, 9).map(NodeId),
        leader_recovery_state=st.sampled_from([0, 1]),
        leader_epoch=st.integers(0, 2**31 - 1).map(Epoch),
        partition_epoch=st.integers(0, 2**31 - 1),
        directories=DIRECTORIES,
        eligible_leader_replicas=st.none() | NODES,
        last_known_elr=st.none() | NODES,
    )


@st.composite
def clusters(draw: st.DrawFn) -> list[MetadataRecord]:
    """Records that make some cluster, and forget parts of it again."""
    records: list[MetadataRecord] = draw(st.lists(registrations(), max_size=4))
    for name in draw(st.lists(NAMES, max_size=4, unique=True)):
        topic_id = draw(st.uuids(version=4))
        records.append(TopicRecord(name=name, topic_id=topic_id))
        records += draw(st.lists(partitions(topic_id), max_size=4))
        if draw(st.integers(0, 4)) == 0:
            records.append(RemoveTopicRecord(topic_id=topic_id))
    configs = st.builds(
        ConfigRecord,
        resource_type=st.sampled_from([2, 4]),
        resource_name=st.just("") | NAMES,
        name=NAMES,
        value=st.none() | st.text(max_size=5),
    )
    records += draw(st.lists(configs, max_size=5))
    level = st.builds(FeatureLevelRecord, name=NAMES, feature_level=st.integers(1, 30))
    records += draw(st.lists(level, max_size=3))
    records += draw(st.lists(UNUSED, max_size=5))
    if draw(st.booleans()):
        ids = draw(st.integers(0, 2**60))
        records.append(
            ProducerIdsRecord(
                broker_id=NodeId(1), broker_epoch=BrokerEpoch(1), next_producer_id=ids
            )
        )
    return records


def image_of(records: list[MetadataRecord]) -> ClusterImage:
    """The image that the records make."""
    return ClusterImage().apply(records, Offset(99), Epoch(7))[0]


@SMALL
@given(clusters())
def test_the_records_of_a_snapshot_restore_the_image(records: list[MetadataRecord]) -> None:
    """Through the bytes, field by field, and in the same order; the same bytes each time."""
    image = image_of(records)
    written = [encode(record) for record in to_records(image)]
    again = image_of([decode(value) for value in written])
    assert again == image
    assert repr(again) == repr(image), "tables in another order would decide differently"
    assert [encode(record) for record in to_records(again)] == written


@pytest.mark.parametrize(("elr", "known"), [((4,), (5,)), ((), (5,)), ((4,), ()), ((), ())])
def test_a_partition_is_written_as_it_is(elr: tuple[int, ...], known: tuple[int, ...]) -> None:
    """Field by field, each with a value of its own. Kafka leaves out empty lists of eligible
    replicas."""
    topic_id = UUID(int=1)
    record = PartitionRecord(
        partition_id=7,
        topic_id=topic_id,
        replicas=nodes(1, 2, 3),
        isr=nodes(1, 2),
        removing_replicas=nodes(1),
        adding_replicas=nodes(3),
        leader=NodeId(2),
        leader_recovery_state=RECOVERING,
        leader_epoch=Epoch(11),
        partition_epoch=12,
        directories=(UUID(int=21), UUID(int=22), UUID(int=23)),
        eligible_leader_replicas=nodes(*elr) or None,
        last_known_elr=nodes(*known) or None,
    )
    written = list(to_records(image_of([TopicRecord(name="t", topic_id=topic_id), record])))
    assert record in written


def test_a_snapshot_inside_a_transaction_keeps_the_transaction() -> None:
    """What is in it counts when it ends, after the snapshot as before."""
    topic = TopicRecord(name="a", topic_id=UUID(int=1))
    image = image_of([BeginTransactionRecord(), topic])
    again = image_of([decode(encode(record)) for record in to_records(image)])
    assert again == image
    assert again.topic("a") is None
    ended, _ = again.apply([EndTransactionRecord()], Offset(100), Epoch(7))
    assert ended.topic("a") is not None


def test_a_snapshot_has_every_field_of_the_image() -> None:
    """Who adds a field to the image has to say how a snapshot holds it."""
    known = {
        ClusterImage: "offset epoch brokers topics topic_ids configs features next_producer_id "
        "unused transaction",
        BrokerImage: "node_id epoch incarnation_id endpoints rack fenced in_controlled_shutdown "
        "log_dirs",
        PartitionImage: "replicas isr leader leader_epoch partition_epoch leader_recovery_state "
        "adding_replicas removing_replicas directories elr last_known_elr",
        Delta: "brokers topics partitions configs",
    }
    for cls, names in known.items():
        assert [field.name for field in fields(cls)] == names.split(), cls.__name__


@SMALL
@given(clusters(), clusters())
def test_applying_the_difference_gives_the_other_image(
    first: list[MetadataRecord], second: list[MetadataRecord]
) -> None:
    """Whoever applies each change to what he had has what the other image has."""
    before, after = image_of(first), image_of(second)
    delta = difference(before, after)
    brokers = dict(before.brokers)
    for node, broker in delta.brokers.items():
        assert broker.before == brokers.pop(node, None)
        brokers |= {node: broker.after} if broker.after else {}
    assert brokers == after.brokers
    partitions = dict(before.partitions())
    for key, change in delta.partitions.items():
        assert change.before == partitions.pop(key, None)
        partitions |= {key: change.after} if change.after else {}
    assert partitions == dict(after.partitions())
    topics = set(before.topics)
    for topic_id, topic in delta.topics.items():
        (topics.remove if topic.after is None else topics.add)(topic_id)
    assert topics == set(after.topics)
    for resource in {**before.configs, **after.configs}:
        same = before.configs.get(resource) == after.configs.get(resource)
        assert (resource in delta.configs) == (not same)
    assert bool(difference(after, after)) is False


def test_the_difference_equals_the_deltas_of_the_log() -> None:
    """A snapshot that stands for a part of the log tells what that part would have told."""
    old, new = UUID(int=1), UUID(int=2)
    node = NodeId(1)

    def partition(topic_id: UUID) -> PartitionRecord:
        return PartitionRecord(
            partition_id=0,
            topic_id=topic_id,
            replicas=(node,),
            isr=(node,),
            leader=node,
            leader_epoch=Epoch(0),
            partition_epoch=0,
        )

    before = image_of([TopicRecord(name="t", topic_id=old), partition(old)])
    between: list[MetadataRecord] = [
        RemoveTopicRecord(topic_id=old),
        TopicRecord(name="t", topic_id=new),
        partition(new),
        PartitionChangeRecord(partition_id=0, topic_id=new, leader=node),
        ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1"),
    ]
    after, told = before.apply(between, Offset(120), Epoch(8))
    delta = difference(before, after)
    assert delta.topics == told.topics
    assert delta.partitions == told.partitions
    assert delta.configs == told.configs == (ConfigResource(2, "t"),)


def test_brokers_that_left_are_in_the_difference() -> None:
    """A fetcher to a broker that is gone has to end."""
    endpoint = BrokerEndpoint(name="P", host="h", port=1)
    register = RegisterBrokerRecord(
        broker_id=NodeId(1),
        incarnation_id=UUID(int=9),
        broker_epoch=BrokerEpoch(5),
        end_points=(endpoint,),
    )
    before = image_of([register])
    gone = UnregisterBrokerRecord(broker_id=NodeId(1), broker_epoch=BrokerEpoch(5))
    after, told = before.apply([gone], Offset(100), Epoch(7))
    assert difference(before, after).brokers == told.brokers


@pytest.mark.parametrize("count", [1000])
def test_snapshot_records_are_made_one_by_one(count: int) -> None:
    """The records come one by one, so that whoever writes them can pause."""
    topic_id = UUID(int=random.Random(1).getrandbits(128))
    records: list[MetadataRecord] = [TopicRecord(name="t", topic_id=topic_id)]
    records += [
        PartitionRecord(partition_id=n, topic_id=topic_id, replicas=(), isr=())
        for n in range(count)
    ]
    made = to_records(image_of(records))
    assert isinstance(next(made), TopicRecord)
    assert sum(1 for _ in made) == count
