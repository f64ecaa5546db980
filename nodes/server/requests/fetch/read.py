"""Reads one partition for a fetch: an error, a divergence, another replica to use, or records.

The rules are Kafka's:
- Followers are served only by the leader, up to the log's end.
- Consumers are served by the leader or (since Fetch v11) by any replica, up to the high watermark
  that this replica knows (KIP-392).
- Consumers with isolation.level=read_committed are served up to the last stable offset. They hear
  which transactions in the range were aborted, and leave those records out themselves.
- Leader epochs must match if the request has them (KIP-320).
- If the follower's log diverges from ours, the response says where (KIP-595).
- A follower that the leader does not know yet has to try again.
- A fetch that a follower sent before it registered again says nothing of what it has (KIP-903).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from nodes.ids import NO_NODE, NO_OFFSET, BrokerEpoch, NodeId, Offset, TopicPartition
from nodes.log.batch import iter_batches
from nodes.log.divergence import EpochEnd, divergence
from nodes.log.errors import LogError
from nodes.log.log import Log
from nodes.log.transactions.aborted_index import AbortedTransaction
from nodes.metadata.image import ClusterImage
from nodes.replication.partition import Role
from nodes.server.replicas.manager import ReplicaManager
from nodes.server.replicas.replica import Replica
from nodes.server.replicas.throttling import AS_LEADER, ReplicationThrottle
from nodes.server.requests.fetch.partitions import FetchPartition, FetchPartitionSet
from nodes.server.requests.fetch.replica_selector import ReplicaSelector
from nodes.server.requests.list_offsets import leadership_error

FOLLOWERS_SERVE_SINCE = 11
TOPIC_IDS_SINCE = 13
STORAGE_ERROR_SINCE = 6


@dataclass(frozen=True, slots=True)
class FetchParams:
    """Who fetches, a follower by its node id or a consumer (NO_NODE), and the request's limits."""

    replica_id: NodeId
    broker_epoch: BrokerEpoch
    version: int
    max_bytes: int
    rack: str
    listener: str
    late: bool = False
    """Whether the follower has registered again since it sent the fetch."""
    committed_only: bool = False
    """Whether a consumer wants no records of open and aborted transactions (read_committed)."""

    is_follower: bool = field(init=False)
    """Whether a replica fetches."""
    leader_only: bool = field(init=False)
    """Whether only the leader may serve it."""

    def __post_init__(self) -> None:
        follower = self.replica_id != NO_NODE
        object.__setattr__(self, "is_follower", follower)
        leader_only = follower or self.version < FOLLOWERS_SERVE_SINCE
        object.__setattr__(self, "leader_only", leader_only)


class FetchPartitionData(NamedTuple):
    """The response for one partition. `more`: there are records that did not fit."""

    error: ErrorCode
    high_watermark: Offset = NO_OFFSET
    last_stable_offset: Offset = NO_OFFSET
    log_start: Offset = NO_OFFSET
    records: bytes = b""
    aborted: Sequence[AbortedTransaction] = ()
    diverging: EpochEnd | None = None
    preferred: NodeId = NO_NODE
    more: bool = False

    @property
    def needs_action(self) -> bool:
        """Whether the fetcher has to act on it, so that the response must not wait."""
        return (
            self.error is not ErrorCode.none
            or self.diverging is not None
            or self.preferred != NO_NODE
        )


NO_DATA = FetchPartitionData(ErrorCode.none)


class PartitionReader:
    """Reads single partitions for fetch requests."""

    def __init__(self, replicas: ReplicaManager, selector: ReplicaSelector | None) -> None:
        self._replicas = replicas
        self._selector = selector
        self._throttle = ReplicationThrottle(AS_LEADER)

    @property
    def image(self) -> ClusterImage:
        """The cluster as this broker knows it."""
        return self._replicas.image

    def new_partition_set(self, params: FetchParams) -> FetchPartitionSet:
        """Return an empty set of partitions for `params`.

        If consumers may read from followers, followers hear of a commit at once, which costs one
        more round trip for every batch. Otherwise they hear of it with the next records.
        """
        at_once = not params.is_follower or self._selector is not None
        return FetchPartitionSet(params.replica_id, params.broker_epoch, wakes_on_commit=at_once)

    def matching_replica(self, partition: FetchPartition, params: FetchParams) -> Replica | None:
        """The replica that leads here, if the follower's log is a prefix of its log; else None."""
        if (
            self._serving_error(partition, params) is not ErrorCode.none
            or partition.replica is None
        ):
            return None
        replica = partition.replica
        if not replica.log.start_offset <= partition.offset <= replica.log.end_offset:
            return None
        if _diverging(replica, partition) is not None:
            return None
        return replica

    def may_join_isr(self, partition: FetchPartition, params: FetchParams) -> bool:
        """Whether the follower is out of the ISR, so that each of its fetches may bring it in.

        A follower that shuts down does not come in again before it registers again. It may have
        registered, and fetch, before this node knows of it.
        """
        replica = partition.replica
        if not params.is_follower or (
            replica is not None and params.replica_id in replica.state.isr
        ):
            return False
        broker = self.image.brokers.get(params.replica_id)
        if replica is None or broker is None or broker.epoch != params.broker_epoch:
            return True
        return not broker.in_controlled_shutdown

    def read(
        self,
        partition: FetchPartition,
        params: FetchParams,
        left: int,
        now_ms: float,
        *,
        first: bool,
    ) -> FetchPartitionData:
        """Return the partition's data now, with at most `left` bytes of records.

        `first`: no other partition has records in the response, so one batch is sent in any case.
        """
        error = self._serving_error(partition, params)
        replica = partition.replica
        if error is not ErrorCode.none or replica is None:
            return FetchPartitionData(error)
        log, high_watermark = replica.log, replica.state.high_watermark
        stable, log_start = log.last_stable_offset(high_watermark), log.start_offset
        offset, end = partition.offset, log.end_offset
        bounds = (high_watermark, stable, log_start)
        preferred = self._preferred(replica, params, offset)
        if preferred != NO_NODE:
            return FetchPartitionData(error, *bounds, preferred=preferred)
        if offset >= log_start:
            diverging = _diverging(replica, partition)
            if diverging is not None:
                return FetchPartitionData(error, *bounds, diverging=diverging)
        if not log_start <= offset <= end:
            return FetchPartitionData(ErrorCode.offset_out_of_range, *bounds)
        upper = end if params.is_follower else stable if params.committed_only else high_watermark
        if offset >= upper:
            return FetchPartitionData(error, *bounds)
        limit = min(left, partition.max_bytes)
        if limit <= 0 and not first:
            return FetchPartitionData(error, *bounds, more=True)
        if params.is_follower and self._throttle.is_throttled(
            replica, params.replica_id, self.image, now_ms
        ):
            return FetchPartitionData(error, *bounds, more=True)
        try:
            records = log.read(offset, max(limit, 1), upper, at_least_one=first)
            aborted: Sequence[AbortedTransaction] = ()
            if params.committed_only and log.has_aborted:
                aborted = _aborted(log, offset, records)
                records = _up_to_bare_marker(records, aborted)
        except (LogError, OSError):
            return FetchPartitionData(_storage_error(params))
        if params.is_follower:
            self._throttle.record(replica, len(records), self.image, now_ms)
        return FetchPartitionData(error, *bounds, records, aborted, more=not records)

    def _serving_error(self, partition: FetchPartition, params: FetchParams) -> ErrorCode:
        """Find the partition's replica; return the error if it may not serve `params`."""
        replica = partition.replica
        if replica is None or replica.retired:
            error = self._find(partition, params)
            replica = partition.replica
            if replica is None:
                return error
        if params.version >= TOPIC_IDS_SINCE and not partition.same_topic:
            return ErrorCode.inconsistent_topic_id
        if replica.log.offline:
            return _storage_error(params)
        error = leadership_error(replica, partition.leader_epoch, leader_only=params.leader_only)
        if error is ErrorCode.none and params.is_follower:
            followers = replica.state.followers
            if params.replica_id not in followers:
                return _unknown_follower(partition)
            # A later fetch shows a registration of which this node has not heard yet.
            if params.late or -1 < params.broker_epoch < followers[params.replica_id].broker_epoch:
                return ErrorCode.not_leader_or_follower
        return error

    def _find(self, partition: FetchPartition, params: FetchParams) -> ErrorCode:
        """Set the partition's replica to the local one; return the error if there is none."""
        topic, number = partition.key
        if params.version < TOPIC_IDS_SINCE:
            topic_partition = TopicPartition(str(topic), number)
        else:
            name = self._replicas.topic_name(topic)  # type: ignore[arg-type] # an id from v13 on
            if name is None:
                partition.set_replica(None, None)
                return ErrorCode.unknown_topic_id
            topic_partition = TopicPartition(name, number)
        replica = self._replicas.find(topic_partition)
        partition.set_replica(topic_partition, replica)
        if replica is None:
            return self._replicas.missing_replica_error(topic_partition)
        return ErrorCode.none

    def _preferred(self, replica: Replica, params: FetchParams, offset: Offset) -> NodeId:
        if self._selector is None or params.is_follower or replica.state.role is not Role.LEADER:
            return NO_NODE
        return self._selector.select(replica, params.rack, params.listener, offset, self.image)


def _aborted(log: Log, offset: Offset, records: bytes) -> Sequence[AbortedTransaction]:
    """The aborted transactions in `records`, which were read from `offset` on. Raises OSError."""
    end = max((header.next_offset for _, header in iter_batches(records)), default=offset)
    return log.aborted_transactions(offset, end)


def _up_to_bare_marker(records: bytes, aborted: Sequence[AbortedTransaction]) -> bytes:
    """`records` up to the first marker without a record that ends an aborted transaction.

    Compaction removed its record, and this replica lagged. A consumer does not see that it aborts,
    and would leave out the next transaction of the producer in the same response, too.
    """
    producers = {each.producer_id for each in aborted}
    for at, header in iter_batches(records) if producers else ():
        if header.is_control and not header.record_count and header.producer_id in producers:
            return records[: at + header.size]
    return records


def _unknown_follower(partition: FetchPartition) -> ErrorCode:
    """The error for a replica that is not in the assignment known here.

    The replica knows a newer assignment, and has to try again.
    """
    if partition.leader_epoch >= 0:
        return ErrorCode.unknown_leader_epoch
    return ErrorCode.not_leader_or_follower


def _storage_error(params: FetchParams) -> ErrorCode:
    known = params.version >= STORAGE_ERROR_SINCE
    return ErrorCode.kafka_storage_error if known else ErrorCode.not_leader_or_follower


def _diverging(replica: Replica, partition: FetchPartition) -> EpochEnd | None:
    return divergence(replica.log, partition.last_epoch, partition.offset)
