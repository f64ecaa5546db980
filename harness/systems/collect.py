"""Reads the directories of stopped brokers into a run's tables."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from checkers.history.history import METADATA_TOPIC
from harness.plans.plan import Topic
from harness.recording.history import FLUSH_ROWS
from harness.recording.store import Run
from harness.systems import replica_files
from harness.systems.base import FOREVER_NS
from harness.systems.monitoring.quorum_times import QuorumTimes
from harness.systems.monitoring.watcher import Rows
from nodes.ids import TopicPartition


def collect_replicas(
    run: Run,
    topics: Sequence[Topic],
    log_dirs: Mapping[int, Path],
    *,
    metadata_kept: Mapping[int, int] | None = None,
) -> None:
    """Write every replica's batches and ends into the run, those of the metadata log too.

    `log_dirs` and `metadata_kept` are by node. `metadata_kept` says up to which offset each node
    was known to have the committed metadata log, because no node writes that down.
    """
    kept = metadata_kept or {}
    metadata = TopicPartition(METADATA_TOPIC, 0)
    partitions = [
        metadata,
        *(TopicPartition(t.name, partition) for t in topics for partition in range(t.partitions)),
    ]
    ends = []
    replicas = run.replicas_stream()
    for node, log_dir in log_dirs.items():
        committed = {**replica_files.high_watermarks(log_dir), metadata: kept.get(node, 0)}
        for partition in partitions:
            if not (log_dir / str(partition)).is_dir():
                continue
            end = start = replica_files.first_offset(log_dir, partition)
            for row in replica_files.replica_rows(node, log_dir, partition):
                replicas.append(row)
                end = row[4] + 1
                if len(replicas) >= FLUSH_ROWS:
                    replicas.flush()
            ends.append(
                {
                    "node": node,
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "start_offset": start,
                    "end_offset": end,
                    "high_watermark": committed.get(partition, 0),
                }
            )
    replicas.close()
    run.write_table("replica_ends", ends)


def collect_decisions(
    cluster: Rows,
    log_dirs: Mapping[int, Path],
    quorum_times: QuorumTimes,
    *,
    started_wall_ns: int,
    until_ns: int = FOREVER_NS,
) -> None:
    """Write the controllers' decisions up to `until_ns` into `cluster`.

    The run began at `started_wall_ns`.
    """
    dirs = list(log_dirs.values())
    changes = replica_files.metadata_rows(dirs, started_wall_ns, quorum_times)
    for number, change in enumerate(changes, 1):
        if change["at_ns"] <= until_ns:
            cluster.append_named(**change)
        if number % FLUSH_ROWS == 0:
            cluster.flush()
    cluster.flush()
