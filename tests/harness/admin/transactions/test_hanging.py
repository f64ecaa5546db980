"""Which open transactions hang."""

from typing import Any

import pytest

from harness.admin.coordinators import Coordinator
from harness.admin.descriptions import Producer
from harness.admin.transactions import hanging
from harness.admin.transactions.descriptions import OpenTransaction, Transaction
from nodes.ids import TopicPartition
from tests.support.clusters.fake_brokers import FakeBrokers

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
NOW_MS = 1_000_000


def producer(number: int = 9, start: int | None = 5, last_ms: int = 0) -> Producer:
    """A producer's state in a log."""
    return Producer(
        producer_id=number,
        epoch=0,
        last_sequence=0,
        last_timestamp_ms=last_ms,
        coordinator_epoch=-1,
        transaction_start=start,
    )


def known(*partitions: TopicPartition, state: str = "Ongoing") -> dict[int, Transaction]:
    """What the coordinators know of producer 9."""
    transaction = Transaction(
        transactional_id="x",
        coordinator=Coordinator(1, "h", 9092),
        producer_id=9,
        producer_epoch=0,
        state=state,
        timeout_ms=60_000,
        start_ms=None,
        partitions=partitions,
    )
    return {9: transaction}


def test_open_transactions_are_those_with_a_start_in_its_order() -> None:
    found = hanging.open_transactions(
        {A0: [producer(1, 8), producer(2, None), producer(3, 0)], A1: [producer(4, 1)]}
    )
    assert [(each.partition, each.producer.producer_id) for each in found] == [
        (A0, 3),
        (A0, 1),
        (A1, 4),
    ]


@pytest.mark.parametrize(("last_ms", "is_old"), [(NOW_MS - 100, False), (NOW_MS - 101, True)])
def test_transaction_is_old_when_its_producer_has_not_written_for_longer(
    last_ms: int, is_old: bool
) -> None:
    each = OpenTransaction(partition=A0, producer=producer(last_ms=last_ms))
    assert hanging.is_old(each, NOW_MS, 100) == is_old


@pytest.mark.parametrize(
    ("found", "hangs"),
    [
        ({}, True),
        (known(A1), True),
        (known(state="Empty"), True),
        (known(A1, A0), False),
        (known(A0, state="PrepareAbort"), False),
    ],
    ids=["unknown producer", "other partition", "no transaction", "ongoing", "being aborted"],
)
def test_transaction_hangs_unless_its_coordinator_has_the_partition(
    found: dict[int, Transaction], hangs: bool
) -> None:
    each = OpenTransaction(partition=A0, producer=producer())
    assert hanging.is_hanging(each, found) == hangs


def test_search_asks_coordinators_only_about_old_transactions() -> None:
    """Of producers 7 (no longer known), 8 (just now) and 9 (known, but in another partition)."""
    describe_producers, describe, list_ = 61, 65, 66
    brokers = FakeBrokers()
    brokers.coordinators = {"x": 1}
    brokers.topics = [{"name": "a", "partitions": [{"partition_index": 0, "leader_id": 2}]}]
    producers = [
        {"producer_id": number, "current_txn_start_offset": number, "last_timestamp": last_ms}
        for number, last_ms in ((7, 0), (8, NOW_MS - 5), (9, 0))
    ]
    rows = [{"partition_index": 0, "active_producers": producers}]
    brokers.answer(describe_producers, lambda _: {"topics": [{"name": "a", "partitions": rows}]})

    def listing(request: Any) -> dict[str, Any]:
        assert request.producer_id_filters == (7, 9)
        return {"transaction_states": [{"transactional_id": "x", "producer_id": 9}]}

    brokers.answer(list_, listing)
    state = {"transactional_id": "x", "producer_id": 9, "topics": []}
    brokers.answer(describe, lambda _: {"transaction_states": [state]}, 1)
    found = brokers.run(lambda admin: hanging.find(admin, [A0], now_ms=NOW_MS, max_timeout_ms=1000))
    assert [each.producer.producer_id for each in found] == [7, 9]
    state["topics"] = [{"topic": "a", "partitions": [0]}]
    found = brokers.run(lambda admin: hanging.find(admin, [A0], now_ms=NOW_MS, max_timeout_ms=1000))
    assert [each.producer.producer_id for each in found] == [7]
