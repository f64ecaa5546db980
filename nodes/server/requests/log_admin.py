"""Requests about the logs: DescribeLogDirs, AlterReplicaLogDirs, DescribeProducers and
DeleteRecords, as in Kafka.

Every wait is bounded by the timeout of the request, or by a second.
"""

import asyncio
import logging
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.config import NodeConfig
from nodes.coordinators.internal_topics import INTERNAL_TOPICS
from nodes.ids import NO_OFFSET, Offset, TopicPartition
from nodes.log.errors import LogError, OffsetOutOfRange
from nodes.replication.partition import Role
from nodes.server.replicas.manager import ReplicaManager
from nodes.server.replicas.replica import Replica
from nodes.storage.disk import Disk
from nodes.wire.server import RequestContext
from nodes.wire.versions import respond

log = logging.getLogger("nodes.log_admin")

HIGH_WATERMARK = -1
POLL_S = 0.02
DISK_S = 1.0
"""The least time that this broker's own disk has for a DeleteRecords, whatever the client's timeout
is. With a timeout of 0, Kafka returns success if no follower has to be waited for."""


class LogAdminHandler:
    """See the module."""

    def __init__(self, config: NodeConfig, disk: Disk, replicas: ReplicaManager) -> None:
        self._config = config
        self._disk = disk
        self._replicas = replicas

    # -- DescribeLogDirs -----------------------------------------------------------------------

    def describe_log_dirs(self, request: Any, context: RequestContext) -> Any:
        """Describe the one log directory: its free space, and the size and lag of its replicas.

        The request names the replicas; null means all of them.
        """
        requested = request.topics
        replicas = (
            self._replicas.all()
            if requested is None
            else [
                replica
                for topic in requested
                for number in topic.partitions
                if (replica := self._replicas.find(TopicPartition(topic.topic, number)))
            ]
        )
        topics: dict[str, list[dict[str, Any]]] = {}
        for replica in replicas:
            topics.setdefault(replica.partition.topic, []).append(
                {
                    "partition_index": replica.partition.partition,
                    "partition_size": replica.log.size,
                    "offset_lag": _lag(replica),
                    "is_future_key": False,
                }
            )
        row = {"log_dir": self._config.log_dir}
        try:
            space = self._disk.space()
        except OSError as error:
            log.error("cannot read the free space of %s: %s", self._config.log_dir, error)
            return respond(request, results=[{**row, "error_code": ErrorCode.kafka_storage_error}])
        directory = {
            **row,
            "topics": [{"name": name, "partitions": rows} for name, rows in topics.items()],
            "total_bytes": space.total,
            "usable_bytes": space.usable,
        }
        return respond(request, results=[directory])

    # -- AlterReplicaLogDirs -------------------------------------------------------------------

    def alter_replica_log_dirs(self, request: Any, context: RequestContext) -> Any:
        """Move replicas to a log directory. There is only one, so no replica ever moves.

        The error of a partition is none if its replica is in the directory already,
        LOG_DIR_NOT_FOUND if the broker has no such directory, and REPLICA_NOT_AVAILABLE if only
        other brokers have the partition (KIP-113).
        """
        topics: dict[str, list[dict[str, Any]]] = {}
        for directory in request.dirs:
            for topic in directory.topics:
                for number in topic.partitions:
                    error = self._move_error(directory.path, TopicPartition(topic.name, number))
                    row = {"partition_index": number, "error_code": error}
                    topics.setdefault(topic.name, []).append(row)
        results = [{"topic_name": name, "partitions": rows} for name, rows in topics.items()]
        return respond(request, results=results)

    def _move_error(self, path: str, partition: TopicPartition) -> ErrorCode:
        if path != self._config.log_dir:
            return ErrorCode.log_dir_not_found
        if self._replicas.find(partition) is not None:
            return ErrorCode.none
        missing = self._replicas.missing_replica_error(partition)
        elsewhere = missing is ErrorCode.not_leader_or_follower
        return ErrorCode.replica_not_available if elsewhere else missing

    # -- DescribeProducers ---------------------------------------------------------------------

    def describe_producers(self, request: Any, context: RequestContext) -> Any:
        """Describe the producers and open transactions that each partition's leader knows
        (KIP-664).
        """
        topics = []
        for topic in request.topics:
            rows = [
                self._producers(TopicPartition(topic.name, number))
                for number in topic.partition_indexes
            ]
            topics.append({"name": topic.name, "partitions": rows})
        return respond(request, topics=topics)

    def _producers(self, partition: TopicPartition) -> dict[str, Any]:
        row: dict[str, Any] = {"partition_index": partition.partition}
        replica, error = self._led(partition)
        if replica is None:
            return {**row, "error_code": error}
        producers = [
            {
                "producer_id": producer_id,
                "producer_epoch": producer.epoch,
                "last_sequence": producer.batches[-1].last_sequence if producer.batches else -1,
                "last_timestamp": producer.last_timestamp,
                "coordinator_epoch": producer.coordinator_epoch,
                "current_txn_start_offset": producer.transaction_start,
            }
            for producer_id, producer in replica.log.producers.items()
        ]
        return {**row, "error_code": ErrorCode.none, "active_producers": producers}

    # -- DeleteRecords -------------------------------------------------------------------------

    def delete_records(self, request: Any, context: RequestContext) -> Any:
        """Raise log starts (KIP-107), and respond when the live replicas have followed.

        This leader's log starts are raised at once, so the connection's next request sees them.
        Before the response they are also on this broker's disk; otherwise a power loss would bring
        deleted records back. The result is the low watermark: the smallest log start of the leader
        and of the followers in service. If it is not reached in time, the error is
        REQUEST_TIMED_OUT, and it may be reached later. As in Kafka, internal topics are refused
        (INVALID_TOPIC_EXCEPTION), and topics whose cleanup.policy does not contain delete
        (POLICY_VIOLATION).
        """
        topics = []
        for topic in request.topics:
            rows = [
                self._delete(TopicPartition(topic.name, each.partition_index), Offset(each.offset))
                for each in topic.partitions
            ]
            topics.append((topic.name, rows))
        return self._deleted(request, topics)

    async def _deleted(
        self, request: Any, topics: "list[tuple[str, list[_RecordDeletion]]]"
    ) -> Any:
        """The response, after the disk and the followers have the new starts."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + request.timeout.total_seconds()
        deletions = [each for _, rows in topics for each in rows]
        failure = await self._checkpoint_starts(max(deadline_s, loop.time() + DISK_S))
        if failure is not ErrorCode.none:
            for each in deletions:
                each.fail(failure)
        while loop.time() < deadline_s:
            if not any(each.is_waiting(self._replicas) for each in deletions):
                break
            await asyncio.sleep(POLL_S)
        results = [
            {"name": name, "partitions": [each.row(self._replicas) for each in rows]}
            for name, rows in topics
        ]
        return respond(request, topics=results)

    async def _checkpoint_starts(self, deadline_s: float) -> ErrorCode:
        """Wait until all log starts are on disk; return the error if they are not."""
        try:
            async with asyncio.timeout_at(deadline_s):
                await self._replicas.logs.checkpoint_starts()
        except TimeoutError:
            return ErrorCode.request_timed_out
        except OSError as error:
            log.error("cannot write the log start checkpoint: %s", error)
            return ErrorCode.kafka_storage_error
        return ErrorCode.none

    def _delete(self, partition: TopicPartition, offset: Offset) -> "_RecordDeletion":
        if partition.topic in INTERNAL_TOPICS:
            return _RecordDeletion(partition, ErrorCode.invalid_topic_exception)
        replica, error = self._led(partition)
        if replica is None:
            return _RecordDeletion(partition, error)
        if not replica.log.config.deletes:
            return _RecordDeletion(partition, ErrorCode.policy_violation)
        committed = replica.state.high_watermark
        target = committed if offset == HIGH_WATERMARK else offset
        if not 0 <= target <= committed:
            return _RecordDeletion(partition, ErrorCode.offset_out_of_range)
        try:
            replica.advance_start(target)
        except OffsetOutOfRange:
            return _RecordDeletion(partition, ErrorCode.offset_out_of_range)
        except (LogError, OSError):
            return _RecordDeletion(partition, ErrorCode.kafka_storage_error)
        return _RecordDeletion(partition, ErrorCode.none, target)

    def _led(self, partition: TopicPartition) -> tuple[Replica | None, ErrorCode]:
        """Return the partition's replica if it leads here, or else the error."""
        replica = self._replicas.find(partition)
        if replica is None:
            return None, self._replicas.missing_replica_error(partition)
        if replica.state.role is not Role.LEADER:
            return None, ErrorCode.not_leader_or_follower
        return replica, ErrorCode.none


class _RecordDeletion:
    """One partition of a DeleteRecords request; its logs have to start at `target` or above."""

    def __init__(
        self, partition: TopicPartition, error: ErrorCode, target: Offset = NO_OFFSET
    ) -> None:
        self._partition = partition
        self._error = error
        self._target = target

    def fail(self, error: ErrorCode) -> None:
        """Set the error, unless there is another one."""
        if self._error is ErrorCode.none:
            self._error = error

    def is_waiting(self, replicas: ReplicaManager) -> bool:
        """Whether the log of a live replica still starts below the target."""
        low = self._low_watermark(replicas)
        return self._error is ErrorCode.none and low is not None and low < self._target

    def row(self, replicas: ReplicaManager) -> dict[str, Any]:
        """The result as of now."""
        low = self._low_watermark(replicas)
        error = self._error
        if error is ErrorCode.none and low is None:
            error = ErrorCode.not_leader_or_follower
        elif error is ErrorCode.none and self.is_waiting(replicas):
            error = ErrorCode.request_timed_out
        done = error is ErrorCode.none and low is not None
        return {
            "partition_index": self._partition.partition,
            "low_watermark": low if done else NO_OFFSET,
            "error_code": error,
        }

    def _low_watermark(self, replicas: ReplicaManager) -> Offset | None:
        """The smallest log start; None if this broker does not lead the partition any more."""
        replica = replicas.find(self._partition)
        if replica is None or replica.state.role is not Role.LEADER:
            return None
        followers = replica.state.followers
        starts = [
            progress.log_start for node, progress in followers.items() if replicas.eligible(node)
        ]
        return min([replica.log.start_offset, *starts])


def _lag(replica: Replica) -> int:
    """How far the replica's log end is below the high watermark that it knows."""
    return max(replica.state.high_watermark - replica.log.end_offset, 0)
