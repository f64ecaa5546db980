"""The content of znodes: Kafka's documented JSON, and round trips."""

import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.ids import Epoch, NodeId, TopicPartition
from nodes.metadata.records import BrokerEndpoint
from nodes.zookeeper import znodes
from nodes.zookeeper.znodes import Assignment, BrokerZnode, StateZnode, TopicZnode, ZnodeError

NODES = st.lists(st.integers(0, 9).map(NodeId), max_size=4, unique=True).map(tuple)


def nodes(*numbers: int) -> tuple[NodeId, ...]:
    return tuple(NodeId(number) for number in numbers)


def test_state_is_the_json_of_kafka() -> None:
    """As ZkData.scala documents it."""
    state = StateZnode(leader=NodeId(1), leader_epoch=Epoch(2), isr=nodes(1, 3), controller_epoch=4)
    assert json.loads(znodes.state(state)) == {
        "version": 1,
        "leader": 1,
        "leader_epoch": 2,
        "isr": [1, 3],
        "controller_epoch": 4,
    }
    from_kafka = b'{"controller_epoch":4,"leader":1,"version":1,"leader_epoch":2,"isr":[1,3],"x":0}'
    assert znodes.read_state(from_kafka) == state


def test_topic_is_the_json_of_kafka() -> None:
    """Version 3; the id is Kafka's base64, with - and _ and without padding."""
    topic_id = UUID("fbffbffb-feff-4fff-bfff-fffbffeffbff")
    topic = TopicZnode(
        topic_id=topic_id,
        partitions={
            0: Assignment(replicas=nodes(1, 2)),
            1: Assignment(replicas=nodes(2, 3, 1), adding=nodes(3), removing=nodes(1)),
        },
    )
    assert json.loads(znodes.topic(topic)) == {
        "version": 3,
        "topic_id": "-_-_-_7_T_-____7_-_7_w",
        "partitions": {"0": [1, 2], "1": [2, 3, 1]},
        "adding_replicas": {"1": [3]},
        "removing_replicas": {"1": [1]},
    }
    assert znodes.read_topic(znodes.topic(topic)) == topic


def test_broker_is_the_json_of_kafka() -> None:
    """Version 4 is written; version 5, with features, is read, too."""
    plain = BrokerEndpoint(name="PLAINTEXT", host="host1", port=9092, security_protocol=0)
    tls = BrokerEndpoint(name="OUTSIDE", host="::1", port=9093, security_protocol=1)
    written = json.loads(znodes.broker(BrokerZnode(endpoints=(plain,), rack="dc1"), 2233345666))
    assert written == {
        "version": 4,
        "host": "host1",
        "port": 9092,
        "jmx_port": -1,
        "timestamp": "2233345666",
        "endpoints": ["PLAINTEXT://host1:9092"],
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "rack": "dc1",
    }
    from_kafka = {
        **written,
        "version": 5,
        "endpoints": ["PLAINTEXT://host1:9092", "OUTSIDE://[::1]:9093"],
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT", "OUTSIDE": "SSL"},
        "features": {"feature": {"min_version": 1, "max_version": 3}},
    }
    found = znodes.read_broker(json.dumps(from_kafka).encode())
    assert found == BrokerZnode(endpoints=(plain, tls), rack="dc1")


def test_small_znodes_are_those_of_kafka() -> None:
    """The controller and its epoch, the cluster, notices, configurations, producer ids."""
    assert json.loads(znodes.controller(NodeId(3), 12)) == {
        "version": 1,
        "brokerid": 3,
        "timestamp": "12",
    }
    assert znodes.controller_epoch(7) == b"7"
    assert json.loads(znodes.cluster_id("abc")) == {"version": "1", "id": "abc"}
    changed = [TopicPartition("t", 0), TopicPartition("u", 4)]
    assert json.loads(znodes.isr_changes(changed)) == {
        "version": 1,
        "partitions": [{"topic": "t", "partition": 0}, {"topic": "u", "partition": 4}],
    }
    assert znodes.read_isr_changes(znodes.isr_changes(changed)) == changed
    assert json.loads(znodes.config({"a": "b"})) == {"version": 1, "config": {"a": "b"}}
    assert znodes.read_config(b"") == {}
    assert json.loads(znodes.config_change("topics/t")) == {
        "version": 2,
        "entity_path": "topics/t",
    }
    block = range(1000, 2000)
    assert json.loads(znodes.producer_ids(NodeId(1), block)) == {
        "version": 1,
        "broker": 1,
        "block_start": "1000",
        "block_end": "1999",
    }
    assert znodes.read_producer_ids(znodes.producer_ids(NodeId(1), block)) == block
    old_tool = b'{"version":1,"partitions":[{"topic":"t","partition":1,"replicas":[3,2]}]}'
    assert znodes.read_reassignments(old_tool) == {TopicPartition("t", 1): nodes(3, 2)}


@given(
    topic_id=st.uuids(),
    rows=st.dictionaries(
        st.integers(0, 99), st.builds(Assignment, replicas=NODES, adding=NODES, removing=NODES)
    ),
)
def test_topic_is_read_as_it_was_written(topic_id: UUID, rows: dict[int, Assignment]) -> None:
    topic = TopicZnode(topic_id=topic_id, partitions=rows)
    assert znodes.read_topic(znodes.topic(topic)) == topic


@pytest.mark.parametrize(
    "data",
    [b"", b"null", b"[]", b"7", b'{"leader":1}', b'{"leader":"x","leader_epoch":0}', b"\xff"],
)
def test_other_content_is_an_error_of_its_own(data: bytes) -> None:
    """Whoever reads a foreign znode gets one error, and no crash."""
    for read in (
        znodes.read_state,
        znodes.read_topic,
        znodes.read_broker,
        znodes.read_controller,
        znodes.read_cluster_id,
        znodes.read_isr_changes,
        znodes.read_reassignments,
        znodes.read_config_change,
        znodes.read_producer_ids,
    ):
        with pytest.raises(ZnodeError, match="has other content"):
            read(data)
    if data != b"7":
        with pytest.raises(ZnodeError):
            znodes.read_controller_epoch(data)
