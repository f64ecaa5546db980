"""Markers that end a transaction of their own epoch are found."""

import asyncio
from typing import Any, cast

import pytest
from kio.schema.errors import ErrorCode

from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.markers import check_marker, watch_markers
from harness.simulation.invariants.stable_offsets import LogTransactions
from nodes.ids import TopicPartition
from nodes.log.batch import read_header
from nodes.log.transactions.markers import Marker
from nodes.server.requests.transaction_markers import TransactionMarkersHandler
from tests.support.nodes.batches import content, write_in_transaction
from tests.support.nodes.fetching import FetchBroker

P = 7
PARTITION = TopicPartition("t", 0)


def opened() -> LogTransactions:
    """Producer P has an open transaction of epoch 3."""
    made = FetchBroker(1)
    write_in_transaction(made.replica(0).log, (P, 3, 0))
    model = LogTransactions()
    for stored in content(made.replica(0).log):
        model.append(read_header(stored))
    return model


def test_a_marker_of_the_epoch_of_the_open_transaction_is_found() -> None:
    """That of the transaction has a later epoch, and other producers have nothing open."""
    check_marker(PARTITION, 1, Marker(P, 4, 0, True), opened())
    check_marker(PARTITION, 1, Marker(P + 1, 3, 0, True), opened())
    for epoch in (2, 3):
        with pytest.raises(InvariantBroken, match="markers-end-earlier-epochs"):
            check_marker(PARTITION, 1, Marker(P, epoch, 0, True), opened())


@pytest.mark.parametrize(("version", "judged"), [(1, 0), (2, 1)])
def test_only_appended_markers_of_the_second_version_are_judged(version: int, judged: int) -> None:
    """In the first one every transaction of a producer has the same epoch."""
    seen: list[Marker] = []

    async def append() -> None:
        made = FetchBroker(1)
        handler = TransactionMarkersHandler(cast(Any, made.hosted), lambda: 1)
        watch_markers(handler, lambda partition, marker: seen.append(marker))
        partition = made.replica(0).partition
        marker = Marker(P, 4, 0, True)
        assert handler._append(partition, marker, version).error is ErrorCode.none
        missing = partition._replace(partition=9)
        assert handler._append(missing, marker, version).error is not ErrorCode.none

    asyncio.run(append())
    assert len(seen) == judged
