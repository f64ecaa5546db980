"""The image: what each record changes, what the delta says, what stays shared."""

from dataclasses import replace
from uuid import UUID

import pytest

from nodes.ids import NO_NODE, BrokerEpoch, Epoch, NodeId, Offset
from nodes.metadata.errors import MetadataError
from nodes.metadata.image import Change, ClusterImage, ConfigResource, PartitionKey
from nodes.metadata.records import (
    TOPIC_RESOURCE,
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from nodes.metadata.unused_records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    QuotaEntity,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from tests.support.nodes.controller_cluster import endpoint, node, nodes

A, B = UUID(int=0xA), UUID(int=0xB)


def _topic(name: str, topic_id: UUID, partitions: int = 2) -> list[MetadataRecord]:
    return [
        TopicRecord(name=name, topic_id=topic_id),
        *(
            PartitionRecord(
                partition_id=number,
                topic_id=topic_id,
                replicas=nodes(1, 2, 3),
                isr=nodes(1, 2, 3),
                leader=node(1),
                leader_epoch=Epoch(0),
                partition_epoch=0,
            )
            for number in range(partitions)
        ),
    ]


def _register(number: int, epoch: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=node(number),
        incarnation_id=UUID(int=epoch),
        broker_epoch=BrokerEpoch(epoch),
        end_points=endpoint(number),
    )


def _image(*records: MetadataRecord) -> ClusterImage:
    image, _ = ClusterImage().apply(records, Offset(10), Epoch(1))
    return image


def _apply(image: ClusterImage, *records: MetadataRecord) -> ClusterImage:
    return image.apply(records, Offset(image.offset + len(records)), Epoch(2))[0]


def test_a_new_topic_is_complete_in_image_and_delta() -> None:
    """Topic, partitions and their keys, by name and by id."""
    image, delta = ClusterImage().apply(_topic("a", A), Offset(2), Epoch(1))
    assert (image.offset, image.epoch) == (2, 1)
    topic = image.topic("a")
    assert topic is image.topics[A]
    assert delta.topics == {A: Change(None, topic)}
    assert list(delta.partitions) == [PartitionKey(A, "a", 0), PartitionKey(A, "a", 1)]
    assert image.partition("a", 1) == delta.partitions[PartitionKey(A, "a", 1)].after
    assert image.partition("a", 2) is None
    assert image.partition("b", 0) is None


def test_a_partition_change_raises_the_epochs_it_should() -> None:
    """Any change raises the partition epoch; only one that names a leader the leader epoch."""
    before = _image(*_topic("a", A))
    shrunk = _apply(before, PartitionChangeRecord(topic_id=A, partition_id=0, isr=nodes(1, 2)))
    partition = shrunk.partition("a", 0)
    assert partition is not None
    assert (partition.isr, partition.leader) == (nodes(1, 2), node(1))
    assert (partition.leader_epoch, partition.partition_epoch) == (0, 1)
    again = _apply(shrunk, PartitionChangeRecord(topic_id=A, partition_id=0, leader=node(1)))
    partition = again.partition("a", 0)
    assert partition is not None
    assert (partition.leader_epoch, partition.partition_epoch) == (1, 2)
    gone = _apply(again, PartitionChangeRecord(topic_id=A, partition_id=0, leader=NO_NODE))
    partition = gone.partition("a", 0)
    assert partition is not None
    assert (partition.leader, partition.leader_epoch) == (NO_NODE, 2)


def test_every_field_of_a_partition_change_is_applied() -> None:
    """Null means as it was, an empty list means empty, for every list of the record."""
    before = _image(*_topic("a", A))
    full = PartitionChangeRecord(
        topic_id=A,
        partition_id=0,
        replicas=nodes(4, 5),
        adding_replicas=nodes(4),
        removing_replicas=nodes(1),
        leader_recovery_state=1,
        eligible_leader_replicas=nodes(2),
        last_known_elr=nodes(3),
        directories=(A, None),
    )
    changed = _apply(before, full).partition("a", 0)
    assert changed is not None
    assert (changed.replicas, changed.adding_replicas) == (nodes(4, 5), nodes(4))
    assert (changed.removing_replicas, changed.directories) == (nodes(1), (A, None))
    assert (changed.elr, changed.last_known_elr) == (nodes(2), nodes(3))
    assert (changed.leader_recovery_state, changed.isr) == (1, nodes(1, 2, 3))
    nothing = PartitionChangeRecord(topic_id=A, partition_id=0)
    assert changed.changed(nothing) == replace(changed, partition_epoch=2)
    assert changed.changed(replace(nothing, eligible_leader_replicas=())).elr == ()


def test_an_apply_shares_all_unchanged_tables() -> None:
    """Untouched topics are the same objects, and the old image is as it was."""
    before = _image(*_topic("a", A), *_topic("b", B))
    old = before.partition("a", 0)
    after, delta = before.apply(
        [PartitionChangeRecord(topic_id=A, partition_id=0, isr=nodes(1))], Offset(11), Epoch(1)
    )
    assert before.partition("a", 0) is old
    assert after.topics[B] is before.topics[B]
    assert after.partition("a", 1) is before.partition("a", 1)
    assert after.brokers is before.brokers
    assert after.topic_ids is before.topic_ids
    assert dict(delta.partitions) == {PartitionKey(A, "a", 0): Change(old, after.partition("a", 0))}
    assert not delta.topics


def test_a_removed_topic_takes_partitions_and_configuration_with_it() -> None:
    """The delta names each partition with nothing after; the name is free again."""
    config = ConfigRecord(
        resource_type=TOPIC_RESOURCE, resource_name="a", name="retention.ms", value="1"
    )
    before = _image(*_topic("a", A), config)
    after, delta = before.apply([RemoveTopicRecord(topic_id=A)], Offset(11), Epoch(1))
    assert after.topic("a") is None
    assert not after.topics
    assert not after.configs
    assert [change.after for change in delta.partitions.values()] == [None, None]
    assert delta.topics[A].after is None
    assert delta.configs == (ConfigResource(TOPIC_RESOURCE, "a"),)
    assert _apply(after, *_topic("a", B)).topic_ids == {"a": B}


def test_a_topic_deleted_and_recreated_in_one_batch_is_two_topics() -> None:
    """Keys carry the topic id, so the delta tells the old partitions from the new."""
    before = _image(*_topic("a", A, 1))
    _, delta = before.apply(
        [RemoveTopicRecord(topic_id=A), *_topic("a", B, 1)], Offset(20), Epoch(1)
    )
    assert delta.partitions[PartitionKey(A, "a", 0)].after is None
    assert delta.partitions[PartitionKey(B, "a", 0)].before is None


def test_broker_records_make_change_and_remove_brokers() -> None:
    """Registration, fencing both ways, controlled shutdown, and the end."""
    image, delta = ClusterImage().apply([_register(1, 5)], Offset(5), Epoch(1))
    assert image.brokers[node(1)].fenced
    assert not image.active(node(1))
    assert list(delta.brokers) == [1]
    change = BrokerRegistrationChangeRecord(broker_id=node(1), broker_epoch=BrokerEpoch(5))
    image = _apply(image, replace(change, fenced=-1))
    assert image.active(node(1))
    assert _apply(image, change) == replace(image, offset=Offset(7), epoch=Epoch(2))
    leaving = _apply(image, replace(change, in_controlled_shutdown=1))
    assert not leaving.active(node(1))
    assert not leaving.brokers[node(1)].fenced
    assert _apply(leaving, replace(change, fenced=1)).brokers[node(1)].fenced
    gone, delta = image.apply(
        [UnregisterBrokerRecord(broker_id=node(1), broker_epoch=BrokerEpoch(5))],
        Offset(8),
        Epoch(1),
    )
    assert not gone.brokers
    assert delta.brokers[node(1)].after is None
    assert not gone.active(node(1))


def test_a_broker_finds_its_endpoint_by_listener() -> None:
    """Clients are sent to the listener they came by."""
    broker = _image(_register(1, 5)).brokers[node(1)]
    assert broker.endpoint("PLAINTEXT") == endpoint(1)[0]
    assert broker.endpoint("OTHER") is None


def test_configs_producer_ids_features_and_nothing() -> None:
    """The small records; a null value deletes a configuration and the last one its table."""
    image = _image(
        ConfigRecord(resource_type=4, resource_name="1", name="a", value="x"),
        ConfigRecord(resource_type=4, resource_name="1", name="b", value="y"),
        ProducerIdsRecord(broker_id=node(1), broker_epoch=BrokerEpoch(1), next_producer_id=3000),
        FeatureLevelRecord(name="metadata.version", feature_level=23),
        NoOpRecord(),
    )
    resource = ConfigResource(4, "1")
    assert image.configs[resource] == {"a": "x", "b": "y"}
    assert image.next_producer_id == 3000
    assert image.features == {"metadata.version": 23}
    delete = ConfigRecord(resource_type=4, resource_name="1", name="a", value=None)
    image, delta = image.apply([delete], Offset(11), Epoch(1))
    assert image.configs[resource] == {"b": "y"}
    assert delta.configs == (resource,)
    assert not delta.partitions
    assert not _apply(image, replace(delete, name="b")).configs


ELR = {"eligible_leader_replicas": nodes(2), "last_known_elr": nodes(3)}
LAST_KNOWN = {"last_known_elr": nodes(3)}


@pytest.mark.parametrize(("named", "cleared"), [("a", {"a"}), ("", {"a", "b"})])
def test_the_end_of_leader_eligibility_concerns_one_topic_or_all(
    named: str, cleared: set[str]
) -> None:
    """As in Kafka, each partition that had eligible replicas has a new partition epoch."""
    image = _image(*_topic("a", A), *_topic("b", B))
    image = _apply(
        image,
        PartitionChangeRecord(topic_id=A, partition_id=0, **ELR),
        PartitionChangeRecord(topic_id=B, partition_id=1, **LAST_KNOWN),
    )
    after, delta = image.apply([ClearElrRecord(topic_name=named)], Offset(20), Epoch(2))
    assert {key.topic for key in delta.partitions} == cleared
    for topic, number in (("a", 0), ("b", 1)):
        before, now = image.partition(topic, number), after.partition(topic, number)
        assert before is not None
        expected = replace(before, elr=(), last_known_elr=(), partition_epoch=2)
        assert now == (expected if topic in cleared else before)
    assert after.partition("a", 1) is image.partition("a", 1)


def test_a_topic_of_the_same_batch_loses_its_eligible_replicas() -> None:
    """Kafka writes the records of one request as one batch."""
    eligible = PartitionChangeRecord(topic_id=A, partition_id=0, **ELR)
    image = _image(*_topic("a", A), eligible, ClearElrRecord(topic_name=""))
    partition = image.partition("a", 0)
    assert partition is not None
    assert (partition.elr, partition.last_known_elr) == ((), ())


SCRAM = UserScramCredentialRecord(
    name="u", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
)
QUOTA = ClientQuotaRecord(
    entity=(QuotaEntity(entity_type="user", entity_name=None),), key="rate", value=1.5
)
ENTRY = AccessControlEntryRecord(
    id=A,
    resource_type=2,
    resource_name="a",
    pattern_type=3,
    principal="User:u",
    host="*",
    operation=2,
    permission_type=2,
)
TOKEN = DelegationTokenRecord(
    owner="o",
    requester="r",
    issue_timestamp=1,
    max_timestamp=2,
    expiration_timestamp=2,
    token_id="t",
)


@pytest.mark.parametrize(
    ("record", "newer", "removal"),
    [
        (SCRAM, replace(SCRAM, salt=b"t"), RemoveUserScramCredentialRecord(name="u", mechanism=1)),
        (QUOTA, replace(QUOTA, value=2.5), replace(QUOTA, remove=True)),
        (ENTRY, replace(ENTRY, host="h"), RemoveAccessControlEntryRecord(id=A)),
        (TOKEN, replace(TOKEN, renewers=("x",)), RemoveDelegationTokenRecord(token_id="t")),
    ],
    ids=lambda record: type(record).__name__,
)
def test_what_only_kafka_uses_is_kept_until_it_is_removed(
    record: MetadataRecord, newer: MetadataRecord, removal: MetadataRecord
) -> None:
    """The newest record of each thing; other things stay."""
    others = (
        replace(SCRAM, mechanism=2),
        replace(QUOTA, key="other"),
        replace(ENTRY, id=B),
        replace(TOKEN, token_id="other"),
    )
    image = _image(*others, record, newer)
    assert list(image.unused.values()) == [*others, newer]
    assert list(_apply(image, removal).unused.values()) == [*others]
    assert _apply(_apply(image, removal), removal).unused == _image(*others).unused


def test_a_state_of_zookeeper_changes_nothing() -> None:
    """Kafka 4 reads it, and has no use for it."""
    assert _image(ZkMigrationStateRecord(zk_migration_state=1)) == _image(NoOpRecord())


@pytest.mark.parametrize(
    "record",
    [
        ClearElrRecord(topic_name="b"),
        PartitionChangeRecord(topic_id=B, partition_id=0),
        PartitionChangeRecord(topic_id=A, partition_id=7),
        PartitionRecord(topic_id=B, replicas=(), isr=()),
        RemoveTopicRecord(topic_id=B),
        TopicRecord(name="a", topic_id=B),
        TopicRecord(name="b", topic_id=A),
        UnregisterBrokerRecord(broker_id=NodeId(9), broker_epoch=BrokerEpoch(1)),
        BrokerRegistrationChangeRecord(broker_id=NodeId(1), broker_epoch=BrokerEpoch(4)),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_that_contradicts_the_image_is_refused(record: MetadataRecord) -> None:
    """A contradiction means a damaged log; the image is left as it was."""
    image = _image(*_topic("a", A), _register(1, 5))
    with pytest.raises(MetadataError):
        image.apply([NoOpRecord(), record], Offset(12), Epoch(1))


def test_a_transaction_takes_effect_completely_at_its_end() -> None:
    """Over as many batches as there are (KIP-868): none of it is seen before, all of it after."""
    begun = _image(BeginTransactionRecord(), *_topic("a", A))
    assert begun.topics == {}
    more = _apply(begun, *_topic("b", B))
    assert more.topics == {}
    ended, delta = more.apply([EndTransactionRecord()], Offset(9), Epoch(2))
    assert list(ended.topic_ids) == ["a", "b"]
    assert list(delta.topics) == [A, B]
    assert ended.transaction is None
    aborted = _apply(more, AbortTransactionRecord(), *_topic("b", B))
    assert list(aborted.topic_ids) == ["b"]


@pytest.mark.parametrize(
    "records",
    [
        (EndTransactionRecord(),),
        (AbortTransactionRecord(),),
        (BeginTransactionRecord(), BeginTransactionRecord()),
    ],
)
def test_a_transaction_has_one_beginning_and_one_end(records: tuple[MetadataRecord, ...]) -> None:
    """Else the log is not what it says it is."""
    with pytest.raises(MetadataError):
        _image(*records)
