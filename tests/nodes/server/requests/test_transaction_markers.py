"""WriteTxnMarkers: markers are appended, and answered when they are committed."""

import asyncio
import inspect
from typing import Any, cast

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from nodes.ids import Offset
from nodes.log.transactions.markers import Marker, decode_marker
from nodes.server.requests.transaction_markers import TIMEOUT_S, TransactionMarkersHandler
from nodes.wire.versions import fill
from tests.support.nodes import virtual_time
from tests.support.nodes.batches import write_in_transaction
from tests.support.nodes.fetching import SOMEBODY, FetchBroker

WRITE_TXN_MARKERS = 27
P = 7
NONE = ErrorCode.none


def marker(*topics: str, epoch: int = 0, **values: Any) -> dict[str, Any]:
    """A marker for partition 0 of each topic."""
    fields = {
        "producer_id": P,
        "producer_epoch": epoch,
        "transaction_result": True,
        "coordinator_epoch": 3,
        "topics": [{"name": topic, "partition_indexes": [0]} for topic in topics],
    }
    return {**fields, **values}


def start(made: FetchBroker, *markers: dict[str, Any], version: int = 2) -> Any:
    """The response, or an awaitable of it."""
    handler = TransactionMarkersHandler(cast(Any, made.hosted), lambda: 5000)
    request = fill(load_request_schema(WRITE_TXN_MARKERS, version), markers=list(markers))
    return handler.handle(request, SOMEBODY)


def errors(response: Any) -> list[ErrorCode]:
    """The error of each partition."""
    return [
        part.error_code
        for each in response.markers
        for topic in each.topics
        for part in topic.partitions
    ]


def alone(made: FetchBroker) -> FetchBroker:
    """The leader is the only replica in sync, so that what is appended is committed."""
    for number in range(len(made.hosted.replicas)):
        made.assign(number, isr=(1,))
    return made


@pytest.mark.parametrize("version", [1, 2])
def test_a_marker_is_in_the_log_of_each_partition(version: int) -> None:
    """With the epoch of the coordinator, at the broker's time."""
    made = alone(FetchBroker(2))
    write_in_transaction(made.replica(0).log, (P, 0, 0))
    response = start(made, marker("t0", "t1"), version=version)
    assert errors(response) == [NONE, NONE]
    assert response.markers[0].producer_id == P
    log = made.replica(0).log
    stored = log.read(Offset(1), 1000, Offset(2))
    assert decode_marker(stored) == Marker(P, 0, 3, committed=True)
    assert made.replica(1).log.end_offset == 1
    producer = log.producers.get(P)
    assert producer is not None
    assert (producer.last_timestamp, producer.transaction_start) == (5000, -1)


def test_the_response_waits_for_the_commit() -> None:
    """The coordinator forgets the transaction after it."""
    made = FetchBroker(1)

    async def run() -> None:
        waiting = asyncio.ensure_future(start(made, marker("t0")))
        await asyncio.sleep(1)
        assert not waiting.done()
        made.commit(0)
        assert errors(await waiting) == [NONE]

    virtual_time.run(run())


def test_a_marker_that_is_not_committed_in_time_is_to_be_sent_again() -> None:
    """Nobody waits for it any more."""
    made = FetchBroker(1)

    async def run() -> None:
        assert errors(await start(made, marker("t0"))) == [ErrorCode.request_timed_out]
        assert asyncio.get_running_loop().time() == TIMEOUT_S
        assert not made.replica(0)._awaiting_commit

    virtual_time.run(run())


def test_a_lost_leadership_ends_the_wait() -> None:
    """The new leader may not have the marker."""
    made = FetchBroker(1)

    async def run() -> None:
        waiting = asyncio.ensure_future(start(made, marker("t0")))
        await asyncio.sleep(1)
        made.assign(0, leader=cast(Any, 2), epoch=6)
        assert errors(await waiting) == [ErrorCode.not_leader_or_follower]

    virtual_time.run(run())


def test_each_partition_has_its_own_error() -> None:
    """Another leader, an unknown partition, and a good one."""
    made = alone(FetchBroker(2))
    made.assign(1, leader=cast(Any, 2), epoch=6)
    response = start(made, marker("t0", "t1", "t2"))
    assert not inspect.isawaitable(response)
    assert errors(response) == [
        NONE,
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_or_partition,
    ]


def test_fenced_markers_are_refused() -> None:
    """By the producer's epoch, and by the coordinator's; v2 says which epochs are valid."""
    made = alone(FetchBroker(1))
    write_in_transaction(made.replica(0).log, (P, 5, 0))
    assert errors(
        start(
            made,
            marker("t0", epoch=4),
            marker("t0", epoch=5, transaction_version=2),
            marker("t0", epoch=6, transaction_version=2),
            marker("t0", epoch=6, coordinator_epoch=2),
        )
    ) == [
        ErrorCode.invalid_producer_epoch,
        ErrorCode.invalid_producer_epoch,
        NONE,
        ErrorCode.transaction_coordinator_fenced,
    ]


def test_too_few_in_sync_replicas_get_no_marker() -> None:
    """As with every acks=all append."""
    made = alone(FetchBroker(1))
    made.replica(0).state.min_isr = 2
    assert errors(start(made, marker("t0"))) == [ErrorCode.not_enough_replicas]
    assert made.replica(0).log.end_offset == 0


def test_the_replica_tells_of_each_marker_in_the_order_of_the_log() -> None:
    """Before it is committed, with its offset; a refused one is not mentioned."""
    made = alone(FetchBroker(1))
    heard: list[tuple[Marker, int, int]] = []
    replica = made.replica(0)
    replica.on_marker = lambda marker, offset: heard.append(
        (marker, offset, replica.state.high_watermark)
    )
    write_in_transaction(replica.log, (P, 0, 0))
    replica.advance()
    start(made, marker("t0"), marker("t0", transaction_result=False), marker("t0", epoch=-1))
    assert heard == [(Marker(P, 0, 3, True), 1, 1), (Marker(P, 0, 3, False), 2, 2)]
