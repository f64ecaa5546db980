"""The output of Kafka's administrative tools, line by line, and the same facts for --json. Pure.

The formats are those of kafka-topics, kafka-configs, kafka-reassign-partitions,
kafka-leader-election, kafka-metadata-quorum, kafka-log-dirs and kafka-transactions of Kafka 3.9,
because scripts parse them.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from harness.admin.descriptions import (
    Config,
    LogDir,
    Partition,
    Producer,
    QuorumDescription,
    QuorumReplica,
    Reassignment,
    Topic,
    id_text,
)
from harness.admin.tool_files import write_reassignment
from nodes.ids import TopicPartition


def listed(items: Iterable[object]) -> str:
    """Return the items joined by commas, without blanks."""
    return ",".join(map(str, items))


def replication_factor(partition: Partition, ongoing: Reassignment | None) -> int:
    """Return the number of a partition's replicas; while it moves, the number after the move."""
    changing = set[int]() if ongoing is None else {*ongoing.adding, *ongoing.removing}
    if ongoing is not None and changing & set(partition.replicas):
        return len(ongoing.replicas) - len(ongoing.adding)
    return len(partition.replicas)


def topic_line(topic: Topic, configs: Sequence[Config], first: Reassignment | None) -> str:
    """Return the line of a topic; `first` is the reassignment of its first partition, if any."""
    overridden = listed(f"{c.name}={c.value}" for c in configs if not c.is_default)
    fields = [f"Topic: {topic.name}"]
    if topic.topic_id is not None:
        fields.append(f"TopicId: {id_text(topic.topic_id)}")
    fields += [
        f"PartitionCount: {len(topic.partitions)}",
        f"ReplicationFactor: {replication_factor(topic.partitions[0], first)}",
        f"Configs: {overridden}",
    ]
    return "\t".join(fields)


def partition_line(partition: Partition, ongoing: Reassignment | None) -> str:
    """Return the line of a partition, indented below the line of its topic."""
    fields = [
        f"\tTopic: {partition.name.topic}",
        f"Partition: {partition.name.partition}",
        f"Leader: {'none' if partition.leader is None else partition.leader}",
        f"Replicas: {listed(partition.replicas)}",
        f"Isr: {listed(partition.isr)}",
    ]
    if ongoing is not None:
        fields += [
            f"Adding Replicas: {listed(ongoing.adding)}",
            f"Removing Replicas: {listed(ongoing.removing)}",
        ]
    for name, nodes in (("Elr", partition.elr), ("LastKnownElr", partition.last_known_elr)):
        fields.append(f"{name}: {'N/A' if nodes is None else listed(nodes)}")
    return "\t".join(fields)


def partition_data(partition: Partition, ongoing: Reassignment | None) -> dict[str, Any]:
    """Return a partition for --json."""
    return {
        "partition": partition.name.partition,
        "leader": partition.leader,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "adding_replicas": list(ongoing.adding) if ongoing else [],
        "removing_replicas": list(ongoing.removing) if ongoing else [],
        "elr": None if partition.elr is None else list(partition.elr),
        "last_known_elr": (
            None if partition.last_known_elr is None else list(partition.last_known_elr)
        ),
    }


def config_line(config: Config) -> str:
    """Return the line of one setting, indented below the line of its resource."""
    synonyms = ", ".join(f"{source}:{name}={_java(v)}" for source, name, v in config.synonyms)
    return (
        f"  {config.name}={_java(config.value)} sensitive={_java(config.sensitive)} "
        f"synonyms={{{synonyms}}}"
    )


def config_data(config: Config) -> dict[str, Any]:
    """Return a setting for --json."""
    return {
        "name": config.name,
        "value": config.value,
        "source": config.source,
        "sensitive": config.sensitive,
        "read_only": config.read_only,
        "synonyms": [
            {"source": source, "name": name, "value": value}
            for source, name, value in config.synonyms
        ],
    }


def _java(value: str | bool | None) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else value


def ongoing_lines(ongoing: Mapping[TopicPartition, Reassignment]) -> Iterator[str]:
    """Yield the lines of the reassignments in progress."""
    if not ongoing:
        yield "No partition reassignments found."
        return
    yield "Current partition reassignments:"
    for name, each in ongoing.items():
        adding = f" adding: {listed(each.adding)}." if each.adding else ""
        removing = f" removing: {listed(each.removing)}." if each.removing else ""
        yield f"{name}: replicas: {listed(each.replicas)}.{adding}{removing}"


def ongoing_data(ongoing: Mapping[TopicPartition, Reassignment]) -> list[dict[str, Any]]:
    """Return the reassignments in progress, for --json."""
    return [
        {
            "topic": name.topic,
            "partition": name.partition,
            "replicas": list(each.replicas),
            "adding_replicas": list(each.adding),
            "removing_replicas": list(each.removing),
        }
        for name, each in ongoing.items()
    ]


def rollback_lines(current: Mapping[TopicPartition, Sequence[int]]) -> Iterator[str]:
    """Yield the lines that are printed before a reassignment starts: how to go back."""
    yield "Current partition replica assignment"
    yield ""
    yield write_reassignment(current)
    yield ""
    yield "Save this to use as the --reassignment-json-file option during rollback"


def verified_line(
    name: TopicPartition, wanted: Sequence[int], is_now: Sequence[int], is_moving: bool
) -> str:
    """Return the line with the progress of one partition's reassignment."""
    if is_moving:
        return f"Reassignment of partition {name} is still in progress."
    if tuple(wanted) == tuple(is_now):
        return f"Reassignment of partition {name} is completed."
    return (
        f"There is no active reassignment of partition {name}, but replica set is "
        f"{listed(is_now)} rather than {listed(wanted)}."
    )


def quorum_lines(cluster_id: str, quorum: QuorumDescription) -> Iterator[str]:
    """Yield the lines of kafka-metadata-quorum describe --status."""
    leader = _leader(quorum)
    last = min(quorum.voters, key=lambda each: each.log_end_offset)
    lag_ms = -1
    if leader is last:
        lag_ms = 0
    elif leader.last_caught_up_ms >= 0 and last.last_caught_up_ms >= 0:
        lag_ms = leader.last_caught_up_ms - last.last_caught_up_ms
    for name, value in (
        ("ClusterId", cluster_id),
        ("LeaderId", quorum.leader),
        ("LeaderEpoch", quorum.epoch),
        ("HighWatermark", quorum.high_watermark),
        ("MaxFollowerLag", leader.log_end_offset - last.log_end_offset),
        ("MaxFollowerLagTimeMs", lag_ms),
        ("CurrentVoters", _members(quorum.voters)),
        ("CurrentObservers", _members(quorum.observers)),
    ):
        yield f"{name + ':':<24}{value}"


def _leader(quorum: QuorumDescription) -> QuorumReplica:
    found = [each for each in quorum.voters if each.node_id == quorum.leader]
    # A leader that is no voter any more may still lead for a moment.
    return found[0] if found else max(quorum.voters, key=lambda each: each.log_end_offset)


def _members(replicas: Sequence[QuorumReplica]) -> str:
    members = []
    for each in replicas:
        directory = "null" if each.directory_id is None else f'"{id_text(each.directory_id)}"'
        text = f'{{"id": {each.node_id}, "directoryId": {directory}'
        if each.endpoints:
            text += f', "endpoints": {json.dumps(list(each.endpoints))}'
        members.append(text + "}")
    return f"[{', '.join(members)}]"


def replication_rows(quorum: QuorumDescription, now_ms: int | None = None) -> list[list[str]]:
    """Return the log position of the quorum's members: header and rows, leader first.

    With `now_ms` (since 1970) times are written as "n ms ago".
    """
    leader = _leader(quorum)

    def ago(at_ms: int) -> str:
        return str(at_ms) if now_ms is None or at_ms < 0 else f"{max(0, now_ms - at_ms)} ms ago"

    followers = [each for each in quorum.voters if each is not leader]
    rows = [(leader, "Leader")]
    rows += [(each, "Follower") for each in followers]
    rows += [(each, "Observer") for each in quorum.observers]
    header = "NodeId DirectoryId LogEndOffset Lag LastFetchTimestamp LastCaughtUpTimestamp Status"
    return [header.split()] + [
        [
            str(each.node_id),
            id_text(each.directory_id),
            str(each.log_end_offset),
            str(leader.log_end_offset - each.log_end_offset),
            ago(each.last_fetch_ms),
            ago(each.last_caught_up_ms),
            status,
        ]
        for each, status in rows
    ]


def quorum_data(cluster_id: str, quorum: QuorumDescription) -> dict[str, Any]:
    """Return the quorum for --json."""

    def member(each: QuorumReplica) -> dict[str, Any]:
        return {
            "id": each.node_id,
            "directory_id": None if each.directory_id is None else id_text(each.directory_id),
            "log_end_offset": each.log_end_offset,
            "last_fetch_ms": each.last_fetch_ms,
            "last_caught_up_ms": each.last_caught_up_ms,
            "endpoints": list(each.endpoints),
        }

    return {
        "cluster_id": cluster_id,
        "leader": quorum.leader,
        "epoch": quorum.epoch,
        "high_watermark": quorum.high_watermark,
        "voters": [member(each) for each in quorum.voters],
        "observers": [member(each) for each in quorum.observers],
    }


def log_dirs_json(found: Mapping[int, Sequence[LogDir]], topics: Sequence[str] = ()) -> str:
    """Return the line that kafka-log-dirs prints, for all topics or only these."""
    return json.dumps(
        {
            "version": 1,
            "brokers": [
                {
                    "broker": broker,
                    "logDirs": [
                        {
                            "logDir": each.path,
                            "error": each.error,
                            "partitions": [
                                {
                                    "partition": str(name),
                                    "size": replica.size_bytes,
                                    "offsetLag": replica.offset_lag,
                                    "isFuture": replica.future,
                                }
                                for name, replica in sorted(each.replicas.items())
                                if not topics or name.topic in topics
                            ],
                        }
                        for each in directories
                    ],
                }
                for broker, directories in sorted(found.items())
            ],
        },
        separators=(",", ":"),
    )


def producer_rows(producers: Sequence[Producer]) -> list[list[str]]:
    """Return the header and rows of kafka-transactions describe-producers."""
    header = (
        "ProducerId ProducerEpoch LatestCoordinatorEpoch LastSequence LastTimestamp "
        "CurrentTransactionStartOffset"
    )
    return [header.split()] + [
        [
            str(each.producer_id),
            str(each.epoch),
            str(each.coordinator_epoch),
            str(each.last_sequence),
            str(each.last_timestamp_ms),
            "None" if each.transaction_start is None else str(each.transaction_start),
        ]
        for each in producers
    ]


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows of equal length as lines of padded columns, with a tab after each column."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True))
