"""How shared properties become Kafka's own configuration."""

import base64
import uuid
from pathlib import Path

import pytest

from harness.brokers.kafka.properties import (
    check_overrides,
    kafka_format,
    kafka_properties,
    kafka_uuid,
    with_small_segments,
)
from harness.plans.plan import PlanError
from harness.systems.brokers import server_properties
from harness.systems.node_roles import BROKER, COMBINED, Layout
from tests.harness.systems.test_brokers import ADDRESSES


def wanted(node: int = 2, **more: object) -> dict[str, str]:
    """The properties that all broker programs share."""
    overrides = {
        "replica.lag.time.max.ms": 1234,
        "eligible.leader.replicas.version": 0,
        "transaction.version": 1,
    }
    given: dict[str, object] = {"overrides": overrides, **more}
    return server_properties(node, ADDRESSES, log_dir=Path("/d"), cluster_id="c", **given)  # type: ignore[arg-type]


def test_shared_properties_stay_and_those_of_the_built_in_broker_are_removed() -> None:
    """Kafka gets the shared ones with the same names and values."""
    made = kafka_properties(wanted())
    assert made["node.id"] == "2"
    assert made["process.roles"] == "broker,controller"
    assert made["broker.session.timeout.ms"] == "2000"
    assert made["replica.lag.time.max.ms"] == "1234"
    assert not made.keys() & {
        "cluster.id",
        "controlled.shutdown.max.wait.ms",
        "eligible.leader.replicas.version",
        "transaction.version",
    }


def test_voters_become_bootstrap_servers_of_the_quorum() -> None:
    """The voters themselves stand in the metadata log, so that they can change (KIP-853)."""
    made = kafka_properties(wanted())
    assert "controller.quorum.voters" not in made
    assert made["controller.quorum.bootstrap.servers"] == ",".join(
        f"{host}:9093" for host in ADDRESSES.values()
    )


def test_broker_beside_zookeeper_has_no_part_in_a_quorum() -> None:
    """Kafka 3.9 refuses a broker with both. Its session is that of the plan, and its start waits
    longer than that for ZooKeeper."""
    layout = Layout.beside_zookeeper(brokers=3, zookeepers=3)
    more = {"broker.session.timeout.ms": "3000"}
    given = wanted(2, layout=layout, zookeeper="10.0.0.101:2181", overrides=more)
    made = kafka_properties(given)
    assert made["zookeeper.connect"] == "10.0.0.101:2181"
    assert made["zookeeper.session.timeout.ms"] == "3000"
    assert made["zookeeper.connection.timeout.ms"] == "60000"
    assert made["listeners"] == f"PLAINTEXT://{ADDRESSES[2]}:9092"
    assert not made.keys() & {
        "process.roles", "controller.listener.names", "controller.quorum.voters",
        "controller.quorum.bootstrap.servers", "broker.session.timeout.ms",
    }  # fmt: skip


@pytest.mark.parametrize(("voters", "replicas"), [(1, "1"), (3, "3")])
def test_internal_topics_fit_the_cluster(voters: int, replicas: str) -> None:
    """A single node cannot hold three replicas."""
    layout = Layout.combined(range(1, voters + 1))
    made = kafka_properties(wanted(1, layout=layout))
    assert made["offsets.topic.replication.factor"] == replicas


def test_every_first_voter_is_formatted_alike() -> None:
    """They need the same voters, features and cluster id to form a quorum."""
    formats = [kafka_format(wanted(node)) for node in (1, 2, 3)]
    assert formats[0] == formats[1] == formats[2]
    arguments = formats[0].arguments(first=True)
    assert f"--cluster-id={kafka_uuid('c')}" in arguments
    assert "eligible.leader.replicas.version=0" in arguments
    assert "transaction.version=1" in arguments
    assert "group.version=1" in arguments
    voters = arguments[arguments.index("--initial-controllers") + 1].split(",")
    assert [each.rsplit(":", 1)[0] for each in voters] == [
        f"{node}@{host}:9093" for node, host in ADDRESSES.items()
    ]
    assert len({each.rsplit(":", 1)[1] for each in voters}) == 3


def test_node_that_is_no_first_voter_is_formatted_without_voters() -> None:
    """This holds for a mere broker, a controller that joins, and a voter that lost its disk."""
    broker = Layout(roles={1: COMBINED, 2: BROKER, 3: COMBINED})
    joins = kafka_format(wanted(2, joins=(1, 3)))
    for format, first in (
        (kafka_format(wanted(2, layout=broker)), True),
        (joins, True),
        (kafka_format(wanted()), False),
    ):
        arguments = format.arguments(first=first)
        assert "--no-initial-controllers" in arguments
        assert "--initial-controllers" not in arguments


def test_a_uuid_is_written_as_kafka_does() -> None:
    """It is 16 bytes in base64url without padding, and the same for the same name."""
    made = kafka_uuid("run/1")
    assert len(made) == 22
    assert len(base64.urlsafe_b64decode(made + "==")) == len(uuid.uuid4().bytes)
    assert made == kafka_uuid("run/1") != kafka_uuid("run/2")


def test_a_property_of_the_built_in_broker_is_refused() -> None:
    """Kafka would ignore it, and the run would not do what its plan says."""
    check_overrides({"log.retention.ms": 5}, "plan p")
    with pytest.raises(PlanError, match=r"plan p: broker.highwater.placement: only the built-in"):
        check_overrides({"highwater.placement": "striped"}, "plan p")


def test_small_segments_have_another_name() -> None:
    """Kafka 4 refuses `segment.bytes` below a megabyte, and takes any other value as it is."""
    compact = {"cleanup.policy": "compact"}
    assert with_small_segments(compact) == compact
    whole = {**compact, "segment.bytes": "1048576"}
    assert with_small_segments(whole) == whole
    small = {**compact, "segment.bytes": "40000"}
    assert with_small_segments(small) == {**compact, "internal.segment.bytes": "40000"}
