"""Verification of transactional batches before their append (KIP-890).

The first batch of a transaction in a partition is appended only if the transaction coordinator
knows that the partition belongs to the transaction. Clients of transaction version 2 (Produce v12
on) do not tell the coordinator themselves: the question also adds the partition. A guard is made
before the question (`nodes.log.transactions.verification`), and the append checks it.

The coordinator's errors become those that a producer can handle, as in Kafka. Whoever cannot be
asked now is asked again by the producer: NOT_ENOUGH_REPLICAS makes it try again, and look for no
other leader. While an earlier transaction of the producer still ends (CONCURRENT_TRANSACTIONS) the
broker itself asks again for a while.

`transaction.partition.verification.enable=false` ends the questions about partitions that clients
added themselves. Then a guard is valid without one, as Kafka appends without one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, Protocol

from kio.schema.errors import ErrorCode

from nodes.ids import TopicPartition
from nodes.log.batch import BatchHeader
from nodes.log.errors import InvalidProducerEpoch
from nodes.log.transactions.verification import VerificationGuard
from nodes.replication.partition import Role
from nodes.server.replicas.manager import ReplicaManager

ABORTABLE_ERROR_SINCE = 11
"""Clients of this version of Produce on know TRANSACTION_ABORTABLE."""
ADDS_PARTITIONS_SINCE = 12
"""Clients of this version of Produce on leave it to the broker to add partitions."""

RETRY_BACKOFF_S, RETRY_S = 0.02, 0.1
"""Kafka's add.partitions.to.txn.retry.backoff.ms and its bound."""

_RETRIABLE = frozenset(
    {
        ErrorCode.concurrent_transactions,
        ErrorCode.network_exception,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)


class AskedTransaction(NamedTuple):
    """A question to the transaction coordinator: do the partitions belong to the transaction?"""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    adds: bool
    """Whether the coordinator adds the partitions that do not belong to it yet."""


class TransactionVerifier(Protocol):
    """Asks the transaction coordinator, wherever it is."""

    def verify(self, asked: AskedTransaction) -> Awaitable[Mapping[TopicPartition, ErrorCode]]:
        """Return the coordinator's error for each partition; a missing one has none.

        If the coordinator cannot be asked: COORDINATOR_NOT_AVAILABLE, NETWORK_EXCEPTION. Does not
        raise.
        """


class Refusal(NamedTuple):
    """Why a partition's batch is not appended."""

    error: ErrorCode
    message: str | None = None


class Verified(NamedTuple):
    """The batches of one request: which may be appended, with which guard, and which not.

    A batch in neither belongs to a transaction that is open in its partition.
    """

    guards: Mapping[TopicPartition, VerificationGuard]
    refused: Mapping[TopicPartition, Refusal]


class ProduceVerification:
    """See the module."""

    def __init__(
        self,
        replicas: ReplicaManager,
        verifier: TransactionVerifier,
        wall_clock_ms: Callable[[], int],
    ) -> None:
        self._replicas = replicas
        self._verifier = verifier
        self._wall_clock_ms = wall_clock_ms

    def begin(self, batches: Mapping[TopicPartition, BatchHeader], version: int) -> Verified:
        """Make the guards. If there are any, `finish` has to ask the coordinator."""
        guards: dict[TopicPartition, VerificationGuard] = {}
        refused: dict[TopicPartition, Refusal] = {}
        if len({(each.producer_id, each.producer_epoch) for each in batches.values()}) > 1:
            message = "transactional batches of more than one producer"
            refusal = Refusal(ErrorCode.invalid_producer_id_mapping, message)
            return Verified({}, dict.fromkeys(batches, refusal))
        for partition, header in batches.items():
            replica = self._replicas.find(partition)
            if replica is None:
                refused[partition] = Refusal(self._replicas.missing_replica_error(partition))
                continue
            if replica.state.role is not Role.LEADER:
                refused[partition] = Refusal(ErrorCode.not_leader_or_follower)
                continue
            try:
                guard = replica.log.producers.start_verification(
                    header,
                    self._wall_clock_ms(),
                    supports_epoch_bump=version >= ADDS_PARTITIONS_SINCE,
                )
            except InvalidProducerEpoch as error:
                refused[partition] = Refusal(ErrorCode.invalid_producer_epoch, str(error))
                continue
            if guard is not None:
                guards[partition] = guard
        return Verified(guards, refused)

    async def finish(
        self,
        begun: Verified,
        batches: Mapping[TopicPartition, BatchHeader],
        transactional_id: str,
        version: int,
        timeout_s: float,
    ) -> Verified:
        """Ask the coordinator; return what may be appended. Takes at most `timeout_s`."""
        if version < ADDS_PARTITIONS_SINCE and not self._replicas.verifies_transactions:
            return begun
        loop = asyncio.get_running_loop()
        until_s = loop.time() + min(RETRY_S, timeout_s)
        while begun.guards:
            errors = await self._ask(begun, batches, transactional_id, version, timeout_s)
            concurrent = ErrorCode.concurrent_transactions in errors.values()
            if version >= ADDS_PARTITIONS_SINCE and concurrent and loop.time() < until_s:
                await asyncio.sleep(RETRY_BACKOFF_S)
                begun = self.begin(batches, version)
                continue
            refused = {
                partition: refusal_of(error, version)
                for partition, error in errors.items()
                if error is not ErrorCode.none
            }
            return Verified(begun.guards, {**begun.refused, **refused})
        return begun

    async def _ask(
        self,
        begun: Verified,
        batches: Mapping[TopicPartition, BatchHeader],
        transactional_id: str,
        version: int,
        timeout_s: float,
    ) -> Mapping[TopicPartition, ErrorCode]:
        header = next(iter(batches.values()))
        asked = AskedTransaction(
            transactional_id,
            header.producer_id,
            header.producer_epoch,
            tuple(begun.guards),
            adds=version >= ADDS_PARTITIONS_SINCE,
        )
        try:
            async with asyncio.timeout(timeout_s):
                return await self._verifier.verify(asked)
        except TimeoutError:
            return dict.fromkeys(asked.partitions, ErrorCode.network_exception)


def refusal_of(error: ErrorCode, version: int) -> Refusal:
    """The error for a producer that speaks Produce of this version, for one of the coordinator's.

    The rules are those of Kafka's AddPartitionsToTxnManager and ReplicaManager.
    """
    if error in _RETRIABLE:
        message = f"it could not be verified that the partition is in the transaction: {error.name}"
        return Refusal(ErrorCode.not_enough_replicas, message)
    if error is ErrorCode.producer_fenced:
        error = ErrorCode.invalid_producer_epoch
    if error is ErrorCode.transaction_abortable and version < ABORTABLE_ERROR_SINCE:
        error = ErrorCode.invalid_txn_state
    if error is ErrorCode.invalid_txn_state:
        return Refusal(error, "the partition was not added to the transaction")
    return Refusal(error)
