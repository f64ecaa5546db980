"""Requests about transactions, against fake brokers."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.admin import inspection
from harness.admin.coordinators import KeyType
from harness.admin.errors import BadRequest, RequestRefused
from harness.admin.transactions import requests
from harness.admin.transactions.descriptions import Marker
from nodes.ids import TopicPartition
from tests.support.clusters.fake_brokers import FIND_COORDINATOR, FakeBrokers

INIT_PRODUCER_ID, WRITE_MARKERS, DESCRIBE_PRODUCERS, DESCRIBE, LIST = 22, 27, 61, 65, 66
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
MARKER = Marker(producer_id=9, producer_epoch=3, coordinator_epoch=4)
REFUSED = ErrorCode.invalid_producer_epoch


@pytest.fixture
def brokers() -> FakeBrokers:
    """Two brokers; broker 1 coordinates transactional id x, broker 2 leads a-0 and a-1."""
    found = FakeBrokers()
    found.coordinators = {"x": 1, "y": 2}
    rows = [{"partition_index": number, "leader_id": 2} for number in (0, 1)]
    found.topics = [{"name": "a", "partitions": rows}]
    return found


def test_every_broker_lists_its_transactional_ids(brokers: FakeBrokers) -> None:
    """The filters reach the brokers; one that still loads is asked again."""
    codes = iter([ErrorCode.coordinator_load_in_progress, ErrorCode.none])

    def first(_: Any) -> dict[str, Any]:
        row = {"transactional_id": "y", "producer_id": 8, "transaction_state": "Ongoing"}
        return {"error_code": next(codes), "transaction_states": [row]}

    row = {"transactional_id": "x", "producer_id": 9, "transaction_state": "Empty"}
    brokers.answer(LIST, first, 1)
    brokers.answer(LIST, lambda _: {"transaction_states": [row]}, 2)
    found = brokers.run(
        lambda admin: requests.listed(admin, states=["Empty"], producer_ids={9}, longer_than_ms=7)
    )
    assert [(each.transactional_id, each.coordinator, each.state) for each in found] == [
        ("x", 2, "Empty"),
        ("y", 1, "Ongoing"),
    ]
    request = brokers.seen(1, LIST)[0]
    assert (request.state_filters, request.producer_id_filters) == (("Empty",), (9,))
    assert request.duration_filter == 7


def test_transaction_is_described_by_its_coordinator(brokers: FakeBrokers) -> None:
    """An id that the coordinator does not know is None, and a missing start too."""
    known = {
        "transactional_id": "x",
        "transaction_state": "Ongoing",
        "transaction_timeout": timedelta(minutes=1),
        "transaction_start_time": datetime.fromtimestamp(4.001, UTC),
        "producer_id": 9,
        "producer_epoch": 3,
        "topics": [{"topic": "a", "partitions": [1, 0]}],
    }
    unknown = {"transactional_id": "y", "error_code": ErrorCode.transactional_id_not_found}
    brokers.answer(DESCRIBE, lambda _: {"transaction_states": [known]}, 1)
    brokers.answer(DESCRIBE, lambda _: {"transaction_states": [unknown]}, 2)
    found = brokers.run(lambda admin: requests.describe(admin, ["x", "y"]))
    assert found["y"] is None
    transaction = found["x"]
    assert transaction is not None
    assert (transaction.coordinator.node_id, transaction.state) == (1, "Ongoing")
    assert (transaction.timeout_ms, transaction.start_ms) == (60_000, 4001)
    assert (transaction.producer_id, transaction.producer_epoch) == (9, 3)
    assert transaction.partitions == (A1, A0)
    assert brokers.seen(2, FIND_COORDINATOR)[0].key_type == KeyType.transaction
    known["transaction_start_time"] = None
    described = brokers.run(lambda admin: requests.describe(admin, ["x"]))["x"]
    assert described is not None
    assert described.start_ms is None


def test_abort_is_a_marker_for_one_partition_sent_to_its_leader(brokers: FakeBrokers) -> None:
    codes = iter([ErrorCode.not_leader_or_follower, ErrorCode.none])

    def answer(_: Any) -> dict[str, Any]:
        partitions = [{"partition_index": 1, "error_code": next(codes)}]
        return {
            "markers": [{"producer_id": 9, "topics": [{"name": "a", "partitions": partitions}]}]
        }

    brokers.answer(WRITE_MARKERS, answer, 2)
    brokers.run(lambda admin: requests.abort(admin, A1, MARKER))
    _, request = brokers.seen(2, WRITE_MARKERS)
    (sent,) = request.markers
    assert (sent.producer_id, sent.producer_epoch, sent.coordinator_epoch) == (9, 3, 4)
    assert sent.transaction_result is False
    assert [(each.name, each.partition_indexes) for each in sent.topics] == [("a", (1,))]


def test_refused_abort_names_producer_and_partition(brokers: FakeBrokers) -> None:
    partitions = [{"partition_index": 0, "error_code": REFUSED}]
    markers = [{"producer_id": 9, "topics": [{"name": "a", "partitions": partitions}]}]
    brokers.answer(WRITE_MARKERS, lambda _: {"markers": markers})
    with pytest.raises(RequestRefused, match="producer 9 in a-0: INVALID_PRODUCER_EPOCH"):
        brokers.run(lambda admin: requests.abort(admin, A0, MARKER))


def test_termination_waits_for_the_end_of_the_transaction(brokers: FakeBrokers) -> None:
    """The coordinator answers CONCURRENT_TRANSACTIONS until it has aborted it."""
    codes = iter([ErrorCode.concurrent_transactions, ErrorCode.none])
    brokers.answer(INIT_PRODUCER_ID, lambda _: {"error_code": next(codes)}, 1)
    brokers.run(lambda admin: requests.terminate(admin, "x"))
    request = brokers.seen(1, INIT_PRODUCER_ID)[-1]
    assert (request.transactional_id, request.producer_id, request.producer_epoch) == ("x", -1, -1)


def test_producers_are_asked_of_leaders_or_of_one_broker(brokers: FakeBrokers) -> None:
    def answer(request: Any) -> dict[str, Any]:
        producer = {"producer_id": 9, "current_txn_start_offset": 5}
        rows = [
            {"partition_index": number, "active_producers": [producer]}
            for number in request.topics[0].partition_indexes
        ]
        return {"topics": [{"name": "a", "partitions": rows}]}

    brokers.answer(DESCRIBE_PRODUCERS, answer)
    found = brokers.run(lambda admin: inspection.producers(admin, [A1, A0]))
    assert list(found) == [A0, A1]
    assert found[A0][0].transaction_start == 5
    assert len(brokers.seen(2, DESCRIBE_PRODUCERS)) == 1
    brokers.run(lambda admin: inspection.producers(admin, [A0], broker=1))
    assert len(brokers.seen(1, DESCRIBE_PRODUCERS)) == 1


def test_broker_without_a_replica_is_named_at_once(brokers: FakeBrokers) -> None:
    """A leader that has moved is asked for again instead."""
    rows = [{"partition_index": 0, "error_code": ErrorCode.not_leader_or_follower}]
    answer = {"topics": [{"name": "a", "partitions": rows}]}
    brokers.answer(DESCRIBE_PRODUCERS, lambda _: answer)
    with pytest.raises(BadRequest, match="broker 1 has no replica of a-0"):
        brokers.run(lambda admin: inspection.producers(admin, [A0], broker=1))
