"""Transactions as plain values; times in ms since 1970."""

from dataclasses import dataclass
from typing import Final

from harness.admin.coordinators import Coordinator
from harness.admin.descriptions import Producer
from nodes.ids import TopicPartition

STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
    "Dead",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionListing:
    """One transactional id as ListTransactions lists it, with the number of its coordinator."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """What the coordinator knows of one transactional id; `start_ms` is None before it has begun.

    `partitions` are those that do not have the transaction's marker yet.
    """

    transactional_id: str
    coordinator: Coordinator
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that is open in the log of one partition: the state of its producer there."""

    partition: TopicPartition
    producer: Producer


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """The marker that aborts a producer's transaction: the coordinator epoch must not be older than
    that of the producer's last marker in the partition."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
