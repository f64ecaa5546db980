"""Requests about the logs themselves: their sizes, their producers, the end of old records.

DescribeLogDirs, DescribeProducers and DeleteRecords, as Kafka answers them. Every wait is bounded
by the request's own timeout.
"""

import asyncio
import logging
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.config import NodeConfig
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


class LogAdminHandler:
    """Serves them."""

    def __init__(self, config: NodeConfig, disk: Disk, replicas: ReplicaManager) -> None:
        self._config = config
        self._disk = disk
        self._replicas = replicas

    # -- DescribeLogDirs -----------------------------------------------------------------------

    def describe_log_dirs(self, request: Any, context: RequestContext) -> Any:
        """The one log directory, with the size and lag of the replicas asked for (null: of all),
        and the room that its file system has."""
        wanted = request.topics
        chosen = (
            self._replicas.all()
            if wanted is None
            else [
                replica
                for topic in wanted
                for number in topic.partitions
                if (replica := self._replicas.find(TopicPartition(topic.topic, number)))
            ]
        )
        topics: dict[str, list[dict[str, Any]]] = {}
        for replica in chosen:
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
            log.error("cannot tell the room in %s: %s", self._config.log_dir, error)
            return respond(request, results=[{**row, "error_code": ErrorCode.kafka_storage_error}])
        directory = {
            **row,
            "topics": [{"name": name, "partitions": rows} for name, rows in topics.items()],
            "total_bytes": space.total,
            "usable_bytes": space.usable,
        }
        return respond(request, results=[directory])

    # -- DescribeProducers ---------------------------------------------------------------------

    def describe_producers(self, request: Any, context: RequestContext) -> Any:
        """What each partition's leader remembers of its idempotent producers (KIP-664)."""
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
                "coordinator_epoch": -1,
                "current_txn_start_offset": NO_OFFSET,
            }
            for producer_id, producer in replica.log.producers.items()
        ]
        return {**row, "error_code": ErrorCode.none, "active_producers": producers}

    # -- DeleteRecords -------------------------------------------------------------------------

    async def delete_records(self, request: Any, context: RequestContext) -> Any:
        """Move log starts up (KIP-107), and answer when the live replicas have followed.

        And when the new starts are on this broker's disk: before, a loss of power would bring back
        what was said to be deleted.
        The answer is the low watermark: the smallest log start of the leader and of the followers
        that are in service. REQUEST_TIMED_OUT when it is not there in time: it may get there yet.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + request.timeout.total_seconds()
        topics = []
        for topic in request.topics:
            rows = [
                self._delete(TopicPartition(topic.name, each.partition_index), Offset(each.offset))
                for each in topic.partitions
            ]
            topics.append((topic.name, rows))
        everything = [each for _, rows in topics for each in rows]
        failure = await self._keep_starts(deadline_s)
        if failure is not ErrorCode.none:
            for each in everything:
                each.failed(failure)
        while loop.time() < deadline_s:
            if not any(each.waits(self._replicas) for each in everything):
                break
            await asyncio.sleep(POLL_S)
        answer = [
            {"name": name, "partitions": [each.row(self._replicas) for each in rows]}
            for name, rows in topics
        ]
        return respond(request, topics=answer)

    async def _keep_starts(self, deadline_s: float) -> ErrorCode:
        """Return when all log starts are on disk, or why they are not."""
        try:
            async with asyncio.timeout_at(deadline_s):
                await self._replicas.logs.checkpoint_starts()
        except TimeoutError:
            return ErrorCode.request_timed_out
        except OSError as error:
            log.error("cannot write down where logs begin: %s", error)
            return ErrorCode.kafka_storage_error
        return ErrorCode.none

    def _delete(self, partition: TopicPartition, offset: Offset) -> "_Deletion":
        replica, error = self._led(partition)
        if replica is None:
            return _Deletion(partition, error)
        committed = replica.state.high_watermark
        target = committed if offset == HIGH_WATERMARK else offset
        if not 0 <= target <= committed:
            return _Deletion(partition, ErrorCode.offset_out_of_range)
        try:
            replica.advance_start(target)
        except OffsetOutOfRange:
            return _Deletion(partition, ErrorCode.offset_out_of_range)
        except (LogError, OSError):
            return _Deletion(partition, ErrorCode.kafka_storage_error)
        return _Deletion(partition, ErrorCode.none, target)

    def _led(self, partition: TopicPartition) -> tuple[Replica | None, ErrorCode]:
        """The partition's replica if it leads here, or the error that says why there is none."""
        replica = self._replicas.find(partition)
        if replica is None:
            return None, self._replicas.missing_replica_error(partition)
        if replica.state.role is not Role.LEADER:
            return None, ErrorCode.not_leader_or_follower
        return replica, ErrorCode.none


class _Deletion:
    """One partition of a DeleteRecords; `target` is where its logs are to begin at least."""

    def __init__(
        self, partition: TopicPartition, error: ErrorCode, target: Offset = NO_OFFSET
    ) -> None:
        self._partition = partition
        self._error = error
        self._target = target

    def failed(self, error: ErrorCode) -> None:
        """Answer so, unless there is another error."""
        if self._error is ErrorCode.none:
            self._error = error

    def waits(self, replicas: ReplicaManager) -> bool:
        """Whether some live replica's log still begins below the target."""
        low = self._low_watermark(replicas)
        return self._error is ErrorCode.none and low is not None and low < self._target

    def row(self, replicas: ReplicaManager) -> dict[str, Any]:
        """The answer as of now."""
        low = self._low_watermark(replicas)
        error = self._error
        if error is ErrorCode.none and low is None:
            error = ErrorCode.not_leader_or_follower
        elif error is ErrorCode.none and self.waits(replicas):
            error = ErrorCode.request_timed_out
        done = error is ErrorCode.none and low is not None
        return {
            "partition_index": self._partition.partition,
            "low_watermark": low if done else NO_OFFSET,
            "error_code": error,
        }

    def _low_watermark(self, replicas: ReplicaManager) -> Offset | None:
        """None when this broker leads the partition no more."""
        replica = replicas.find(self._partition)
        if replica is None or replica.state.role is not Role.LEADER:
            return None
        followers = replica.state.followers
        starts = [
            progress.log_start for node, progress in followers.items() if replicas.eligible(node)
        ]
        return min([replica.log.start_offset, *starts])


def _lag(replica: Replica) -> int:
    """How far the replica's log ends behind what is committed, as far as it knows."""
    return max(replica.state.high_watermark - replica.log.end_offset, 0)
