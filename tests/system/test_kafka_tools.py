"""Kafka's own shell tools on a cluster of ours, each as `bin/kafka-*.sh` starts it: it does its
work, or ends with an error that names what the cluster does not serve.

Three nodes run in a thread of this process, on loopback ports and disks in memory.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest

from tests.support.clusters.loopback_cluster import serving
from tests.support.foreign import Confluent, java
from tests.support.nodes.cluster import UNHURRIED, Cluster
from tests.support.require import require
from tests.support.tiers import in_turn

pytestmark = pytest.mark.slow

TOPIC: Final = "tooled"
MEASURED: Final = "measured"
BROKERS, CONTROLLERS = "--bootstrap-server", "--bootstrap-controller"


@dataclass(frozen=True, slots=True)
class Tool:
    """A call of a tool, and what it prints. A word that is a file's name stands for the file."""

    script: str
    main: str
    arguments: str
    prints: str
    by: str = BROKERS
    typed: str = ""


FILES: Final = {
    "delete.json": {"partitions": [{"topic": TOPIC, "partition": 0, "offset": 0}], "version": 1},
    "move.json": {
        "partitions": [{"topic": TOPIC, "partition": 0, "replicas": [3, 2, 1]}],
        "version": 1,
    },
}
TOOLS: Final = "org.apache.kafka.tools"
CONFIGS: Final = "kafka.admin.ConfigCommand"
GROUPS: Final = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
REASSIGN: Final = f"{TOOLS}.reassign.ReassignPartitionsCommand"

CALLS: Final = (
    Tool(
        "topics",
        f"{TOOLS}.TopicCommand",
        "--create --topic made --partitions 2 --replication-factor 3",
        "Created topic made.",
    ),
    Tool("topics", f"{TOOLS}.TopicCommand", f"--describe --topic {TOPIC}", "PartitionCount: 1"),
    Tool(
        "configs",
        CONFIGS,
        f"--alter --entity-type topics --entity-name {TOPIC} --add-config retention.ms=-1",
        f"Completed updating config for topic {TOPIC}.",
    ),
    Tool(
        "configs",
        CONFIGS,
        "--describe --all --entity-type brokers --entity-name 1",
        "node.id=1",
        CONTROLLERS,
    ),
    Tool("configs", CONFIGS, "--describe --entity-type users", "support DESCRIBE_CLIENT_QUOTAS"),
    Tool("metadata-quorum", f"{TOOLS}.MetadataQuorumCommand", "describe --replication", "Leader"),
    Tool(
        "metadata-quorum",
        f"{TOOLS}.MetadataQuorumCommand",
        "describe --status",
        "CurrentVoters",
        CONTROLLERS,
    ),
    Tool("log-dirs", f"{TOOLS}.LogDirsCommand", "--describe", f'"partition":"{TOPIC}-0"'),
    Tool("features", f"{TOOLS}.FeatureCommand", "describe", "FinalizedVersionLevel: 4.0-IV1"),
    Tool("features", f"{TOOLS}.FeatureCommand", "describe", "Feature: kraft.version", CONTROLLERS),
    Tool(
        "features",
        f"{TOOLS}.FeatureCommand",
        "downgrade --feature transaction.version=1",
        "transaction.version was downgraded to 1.",
    ),
    Tool(
        "broker-api-versions",
        f"{TOOLS}.BrokerApiVersionsCommand",
        "",
        "Fetch(1): 4 to 18 [usable: 18]",
    ),
    Tool("get-offsets", f"{TOOLS}.GetOffsetShell", f"--topic {TOPIC}", f"{TOPIC}:0:0"),
    Tool(
        "delete-records",
        f"{TOOLS}.DeleteRecordsCommand",
        "--offset-json-file delete.json",
        f"partition: {TOPIC}-0	low_watermark: 0",
    ),
    Tool(
        "reassign-partitions",
        REASSIGN,
        "--execute --reassignment-json-file move.json",
        "Successfully started partition reassignment",
    ),
    Tool("reassign-partitions", REASSIGN, "--list", "reassignments", CONTROLLERS),
    Tool(
        "leader-election",
        f"{TOOLS}.LeaderElectionCommand",
        "--election-type preferred --all-topic-partitions",
        "",
    ),
    Tool(
        "consumer-groups",
        GROUPS,
        f"--reset-offsets --group g --topic {TOPIC} --to-earliest --execute",
        TOPIC,
    ),
    Tool("consumer-groups", GROUPS, "--list", ""),
    Tool("groups", f"{TOOLS}.GroupsCommand", "--list", "PROTOCOL"),
    Tool("consumer-groups", GROUPS, "--describe --group unknown", "unknown not found"),
    Tool(
        "features",
        f"{TOOLS}.FeatureCommand",
        "upgrade --feature transaction.version=2",
        "transaction.version was upgraded to 2.",
    ),
    Tool("transactions", f"{TOOLS}.TransactionsCommand", "list", "TransactionalId"),
    Tool(
        "transactions",
        f"{TOOLS}.TransactionsCommand",
        "describe --transactional-id t",
        "the ID could not be found",
    ),
    Tool(
        "transactions",
        f"{TOOLS}.TransactionsCommand",
        f"find-hanging --topic {TOPIC}",
        "StartOffset",
    ),
    Tool(
        "transactions",
        f"{TOOLS}.TransactionsCommand",
        f"describe-producers --topic {TOPIC} --partition 0",
        "ProducerId",
    ),
    Tool("acls", f"{TOOLS}.AclCommand", "--list", "does not support DESCRIBE_ACLS"),
)

WRITERS: Final = (
    Tool("console-producer", f"{TOOLS}.ConsoleProducer", "", "", typed="0\n1\n2\n"),
    Tool("verifiable-producer", f"{TOOLS}.VerifiableProducer", "--max-messages 20", '"acked":20'),
    Tool(
        "e2e-latency",
        f"{TOOLS}.EndToEndLatency",
        "--num-records 20 --producer-acks all --record-size 2",
        "Percentiles: ",
    ),
)
"""Each writes to a topic with its own name."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three nodes with topics."""
    require("kafka-tools")
    nodes = Cluster(3, **UNHURRIED)
    with serving(nodes, **{TOPIC: 1, MEASURED: 1}, **{each.script: 1 for each in WRITERS}):
        yield nodes


def told(tool: Tool, cluster: Cluster, folder: Path) -> str:
    """What the tool prints, to either stream, until its end."""
    for name, content in FILES.items():
        (folder / name).write_text(json.dumps(content))
    words = [str(folder / word) if word in FILES else word for word in tool.arguments.split()]
    ports = cluster.ports if tool.by == BROKERS else cluster.controller_ports
    addresses = ",".join(f"127.0.0.1:{port}" for port in ports.values())
    done = java.run(tool.main, (tool.by, addresses, *words), typed=tool.typed)
    return str(done.stdout + done.stderr)


@pytest.mark.parametrize(
    "tool",
    in_turn("system/test_kafka_tools.py::test_a_tool_of_kafkas", CALLS, of=3),
    ids=lambda tool: f"{tool.script}{tool.by}-{tool.arguments}",
)
def test_a_tool_of_kafkas(tool: Tool, cluster: Cluster, tmp_path: Path) -> None:
    """What it is for, or what the cluster does not serve; never a wait that ends by a timeout."""
    printed = told(tool, cluster, tmp_path)
    assert tool.prints in printed, printed
    assert "TimeoutException" not in printed


@pytest.mark.parametrize(
    "tool",
    in_turn(
        "system/test_kafka_tools.py::test_what_a_tool_of_kafkas_writes_is_there", WRITERS, of=3
    ),
    ids=lambda tool: tool.script,
)
def test_what_a_tool_of_kafkas_writes_is_there(
    tool: Tool, cluster: Cluster, tmp_path: Path
) -> None:
    """In its order. The measurement of latencies compares what it reads with what it wrote."""
    words = replace(tool, arguments=f"--topic {tool.script} {tool.arguments}")
    assert tool.prints in (printed := told(words, cluster, tmp_path)), printed
    brokers = ",".join(f"127.0.0.1:{port}" for port in cluster.ports.values())
    count = 3 if tool.typed else 20
    written = [each.value for each in Confluent().consume(brokers, tool.script, count)]
    numbers = [str(number).encode() for number in range(count)]
    assert written == numbers or tool.script == "e2e-latency"


@pytest.mark.parametrize("by", [BROKERS, CONTROLLERS])
def test_the_clusters_identity(by: str, cluster: Cluster, tmp_path: Path) -> None:
    """Which the tool wants to be asked for before the address."""
    require("kafka-tools")
    ports = cluster.ports if by == BROKERS else cluster.controller_ports
    address = f"127.0.0.1:{ports[1]}"
    done = java.run(f"{TOOLS}.ClusterTool", ("cluster-id", by, address))
    assert "Cluster ID: " in done.stdout, done.stderr


def test_what_the_producers_measurement_writes_is_what_the_consumers_reads(
    cluster: Cluster, tmp_path: Path
) -> None:
    """In transactions; the consumer is the member of a group."""
    writes = Tool(
        "producer-perf-test",
        f"{TOOLS}.ProducerPerformance",
        f"--topic {MEASURED} --num-records 200 --record-size 10 --throughput 400"
        " --transactional-id perf --transaction-duration-ms 100",
        "200 records sent",
    )
    assert writes.prints in (printed := told(writes, cluster, tmp_path)), printed
    reads = Tool(
        "consumer-perf-test",
        f"{TOOLS}.ConsumerPerformance",
        f"--topic {MEASURED} --num-records 200 --timeout 60000 --group perf --hide-header",
        "",
    )
    row = told(reads, cluster, tmp_path).strip().split(", ")
    megabytes, records = row[2], row[4]
    assert (megabytes, records) == (f"{200 * 10 / 2**20:.4f}", "200"), row
