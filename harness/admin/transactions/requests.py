"""Requests about transactions: list, describe, abort by a marker, end by a new producer epoch."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode

from harness.admin import inspection, topics
from harness.admin.client import AdminClient
from harness.admin.codes import check
from harness.admin.coordinators import Coordinator, KeyType, ask_each
from harness.admin.transactions.descriptions import Marker, Transaction, TransactionListing
from nodes.ids import TopicPartition

_DURATIONS_SINCE: Final = 1
_NO_PRODUCER: Final = -1
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_MS: Final = timedelta(milliseconds=1)


async def listed(
    admin: AdminClient,
    *,
    states: Sequence[str] = (),
    producer_ids: Collection[int] = (),
    longer_than_ms: int = -1,
) -> list[TransactionListing]:
    """Return the transactional ids that match all of these filters, by id.

    Without values for a filter, all match. Every broker is asked for those that it coordinates.
    Raises RequestRefused, and BadRequest when a broker does not know the filter.
    """
    at_least = _DURATIONS_SINCE if longer_than_ms >= 0 else 0

    async def attempt() -> dict[str, TransactionListing]:
        found = {}
        for broker in (await topics.cluster(admin)).live:
            answer = await admin.request(
                "list_transactions",
                to=(broker.host, broker.port),
                at_least=at_least,
                state_filters=states,
                producer_id_filters=sorted(producer_ids),
                duration_filter=longer_than_ms,
            )
            check(answer.error_code, f"transactions of broker {broker.node_id}")
            for each in answer.transaction_states:
                found[str(each.transactional_id)] = TransactionListing(
                    transactional_id=str(each.transactional_id),
                    coordinator=broker.node_id,
                    producer_id=int(each.producer_id),
                    state=each.transaction_state,
                )
        return found

    return [each for _, each in sorted((await admin.repeat(attempt)).items())]


async def describe(
    admin: AdminClient, transactional_ids: Sequence[str]
) -> dict[str, Transaction | None]:
    """Return what the coordinators know of each id; None stands for an id that none knows.

    Raises RequestRefused.
    """

    async def ask(coordinator: Coordinator, ids: Sequence[str]) -> Mapping[str, Transaction | None]:
        answer = await admin.request(
            "describe_transactions", to=coordinator.address, transactional_ids=ids
        )
        return {
            str(each.transactional_id): _transaction(coordinator, each)
            for each in answer.transaction_states
        }

    return await ask_each(admin, KeyType.transaction, transactional_ids, ask)


def _transaction(coordinator: Coordinator, answer: Any) -> Transaction | None:
    if answer.error_code is ErrorCode.transactional_id_not_found:
        return None
    check(answer.error_code, f"transactional id {answer.transactional_id}")
    start = answer.transaction_start_time
    return Transaction(
        transactional_id=str(answer.transactional_id),
        coordinator=coordinator,
        producer_id=int(answer.producer_id),
        producer_epoch=int(answer.producer_epoch),
        state=answer.transaction_state,
        timeout_ms=answer.transaction_timeout // _MS,
        start_ms=None if start is None else (start - _EPOCH) // _MS,
        partitions=tuple(
            TopicPartition(str(topic.topic), int(number))
            for topic in answer.topics
            for number in topic.partitions
        ),
    )


async def abort(admin: AdminClient, partition: TopicPartition, marker: Marker) -> None:
    """Abort the open transaction of a producer in one partition, and in this partition only.

    The marker goes to the partition's leader, past the coordinator. Raises BadRequest,
    RequestRefused.
    """

    async def attempt() -> None:
        (leader,) = await inspection.by_leader(admin, [partition])
        answer = await admin.request(
            "write_txn_markers",
            to=leader,
            markers=[
                {
                    "producer_id": marker.producer_id,
                    "producer_epoch": marker.producer_epoch,
                    "coordinator_epoch": marker.coordinator_epoch,
                    "transaction_result": False,
                    "topics": [
                        {"name": partition.topic, "partition_indexes": [partition.partition]}
                    ],
                }
            ],
        )
        for written in answer.markers:
            for topic in written.topics:
                for each in topic.partitions:
                    check(each.error_code, f"abort of producer {marker.producer_id} in {partition}")

    await admin.repeat(attempt)


async def terminate(admin: AdminClient, transactional_id: str) -> None:
    """Abort the open transaction of an id, if any, and fence its producer (InitProducerId).

    The coordinator does both, in all partitions. Raises RequestRefused.
    """

    async def ask(coordinator: Coordinator, _: Sequence[str]) -> Mapping[str, None]:
        answer = await admin.request(
            "init_producer_id",
            to=coordinator.address,
            transactional_id=transactional_id,
            transaction_timeout=admin.request_timeout,
            producer_id=_NO_PRODUCER,
            producer_epoch=_NO_PRODUCER,
        )
        check(answer.error_code, f"transactional id {transactional_id}")
        return {transactional_id: None}

    await ask_each(admin, KeyType.transaction, [transactional_id], ask)
