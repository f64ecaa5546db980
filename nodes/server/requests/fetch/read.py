"""What one partition of a fetch has to answer: an error, a divergence, another replica, or records.

The rules are Kafka's: followers are served by the leader alone, up to the log's end; consumers by
the leader or (since Fetch v11) by any replica, up to what that replica knows to be committed
(KIP-392); leader epochs must match where they are given (KIP-320); a log that departs from ours is
told where (KIP-595), and a follower that the leader does not know yet has to come again.
"""

from dataclasses import dataclass
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from nodes.ids import NO_NODE, NO_OFFSET, BrokerEpoch, NodeId, Offset, TopicPartition
from nodes.log.divergence import EpochEnd, divergence
from nodes.log.errors import LogError
from nodes.metadata.image import ClusterImage
from nodes.replication.partition import Role
from nodes.server.replicas.manager import ReplicaManager
from nodes.server.replicas.replica import Replica
from nodes.server.replicas.throttling import AS_LEADER, Throttle
from nodes.server.requests.fetch.partitions import Part, PartSet
from nodes.server.requests.fetch.replica_selector import ReplicaSelector
from nodes.server.requests.offsets import leadership_error

FOLLOWERS_SERVE_SINCE = 11
TOPIC_IDS_SINCE = 13
STORAGE_ERROR_SINCE = 6


@dataclass(frozen=True, slots=True)
class Reader:
    """Who fetches: a follower by its node id, or a consumer (NO_NODE); and how."""

    node: NodeId
    broker_epoch: BrokerEpoch
    version: int
    max_bytes: int
    rack: str
    listener: str

    @property
    def is_follower(self) -> bool:
        """Whether a replica fetches."""
        return self.node != NO_NODE

    @property
    def leader_only(self) -> bool:
        """Whether a follower's copy will not do."""
        return self.is_follower or self.version < FOLLOWERS_SERVE_SINCE


class Answer(NamedTuple):
    """One partition's part of the response. `more`: there were records that it had no room for."""

    error: ErrorCode
    high_watermark: Offset = NO_OFFSET
    log_start: Offset = NO_OFFSET
    records: bytes = b""
    diverging: EpochEnd | None = None
    preferred: NodeId = NO_NODE
    more: bool = False

    @property
    def urgent(self) -> bool:
        """Not worth waiting: the fetcher has to act on it."""
        return (
            self.error is not ErrorCode.none
            or self.diverging is not None
            or self.preferred != NO_NODE
        )


NOTHING_YET = Answer(ErrorCode.none)


class PartReader:
    """Answers for single partitions."""

    def __init__(self, replicas: ReplicaManager, selector: ReplicaSelector | None) -> None:
        self._replicas = replicas
        self._selector = selector
        self._throttle = Throttle(AS_LEADER)

    @property
    def image(self) -> ClusterImage:
        """The cluster as this broker knows it."""
        return self._replicas.image

    def part_set(self, reader: Reader) -> PartSet:
        """An empty set of parts for `reader`.

        Followers learn of commits at once when consumers may be sent to them, otherwise with the
        next records: it costs a round more for every batch.
        """
        eager = not reader.is_follower or self._selector is not None
        return PartSet(reader.node, reader.broker_epoch, commits_are_news=eager)

    def agreeing(self, part: Part, reader: Reader) -> Replica | None:
        """The replica led here of which the follower's log, as it says, is a prefix."""
        if self._host(part, reader) is not ErrorCode.none or part.replica is None:
            return None
        replica = part.replica
        if not replica.log.start_offset <= part.offset <= replica.log.end_offset:
            return None
        if _diverging(replica, part) is not None:
            return None
        return replica

    def unsettled(self, part: Part, reader: Reader) -> bool:
        """Whether the follower is not in sync yet: every fetch of it may change that.

        Not of one that shuts down: it is in no ISR any more before it has registered anew. It may
        have done that already, and fetch, before we know of it.
        """
        replica = part.replica
        if not reader.is_follower or (replica is not None and reader.node in replica.state.isr):
            return False
        broker = self.image.brokers.get(reader.node)
        if replica is None or broker is None or broker.epoch != reader.broker_epoch:
            return True
        return not broker.in_controlled_shutdown

    def read(self, part: Part, reader: Reader, left: int, now_ms: float, *, first: bool) -> Answer:
        """The answer now, with at most `left` bytes of records.

        `first`: no other partition has records in the response, so one batch comes in any case.
        """
        error = self._host(part, reader)
        replica = part.replica
        if error is not ErrorCode.none or replica is None:
            return Answer(error)
        log, state = replica.log, replica.state
        high_watermark, log_start, offset = state.high_watermark, log.start_offset, part.offset
        preferred = self._preferred(replica, reader, offset)
        if preferred != NO_NODE:
            return Answer(error, high_watermark, log_start, preferred=preferred)
        if offset >= log_start:
            diverging = _diverging(replica, part)
            if diverging is not None:
                return Answer(error, high_watermark, log_start, diverging=diverging)
        end = log.end_offset
        if not log_start <= offset <= end:
            return Answer(ErrorCode.offset_out_of_range, high_watermark, log_start)
        upper = end if reader.is_follower else high_watermark
        if offset >= upper:
            return Answer(error, high_watermark, log_start)
        limit = min(left, part.max_bytes)
        if limit <= 0 and not first:
            return Answer(error, high_watermark, log_start, more=True)
        if reader.is_follower and self._throttle.holds_back(
            replica, reader.node, self.image, now_ms
        ):
            return Answer(error, high_watermark, log_start, more=True)
        try:
            records = log.read(offset, max(limit, 1), upper, at_least_one=first)
        except (LogError, OSError):
            return Answer(_storage_error(reader))
        if reader.is_follower:
            self._throttle.used(replica, len(records), self.image, now_ms)
        return Answer(error, high_watermark, log_start, records, more=not records)

    def _host(self, part: Part, reader: Reader) -> ErrorCode:
        """Find the part's replica, and whether it may serve `reader`."""
        replica = part.replica
        if replica is None or replica.retired:
            error = self._find(part, reader)
            replica = part.replica
            if replica is None:
                return error
        if reader.version >= TOPIC_IDS_SINCE and replica.topic_id != part.key.topic:
            return ErrorCode.inconsistent_topic_id
        if replica.log.offline:
            return _storage_error(reader)
        error = leadership_error(replica, part.leader_epoch, leader_only=reader.leader_only)
        if error is ErrorCode.none and reader.is_follower:
            return _unknown_follower(replica, part, reader.node)
        return error

    def _find(self, part: Part, reader: Reader) -> ErrorCode:
        """Host the part by the replica that there is now; the error where there is none."""
        topic, number = part.key
        if reader.version < TOPIC_IDS_SINCE:
            partition = TopicPartition(str(topic), number)
        else:
            name = self._replicas.topic_name(topic)  # type: ignore[arg-type] # an id from v13 on
            if name is None:
                part.host(None, None)
                return ErrorCode.unknown_topic_id
            partition = TopicPartition(name, number)
        replica = self._replicas.find(partition)
        part.host(partition, replica)
        return ErrorCode.none if replica is not None else self._replicas.why_not_here(partition)

    def _preferred(self, replica: Replica, reader: Reader, offset: Offset) -> NodeId:
        if self._selector is None or reader.is_follower or replica.state.role is not Role.LEADER:
            return NO_NODE
        return self._selector.select(replica, reader.rack, reader.listener, offset, self.image)


def _unknown_follower(replica: Replica, part: Part, node: NodeId) -> ErrorCode:
    """A replica that the assignment known here lacks: it knows a newer one, and comes again."""
    if node in replica.state.followers:
        return ErrorCode.none
    if part.leader_epoch >= 0:
        return ErrorCode.unknown_leader_epoch
    return ErrorCode.not_leader_or_follower


def _storage_error(reader: Reader) -> ErrorCode:
    known = reader.version >= STORAGE_ERROR_SINCE
    return ErrorCode.kafka_storage_error if known else ErrorCode.not_leader_or_follower


def _diverging(replica: Replica, part: Part) -> EpochEnd | None:
    return divergence(replica.log, part.last_epoch, part.offset)
