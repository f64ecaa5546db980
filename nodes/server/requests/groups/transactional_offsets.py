"""TxnOffsetCommit: offsets that a producer commits in its transaction (KIP-98, KIP-447).

They are records of the transaction in the group's partition of `__consumer_offsets`. So the first
commit of a transaction is verified, as the first batch in any partition is (KIP-890); clients of
transaction version 2 leave it to the broker to add the partition to the transaction.
"""

from typing import Any

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.coordinator import GroupCoordinator
from nodes.coordinators.groups.kind import NO_GENERATION, Committer
from nodes.coordinators.groups.offset_requests import OffsetCommit, Row, refused_commit
from nodes.coordinators.machine import ProducerStamp
from nodes.ids import TopicPartition
from nodes.log.batch import BatchHeader, Record, encode_batch, read_header
from nodes.log.transactions.verification import VerificationGuard
from nodes.server.coordinators.errors import CoordinatorError
from nodes.server.coordinators.shard import Access
from nodes.server.coordinators.shards import Shards
from nodes.server.replicas.manager import ReplicaManager
from nodes.server.requests.groups.offsets import commit_error, merged, split_commit
from nodes.server.requests.verification import (
    ABORTABLE_ERROR_SINCE,
    ADDS_PARTITIONS_SINCE,
    ProduceVerification,
)
from nodes.wire.server import RequestContext
from nodes.wire.versions import respond

LOAD_ERROR_SINCE = 2
"""Clients of older versions end at COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""
ADDS_PARTITION_SINCE = 5
ABORTABLE_SINCE = 4

TIMEOUT_S = 5.0
"""How long the transaction coordinator may take to verify."""


class TransactionalOffsetsHandler:
    """Serves TxnOffsetCommit."""

    def __init__(
        self,
        shards: Shards[GroupCoordinator],
        replicas: ReplicaManager,
        verification: ProduceVerification,
    ) -> None:
        self._shards = shards
        self._replicas = replicas
        self._verification = verification

    async def commit(self, request: Any, context: RequestContext) -> Any:
        """TxnOffsetCommit: the offsets of the partitions that exist, in one batch."""
        known, rows = split_commit(self._replicas, request.topics)
        if known:
            rows += await self._commit(request, OffsetCommit(_committer(request), tuple(known)))
        return respond(request, topics=merged(rows))

    async def _commit(self, request: Any, commit: OffsetCommit) -> list[Row]:
        group_id = commit.committer.group_id
        if not group_id:
            return refused_commit(commit, ErrorCode.invalid_group_id)
        producer = ProducerStamp(request.producer_id, request.producer_epoch)
        try:
            self._shards.find(group_id)
            guard = await self._verified(request, group_id, producer)
            answer = await self._shards.perform(
                group_id,
                lambda m, token, now: m.commit_in_transaction(commit, producer, token, now),
                Access.WRITE,
                guard,
            )
        except CoordinatorError as error:
            return refused_commit(commit, _error(error.code, request.__version__))
        rows: list[Row] = answer["topics"]
        return rows

    async def _verified(
        self, request: Any, group_id: str, producer: ProducerStamp
    ) -> VerificationGuard | None:
        """The guard of the transaction's first commit here; None if it is not the first.

        Raises CoordinatorError.
        """
        number = self._shards.partition_of(group_id)
        if number is None:
            raise CoordinatorError(ErrorCode.coordinator_not_available)
        partition = TopicPartition(self._shards.topic, number)
        batches = {partition: _header(producer)}
        version = _produce_version(request.__version__)
        verified = self._verification.begin(batches, version)
        if verified.guards:
            verified = await self._verification.finish(
                verified, batches, request.transactional_id, version, TIMEOUT_S
            )
        refusal = verified.refused.get(partition)
        if refusal is not None:
            raise CoordinatorError(_verification_error(refusal.error))
        return verified.guards.get(partition)


def _committer(request: Any) -> Committer:
    return Committer(
        group_id=request.group_id,
        member_id=getattr(request, "member_id", ""),
        instance_id=getattr(request, "group_instance_id", None),
        generation=getattr(request, "generation_id", NO_GENERATION),
        transactional=True,
        version=request.__version__,
    )


def _header(producer: ProducerStamp) -> BatchHeader:
    """The header of a batch as the coordinator will write it, for its verification."""
    batch = encode_batch(
        [Record(key=b"")],
        timestamp_ms=0,
        transactional=True,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
    )
    return read_header(batch)


def _produce_version(version: int) -> int:
    """The version of Produce whose clients know the same about transactions."""
    if version >= ADDS_PARTITION_SINCE:
        return ADDS_PARTITIONS_SINCE
    return ABORTABLE_ERROR_SINCE if version >= ABORTABLE_SINCE else ABORTABLE_ERROR_SINCE - 1


def _verification_error(error: ErrorCode) -> ErrorCode:
    """Errors of a partition become those of a coordinator, as in Kafka."""
    if error is ErrorCode.not_enough_replicas:
        return ErrorCode.coordinator_not_available
    return ErrorCode.not_coordinator if error is ErrorCode.not_leader_or_follower else error


def _error(code: ErrorCode, version: int) -> ErrorCode:
    if code is ErrorCode.coordinator_load_in_progress and version < LOAD_ERROR_SINCE:
        return ErrorCode.coordinator_not_available
    return commit_error(code)
