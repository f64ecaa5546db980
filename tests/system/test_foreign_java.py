"""Kafka's own clients on a cluster of ours: every method of AdminClient, by way of the brokers and
of the controllers, and what its consumers and producer do about groups and transactions.

Three nodes run in a thread of this process, on loopback ports and disks in memory. No call may try
again more than ten times, or end by its timeout: what is not served is refused at once.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import confluent_kafka
import pytest

from tests.support.clusters.loopback_cluster import serving
from tests.support.foreign import java
from tests.support.foreign.java import Swept
from tests.support.nodes.cluster import UNHURRIED, Cluster
from tests.support.require import require

pytestmark = pytest.mark.slow

TOPIC: Final = "swept0"
MOST_RETRIES: Final = 10
UNSUPPORTED: Final = "UnsupportedVersionException"
NOT_BY_CONTROLLERS: Final = "UnsupportedEndpointTypeException"
"""Kafka's own client refuses to ask controllers for what only brokers serve."""

SERVED: Final = frozenset(
    {
        "createTopics",
        "listTopics",
        "describeTopics",
        "createPartitions",
        "deleteTopics",
        "electLeaders",
        "alterPartitionReassignments",
        "listPartitionReassignments",
        "incrementalAlterConfigs",
        "describeConfigs",
        "listConfigResources",
        "listClientMetricsResources",
        "describeCluster",
        "describeFeatures",
        "updateFeatures",
        "describeMetadataQuorum",
        "listOffsets",
        "deleteRecords",
        "describeProducers",
        "describeLogDirs",
        "describeReplicaLogDirs",
        "listGroups",
        "listConsumerGroups",
        "listConsumerGroupOffsets",
        "alterConsumerGroupOffsets",
        "deleteConsumerGroupOffsets",
        "listStreamsGroupOffsets",
        "alterStreamsGroupOffsets",
        "deleteStreamsGroupOffsets",
        "listTransactions",
        "abortTransaction",
        "forceTerminateTransaction",
        "fenceProducers",
        "clientInstanceId",
        "metrics",
        "registerMetricForSubscription",
        "unregisterMetricFromSubscription",
        "close",
        "create",
    }
)
REFUSED: Final = {
    "addRaftVoter": "DuplicateVoterException",
    "removeRaftVoter": "VoterNotFoundException",
    "unregisterBroker": "BrokerIdNotRegisteredException",
    "describeConsumerGroups": "GroupIdNotFoundException",
    "describeClassicGroups": "GroupIdNotFoundException",
    "removeMembersFromConsumerGroup": "UnknownMemberIdException",
    "describeTransactions": "TransactionalIdNotFoundException",
    "alterReplicaLogDirs": "LogDirNotFoundException",
    "deleteConsumerGroups": "GroupIdNotFoundException",
    "deleteShareGroups": "GroupIdNotFoundException",
    "deleteStreamsGroups": "GroupIdNotFoundException",
}
"""What is served, and asked for something that is not there. All the rest is UNSUPPORTED."""

SERVED_BY_CONTROLLERS: Final = frozenset(
    {
        "listPartitionReassignments",
        "incrementalAlterConfigs",
        "describeConfigs",
        "describeCluster",
        "describeFeatures",
        "updateFeatures",
        "describeMetadataQuorum",
        "clientInstanceId",
        "metrics",
        "registerMetricForSubscription",
        "unregisterMetricFromSubscription",
        "close",
        "create",
    }
)
REFUSED_BY_CONTROLLERS: Final = {
    "addRaftVoter": "DuplicateVoterException",
    "removeRaftVoter": "VoterNotFoundException",
    "unregisterBroker": "BrokerIdNotRegisteredException",
    "alterPartitionReassignments": "UnknownTopicOrPartitionException",
    "createAcls": UNSUPPORTED,
    "describeAcls": UNSUPPORTED,
    "deleteAcls": UNSUPPORTED,
    "listGroups": "KafkaException",
    "listConsumerGroups": "KafkaException",
}
FEATURES: Final = (
    "[eligible.leader.replicas.version, group.version, kraft.version, metadata.version, "
    "transaction.version]"
)


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled programs."""
    require("kafka", "javac")
    folder = tmp_path_factory.mktemp("classes")
    for program in ("AdminSweep", "Clients"):
        java.compiled(program, folder)
    return folder


@pytest.fixture(scope="module")
def cluster(classes: Path) -> Iterator[Cluster]:
    """Three nodes, and one topic in which there is a record."""
    nodes = Cluster(3, **UNHURRIED)
    with serving(nodes, **{TOPIC: 1}) as addresses:
        producer = confluent_kafka.Producer({"bootstrap.servers": addresses})
        producer.produce(TOPIC, b"hello")
        assert producer.flush(60) == 0
        yield nodes


def addresses(ports: dict[int, int]) -> str:
    """Of all nodes."""
    return ",".join(f"127.0.0.1:{port}" for port in ports.values())


def sweep(classes: Path, bootstrap: str, ports: dict[int, int]) -> dict[str, Swept]:
    """Every method by way of these ports; none of them may insist."""
    done = java.run("AdminSweep", (bootstrap, addresses(ports), TOPIC), classes=classes)
    assert done.returncode == 0, done.stderr
    found = java.swept(done.stdout)
    assert len(found) > 60
    insistent = {
        each.method: (each.outcome, each.sent)
        for each in found.values()
        if each.retries > MOST_RETRIES or each.error in ("TimeoutException", "Waits")
    }
    assert not insistent
    return found


def test_every_method_of_admin_client(cluster: Cluster, classes: Path) -> None:
    """Each does what it is for, or is refused at once with an error that says why."""
    found = sweep(classes, "bootstrap.servers", cluster.ports)
    expected = dict.fromkeys(found, UNSUPPORTED) | dict.fromkeys(SERVED, "ok") | REFUSED
    assert {each.method: each.error for each in found.values()} == expected
    assert "DESCRIBE_CONFIGS" in found["describeTopics"].seen["operations"]
    assert found["describeCluster"].seen["nodes"] == "3"
    assert "CLUSTER_ACTION" in found["describeCluster"].seen["operations"]
    features = {"supported": FEATURES, "finalized": FEATURES, "epoch": "positive"}
    assert found["describeFeatures"].seen == features
    quorum = {"voters": "3", "lastFetch": "true", "lastCaughtUp": "true"}
    assert found["describeMetadataQuorum"].seen == quorum
    assert found["describeLogDirs"].seen == {"bytes": "true"}


def test_every_method_by_way_of_the_controllers(cluster: Cluster, classes: Path) -> None:
    """The same with bootstrap.controllers (KIP-919)."""
    found = sweep(classes, "bootstrap.controllers", cluster.controller_ports)
    expected = (
        dict.fromkeys(found, NOT_BY_CONTROLLERS)
        | dict.fromkeys(SERVED_BY_CONTROLLERS, "ok")
        | REFUSED_BY_CONTROLLERS
    )
    assert {each.method: each.error for each in found.values()} == expected
    assert found["describeCluster"].seen["nodes"] == "3"
    assert found["describeFeatures"].seen["finalized"] == FEATURES


def test_its_clients_use_groups_and_transactions(cluster: Cluster, classes: Path) -> None:
    """The old protocol of consumer groups and the new one; share groups end at once."""
    done = java.run("Clients", (addresses(cluster.ports), TOPIC), classes=classes)
    assert done.returncode == 0, done.stderr
    outcomes = dict(line.split("\t") for line in done.stdout.splitlines() if "\t" in line)
    errors = {what: outcome.partition(":")[0] for what, outcome in outcomes.items()}
    assert errors == {
        "assign classic": "hello",
        "assign consumer": "hello",
        "subscribe classic": "hello",
        "subscribe consumer": "hello",
        "commit classic": "committed",
        "commit consumer": "committed",
        "share": UNSUPPORTED,
        "transaction": "initialised",
    }
