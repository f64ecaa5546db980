"""Finds hanging transactions: open in a log, and no coordinator will end them (KIP-664).

A hanging transaction holds back the last stable offset of its partition: consumers with
read_committed read nothing beyond it, and the log cleaner stops there.
"""

from collections.abc import Iterable, Mapping, Sequence

from harness.admin import inspection
from harness.admin.client import AdminClient
from harness.admin.descriptions import Producer
from harness.admin.transactions import requests
from harness.admin.transactions.descriptions import OpenTransaction, Transaction
from nodes.ids import TopicPartition


async def find(
    admin: AdminClient,
    partitions: Sequence[TopicPartition],
    *,
    now_ms: int,
    max_timeout_ms: int,
    broker: int | None = None,
) -> list[OpenTransaction]:
    """Return the hanging transactions of these partitions, by partition and start.

    The producers are those that the leaders know, or the replicas on `broker`. Transactions whose
    producer has written within `max_timeout_ms` are left out: their coordinator may still end them.
    """
    producers = await inspection.producers(admin, partitions, broker)
    old = [each for each in open_transactions(producers) if is_old(each, now_ms, max_timeout_ms)]
    known = await known_transactions(admin, {each.producer.producer_id for each in old})
    return [each for each in old if is_hanging(each, known)]


async def known_transactions(
    admin: AdminClient, producer_ids: Iterable[int]
) -> dict[int, Transaction]:
    """Return what the coordinators know of these producers, by producer id."""
    wanted = set(producer_ids)
    if not wanted:
        return {}
    listed = await requests.listed(admin, producer_ids=wanted)
    ids = [each.transactional_id for each in listed if each.producer_id in wanted]
    described = await requests.describe(admin, ids)
    return {each.producer_id: each for each in described.values() if each is not None}


def open_transactions(
    producers: Mapping[TopicPartition, Iterable[Producer]],
) -> list[OpenTransaction]:
    """Return the open transactions of each partition, by their start."""
    return [
        OpenTransaction(partition=partition, producer=producer)
        for partition, own in producers.items()
        for producer in sorted(own, key=lambda each: each.transaction_start or 0)
        if producer.transaction_start is not None
    ]


def is_old(each: OpenTransaction, now_ms: int, max_timeout_ms: int) -> bool:
    """Return whether the producer's last record is older than the longest timeout."""
    return now_ms - each.producer.last_timestamp_ms > max_timeout_ms


def is_hanging(each: OpenTransaction, known: Mapping[int, Transaction]) -> bool:
    """Return whether no coordinator will end the transaction in this partition.

    A coordinator writes markers to the partitions that it has for the producer, and to no other.
    """
    transaction = known.get(each.producer.producer_id)
    return transaction is None or each.partition not in transaction.partitions
