"""From the controller's image to requests on the wire, and from there to a broker's image."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from nodes.controller.settings import ControlSettings
from nodes.ids import NO_NODE, BrokerEpoch, Epoch, NodeId, Offset
from nodes.metadata.image import ClusterImage, PartitionKey
from nodes.metadata.records import BrokerEndpoint, MetadataRecord, PartitionRecord, TopicRecord
from nodes.wire.codec import decode_request, encode_request
from nodes.wire.controller_requests import FULL, INCREMENTAL, LeaderAndIsrRequest
from nodes.zookeeper import broker_view, requests
from nodes.zookeeper.broker_view import registration
from nodes.zookeeper.decisions import levels

SENDER = requests.Sender(node_id=NodeId(9), epoch=4)
NODES = st.lists(st.integers(1, 3).map(NodeId), min_size=1, max_size=3, unique=True).map(tuple)


def taken(image: ClusterImage, records: list[MetadataRecord]) -> ClusterImage:
    return image.apply(records, Offset(image.offset + 1), Epoch(4))[0]


def broker_image() -> ClusterImage:
    return ClusterImage(features=levels(ControlSettings()))


def brokers(*numbers: int) -> list[MetadataRecord]:
    return [
        registration(
            NodeId(number),
            BrokerEpoch(10 * number),
            (BrokerEndpoint(name="PLAINTEXT", host=f"host{number}", port=9092),),
            "r1" if number == 1 else None,
        )
        for number in numbers
    ]


def partition(
    number: int, replicas: tuple[int, ...], *, topic: int = 1, epoch: int = 0, leader_epoch: int = 0
) -> PartitionRecord:
    nodes = tuple(NodeId(each) for each in replicas)
    return PartitionRecord(
        partition_id=number,
        topic_id=UUID(int=topic),
        replicas=nodes,
        isr=nodes,
        leader=nodes[0],
        leader_epoch=Epoch(leader_epoch),
        partition_epoch=epoch,
    )


def over_the_wire(request: Any) -> Any:
    """A request as the receiver decodes it."""
    return decode_request(encode_request(request, 1, "node-9")[4:]).entity


def keys(image: ClusterImage) -> list[PartitionKey]:
    return [key for key, _ in image.partitions()]


def full_cluster(partitions: int = 3) -> ClusterImage:
    return taken(
        ClusterImage(),
        [
            *brokers(1, 2, 3),
            TopicRecord(name="t", topic_id=UUID(int=1)),
            *(partition(number, (1, 2)) for number in range(partitions)),
            TopicRecord(name="u", topic_id=UUID(int=2)),
            partition(0, (3,), topic=2),
        ],
    )


def test_broker_gets_its_own_partitions_and_all_metadata() -> None:
    """LeaderAndIsr names what it hosts, UpdateMetadata everything; the epochs are its own."""
    image = full_cluster()
    to = image.brokers[NodeId(3)]
    (roles,) = requests.leader_and_isr(SENDER, image, to, keys(image), full=True)
    decoded = over_the_wire(roles)
    assert [topic.topic_name for topic in decoded.topic_states] == ["u"]
    assert (decoded.controller_epoch, decoded.broker_epoch, decoded.type_) == (4, 30, FULL)
    view = broker_image()
    for request in requests.MetadataUpdate(SENDER, image, keys(image)).requests(to):
        view = taken(view, list(broker_view.update_metadata(view, over_the_wire(request))))
    view = taken(view, list(broker_view.leader_and_isr(view, decoded)))
    assert view.topics == taken(broker_image(), _topics(image)).topics
    assert {node: b.endpoints for node, b in view.brokers.items()} == {
        node: b.endpoints for node, b in image.brokers.items()
    }
    assert view.brokers[NodeId(1)].rack == "r1"
    assert all(view.active(node) for node in view.brokers)


def _topics(image: ClusterImage) -> list[MetadataRecord]:
    rows: list[MetadataRecord] = []
    for topic in image.topics.values():
        rows.append(TopicRecord(name=topic.name, topic_id=topic.topic_id))
        rows += [
            partition(number, each.replicas, topic=topic.topic_id.int)
            for number, each in topic.partitions.items()
        ]
    return rows


def test_many_partitions_come_in_several_requests_and_the_last_is_full() -> None:
    """A broker reads no request for long, and knows when it knows everything."""
    image = full_cluster(2 * requests.MAX_PARTITIONS + 1)
    to = image.brokers[NodeId(2)]
    found = list(requests.leader_and_isr(SENDER, image, to, keys(image), full=True))
    assert [each.type_ for each in found] == [INCREMENTAL, INCREMENTAL, FULL]
    sizes = [sum(len(t.partition_states) for t in each.topic_states) for each in found]
    assert sizes == [500, 500, 1]
    for each in found:
        assert over_the_wire(each) == each
    update = requests.MetadataUpdate(SENDER, image, keys(image))
    assert len([over_the_wire(each) for each in update.requests(to)]) == 3


def test_broker_without_partitions_still_gets_a_full_request() -> None:
    image = taken(ClusterImage(), brokers(1))
    to = image.brokers[NodeId(1)]
    (request,) = requests.leader_and_isr(SENDER, image, to, [], full=True)
    assert (request.topic_states, request.type_) == ((), FULL)
    assert list(requests.leader_and_isr(SENDER, image, to, [])) == []


def test_state_is_taken_if_its_version_is_newer() -> None:
    """The leader epoch may be the same (KAFKA-2729). An older version changes nothing."""
    image = full_cluster(1)
    shrunk = partition(0, (1,), epoch=5)
    for records, expected in (([shrunk], 5), ([partition(0, (1, 2), epoch=3)], 5)):
        sender_image = taken(image, list(records))
        to = sender_image.brokers[NodeId(1)]
        for request in requests.leader_and_isr(SENDER, sender_image, to, keys(sender_image)):
            image = taken(image, list(broker_view.leader_and_isr(image, request)))
        found = image.partition("t", 0)
        assert found is not None
        assert found.partition_epoch == expected


def test_deleted_topic_leaves_the_image_and_its_name_is_free() -> None:
    """Another topic of the same name also ends the old one, if its deletion was missed."""
    image = full_cluster(2)
    topic = image.topics[UUID(int=1)]
    to = image.brokers[NodeId(1)]
    (request,) = requests.MetadataUpdate(SENDER, image, (), [topic]).requests(to)
    after = taken(image, list(broker_view.update_metadata(image, over_the_wire(request))))
    assert "t" not in after.topic_ids
    again = taken(
        taken(ClusterImage(), brokers(1, 2, 3)),
        [TopicRecord(name="t", topic_id=UUID(int=7)), partition(0, (1,), topic=7)],
    )
    (request,) = requests.MetadataUpdate(SENDER, again, keys(again)).requests(to)
    replaced = taken(image, list(broker_view.update_metadata(image, over_the_wire(request))))
    assert replaced.topic_ids["t"] == UUID(int=7)
    assert UUID(int=1) not in replaced.topics


def test_broker_that_is_not_named_is_gone() -> None:
    image = full_cluster(1)
    smaller = taken(ClusterImage(), brokers(1, 3))
    (request,) = requests.MetadataUpdate(SENDER, smaller, ()).requests(image.brokers[NodeId(1)])
    after = taken(image, list(broker_view.update_metadata(image, over_the_wire(request))))
    assert set(after.brokers) == {1, 3}


@pytest.mark.parametrize(
    ("controller_epoch", "broker_epoch", "expected"),
    [
        (4, 10, ErrorCode.none),
        (5, 11, ErrorCode.none),
        (3, 10, ErrorCode.stale_controller_epoch),
        (4, 9, ErrorCode.stale_broker_epoch),
        (3, 9, ErrorCode.stale_controller_epoch),
    ],
)
def test_old_epochs_are_refused(
    controller_epoch: int, broker_epoch: int, expected: ErrorCode
) -> None:
    """A broker may not know its own registration yet: a newer epoch of it is accepted."""
    request = LeaderAndIsrRequest(
        controller_id=1,
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
        topic_states=(),
    )
    assert broker_view.refusal(request, 4, BrokerEpoch(10)) is expected


@given(replicas=NODES, leads=st.booleans(), epoch=st.integers(0, 9))
def test_partition_arrives_as_it_was_sent(
    replicas: tuple[NodeId, ...], leads: bool, epoch: int
) -> None:
    """Every field that a broker uses, by either request."""
    record = PartitionRecord(
        partition_id=3,
        topic_id=UUID(int=1),
        replicas=replicas,
        isr=replicas[:1],
        leader=replicas[0] if leads else NO_NODE,
        leader_epoch=Epoch(epoch),
        partition_epoch=2 * epoch,
        adding_replicas=replicas[1:],
    )
    image = taken(
        ClusterImage(),
        [*brokers(1, 2, 3), TopicRecord(name="t", topic_id=UUID(int=1)), record],
    )
    to = image.brokers[replicas[0]]
    view = broker_image()
    for request in requests.MetadataUpdate(SENDER, image, keys(image)).requests(to):
        view = taken(view, list(broker_view.update_metadata(view, over_the_wire(request))))
    roles = broker_image()
    for request in requests.leader_and_isr(SENDER, image, to, keys(image)):
        roles = taken(roles, list(broker_view.leader_and_isr(roles, over_the_wire(request))))
    assert roles.partition("t", 3) == image.partition("t", 3)
    seen, sent = view.partition("t", 3), image.partition("t", 3)
    assert seen is not None
    assert sent is not None
    assert (seen.leader, seen.leader_epoch, seen.isr, seen.partition_epoch) == (
        sent.leader,
        sent.leader_epoch,
        sent.isr,
        sent.partition_epoch,
    )
