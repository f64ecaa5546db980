"""Lines in the format of Kafka's own tools."""

import json
from uuid import UUID

from harness.admin import tool_text
from harness.admin.descriptions import (
    Config,
    LogDir,
    Partition,
    Producer,
    QuorumDescription,
    QuorumReplica,
    Reassignment,
    ReplicaSize,
    Topic,
)
from nodes.ids import TopicPartition

ID = UUID("0fb0d4ba-c763-4cfa-939d-f89f8232a319")
P0 = Partition(
    name=TopicPartition("A", 0), leader=2, replicas=(2, 3), isr=(2, 3), elr=(), last_known_elr=()
)
MOVING = Reassignment(replicas=(4, 2, 3), adding=(4,), removing=(3,))


def test_topic_and_its_partitions_are_printed_as_by_kafka_topics() -> None:
    """Among the configs are only those that are no default."""
    topic = Topic(name="A", topic_id=ID, internal=False, partitions=(P0,))
    configs = [
        Config(name="retention.ms", value="604800000", source="DEFAULT_CONFIG"),
        Config(name="segment.bytes", value="1073741824", source="STATIC_BROKER_CONFIG"),
    ]
    assert tool_text.topic_line(topic, configs, None) == (
        "Topic: A\tTopicId: D7DUusdjTPqTnfifgjKjGQ\tPartitionCount: 1\tReplicationFactor: 2\t"
        "Configs: segment.bytes=1073741824"
    )
    assert tool_text.partition_line(P0, None) == (
        "\tTopic: A\tPartition: 0\tLeader: 2\tReplicas: 2,3\tIsr: 2,3\tElr: \tLastKnownElr: "
    )


def test_missing_leader_is_none_and_unknown_elr_is_not_available() -> None:
    dead = Partition(name=TopicPartition("A", 1), leader=None, replicas=(3,), isr=())
    assert tool_text.partition_line(dead, None) == (
        "\tTopic: A\tPartition: 1\tLeader: none\tReplicas: 3\tIsr: \tElr: N/A\tLastKnownElr: N/A"
    )


def test_moving_partition_shows_added_and_removed_replicas() -> None:
    """Its replication factor is that after the move."""
    now = Partition(
        name=P0.name, leader=2, replicas=(4, 2, 3), isr=(2, 3), elr=(), last_known_elr=(3,)
    )
    assert tool_text.partition_line(now, MOVING) == (
        "\tTopic: A\tPartition: 0\tLeader: 2\tReplicas: 4,2,3\tIsr: 2,3\tAdding Replicas: 4\t"
        "Removing Replicas: 3\tElr: \tLastKnownElr: 3"
    )
    assert tool_text.replication_factor(now, MOVING) == 2
    assert tool_text.replication_factor(P0, None) == 2
    assert MOVING.target == (4, 2)


def test_reassignments_are_printed_as_by_kafka_reassign_partitions() -> None:
    """--list and --verify."""
    assert list(tool_text.ongoing_lines({})) == ["No partition reassignments found."]
    only_added = Reassignment(replicas=(1, 2), adding=(2,), removing=())
    lines = list(tool_text.ongoing_lines({P0.name: MOVING, TopicPartition("B", 1): only_added}))
    assert lines == [
        "Current partition reassignments:",
        "A-0: replicas: 4,2,3. adding: 4. removing: 3.",
        "B-1: replicas: 1,2. adding: 2.",
    ]
    assert tool_text.verified_line(P0.name, [1], [1], True) == (
        "Reassignment of partition A-0 is still in progress."
    )
    assert tool_text.verified_line(P0.name, [1, 2], [1, 2], False) == (
        "Reassignment of partition A-0 is completed."
    )
    assert tool_text.verified_line(P0.name, [2, 1], [1, 2], False) == (
        "There is no active reassignment of partition A-0, but replica set is 1,2 rather than 2,1."
    )


def test_setting_is_printed_as_by_kafka_configs() -> None:
    """With Java's null, true and false."""
    entry = Config(
        name="min.insync.replicas",
        value="2",
        source="DYNAMIC_TOPIC_CONFIG",
        synonyms=(
            ("DYNAMIC_TOPIC_CONFIG", "min.insync.replicas", "2"),
            ("DEFAULT_CONFIG", "min.insync.replicas", None),
        ),
    )
    assert tool_text.config_line(entry) == (
        "  min.insync.replicas=2 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:"
        "min.insync.replicas=2, DEFAULT_CONFIG:min.insync.replicas=null}"
    )


def member(node: int, end: int, caught_up_ms: int, *endpoints: str) -> QuorumReplica:
    """Return a member of the quorum."""
    return QuorumReplica(
        node_id=node,
        directory_id=ID if node == 1 else None,
        log_end_offset=end,
        last_fetch_ms=caught_up_ms,
        last_caught_up_ms=caught_up_ms,
        endpoints=endpoints,
    )


QUORUM = QuorumDescription(
    leader=1,
    epoch=5,
    high_watermark=90,
    voters=(member(1, 100, 2000, "CONTROLLER://h:9093"), member(2, 90, 1900)),
    observers=(member(4, 80, -1),),
)


def test_quorum_status_is_printed_as_by_kafka_metadata_quorum() -> None:
    assert list(tool_text.quorum_lines("c", QUORUM)) == [
        "ClusterId:              c",
        "LeaderId:               1",
        "LeaderEpoch:            5",
        "HighWatermark:          90",
        "MaxFollowerLag:         10",
        "MaxFollowerLagTimeMs:   100",
        'CurrentVoters:          [{"id": 1, "directoryId": "D7DUusdjTPqTnfifgjKjGQ", '
        '"endpoints": ["CONTROLLER://h:9093"]}, {"id": 2, "directoryId": null}]',
        'CurrentObservers:       [{"id": 4, "directoryId": null}]',
    ]


def test_quorum_replication_is_a_table_with_the_leader_first() -> None:
    """Columns are padded, with a tab after each."""
    lines = list(tool_text.table(tool_text.replication_rows(QUORUM, now_ms=2500)))
    assert lines[0].split() == [
        *("NodeId", "DirectoryId", "LogEndOffset", "Lag"),
        *("LastFetchTimestamp", "LastCaughtUpTimestamp", "Status"),
    ]
    cells = [[cell.strip() for cell in line.split("\t")] for line in lines[1:]]
    assert cells[0][:4] == ["1", "D7DUusdjTPqTnfifgjKjGQ", "100", "0"]
    assert cells[0][4:] == ["500 ms ago", "500 ms ago", "Leader", ""]
    assert cells[1][2:4] == ["90", "10"]
    assert cells[2][1:] == ["A" * 22, "80", "20", "-1", "-1", "Observer", ""]
    assert len({len(line.expandtabs(40)) for line in lines}) == 1


def test_log_directories_are_printed_as_by_kafka_log_dirs() -> None:
    """For all topics, or the named ones."""
    replicas = {
        TopicPartition("a", 0): ReplicaSize(size_bytes=7, offset_lag=1, future=False),
        TopicPartition("b", 0): ReplicaSize(size_bytes=9, offset_lag=0, future=True),
    }
    found = {2: [LogDir(path="/d", error=None, replicas=replicas)]}
    everything = json.loads(tool_text.log_dirs_json(found))
    assert everything["version"] == 1
    (broker,) = everything["brokers"]
    assert broker["broker"] == 2
    assert broker["logDirs"][0]["partitions"][0] == {
        "partition": "a-0",
        "size": 7,
        "offsetLag": 1,
        "isFuture": False,
    }
    (named,) = json.loads(tool_text.log_dirs_json(found, ["b"]))["brokers"]
    assert [each["partition"] for each in named["logDirs"][0]["partitions"]] == ["b-0"]


def test_producers_are_printed_as_by_kafka_transactions() -> None:
    """None stands for no open transaction."""
    known = Producer(
        producer_id=1000,
        epoch=2,
        last_sequence=41,
        last_timestamp_ms=5,
        coordinator_epoch=-1,
        transaction_start=None,
    )
    _, row = tool_text.producer_rows([known])
    assert row == ["1000", "2", "-1", "41", "5", "None"]
