"""Positions in logs, as Kafka's broker answers for them."""

from typing import Any, cast

import pytest
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from nodes.log.batch import Record, encode_batch
from nodes.server.requests.list_offsets import OffsetsHandler
from nodes.wire.versions import fill
from tests.support.nodes import virtual_time
from tests.support.nodes.batches import write_in_transaction
from tests.support.nodes.fetching import FOLLOWER, SOMEBODY, FetchBroker

LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH = 2, 23
CONSUMER, BROKER, DEBUGGER = -1, 2, -2


def at(timestamp_ms: int) -> bytes:
    return encode_batch([Record(value=b"x")], timestamp_ms=timestamp_ms)


def broker() -> FetchBroker:
    """Offsets 0 and 1 of epoch 5 at times 100 and 300 committed; 2, of epoch 6, at 200 is not."""
    made = FetchBroker(1)
    made.replica(0).append(at(100))
    made.replica(0).append(at(300))
    made.commit(0)
    made.assign(0, epoch=6)
    made.replica(0).append(at(200))
    return made


def ask(
    made: FetchBroker,
    timestamp_ms: int,
    *,
    replica_id: int = CONSUMER,
    version: int = 10,
    times: int = 1,
    epoch: int = -1,
    isolation_level: int = 0,
) -> tuple[ErrorCode, int, int, int]:
    part = {"partition_index": 0, "timestamp": timestamp_ms, "current_leader_epoch": epoch}
    request = fill(
        load_request_schema(LIST_OFFSETS, version),
        replica_id=replica_id,
        isolation_level=isolation_level,
        topics=[{"name": "t0", "partitions": [part] * times}],
    )
    response = OffsetsHandler(cast(Any, made.hosted)).list_offsets(request, SOMEBODY)
    answer = response.topics[0].partitions[0]
    return answer.error_code, answer.offset, answer.timestamp, getattr(answer, "leader_epoch", -1)


@pytest.mark.parametrize(
    ("timestamp_ms", "replica_id", "expected"),
    [
        (-2, CONSUMER, (0, -1, 5)),  # the first record's epoch
        (-4, CONSUMER, (0, -1, 5)),  # nothing is tiered: the local log is the log
        (-5, CONSUMER, (-1, -1, -1)),
        (-1, CONSUMER, (2, -1, 6)),  # the current epoch
        (-1, BROKER, (3, -1, 6)),
        (-3, CONSUMER, (1, 300, 5)),
        (50, CONSUMER, (0, 100, 5)),
        (101, CONSUMER, (1, 300, 5)),
        (301, CONSUMER, (-1, -1, -1)),
    ],
)
def test_list_offsets(timestamp_ms: int, replica_id: int, expected: tuple[int, int, int]) -> None:
    """Earliest, latest, by time, with the epoch of the record there; nothing uncommitted."""

    async def run() -> None:
        answer = ask(broker(), timestamp_ms, replica_id=replica_id)
        assert answer == (ErrorCode.none, *expected)

    virtual_time.run(run())


@pytest.mark.parametrize(
    ("timestamp_ms", "version", "supported"),
    [(-3, 6, False), (-3, 7, True), (-4, 7, False), (-4, 8, True), (-5, 8, False), (-6, 10, False)],
)
def test_special_timestamps_need_their_version(
    timestamp_ms: int, version: int, supported: bool
) -> None:
    """In older versions they are UNSUPPORTED_VERSION, not a time before 1970."""

    async def run() -> None:
        error = ask(broker(), timestamp_ms, version=version)[0]
        assert error is (ErrorCode.none if supported else ErrorCode.unsupported_version)

    virtual_time.run(run())


def test_new_leader_does_not_report_a_latest_offset_below_its_epoch_start() -> None:
    """Until the high watermark reaches its epoch's start; smaller offsets may be reported
    (KIP-207)."""

    async def run() -> None:
        made = FetchBroker(1)
        for stamp in (100, 200):
            made.replica(0).append(at(stamp))
        made.assign(0, epoch=6)
        assert ask(made, -1)[0] is ErrorCode.offset_not_available
        assert ask(made, -1, version=4)[0] is ErrorCode.leader_not_available
        assert ask(made, 150)[0] is ErrorCode.offset_not_available
        assert ask(made, -2)[:2] == (ErrorCode.none, 0)
        made.commit(0)
        assert ask(made, -1)[:2] == (ErrorCode.none, 2)

    virtual_time.run(run())


def test_list_offsets_checks_leadership_and_duplicates() -> None:
    """The leader, in the client's epoch; any replica for a debugging tool; no partition twice."""

    async def run() -> None:
        made = broker()
        assert ask(made, -1, epoch=5)[0] is ErrorCode.fenced_leader_epoch
        assert ask(made, -1, times=2)[0] is ErrorCode.invalid_request
        made.assign(0, epoch=7, leader=FOLLOWER)
        assert ask(made, -1)[0] is ErrorCode.not_leader_or_follower
        assert ask(made, -1, replica_id=DEBUGGER)[:2] == (ErrorCode.none, 3)

    virtual_time.run(run())


@pytest.mark.parametrize(
    ("epoch", "expected"), [(4, (4, 0)), (5, (5, 2)), (6, (6, 3)), (7, (-1, -1)), (-1, (-1, -1))]
)
@pytest.mark.parametrize("version", [2, 3, 4])
def test_offset_for_leader_epoch(epoch: int, expected: tuple[int, int], version: int) -> None:
    """The largest epoch not above the requested one, and its end; unknown above the newest
    (KIP-320)."""

    async def run() -> None:
        request = fill(
            load_request_schema(OFFSET_FOR_LEADER_EPOCH, version),
            topics=[{"topic": "t0", "partitions": [{"partition": 0, "leader_epoch": epoch}]}],
        )
        made = broker()
        response = OffsetsHandler(cast(Any, made.hosted)).offset_for_leader_epoch(request, SOMEBODY)
        answer = response.topics[0].partitions[0]
        assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (
            ErrorCode.none,
            *expected,
        )

    virtual_time.run(run())


@pytest.mark.parametrize(
    ("timestamp_ms", "replica_id", "isolation_level", "offset"),
    [
        (-1, CONSUMER, 0, 3),
        (-1, CONSUMER, 1, 1),
        (-1, BROKER, 1, 4),
        (300, CONSUMER, 0, 1),
        (300, CONSUMER, 1, -1),
        (-3, CONSUMER, 1, -1),
        (100, CONSUMER, 1, 0),
    ],
)
def test_nothing_from_the_last_stable_offset_on_for_read_committed(
    timestamp_ms: int, replica_id: int, isolation_level: int, offset: int
) -> None:
    """Offset 1 begins an open transaction; 3 is not committed by the replicas."""
    made = FetchBroker(1)
    made.replica(0).append(at(100))
    log = made.replica(0).log
    write_in_transaction(log, (7, 0, 0), timestamp_ms=300)
    made.replica(0).append(at(200))
    made.commit(0)
    made.replica(0).append(at(400))
    answer = ask(made, timestamp_ms, replica_id=replica_id, isolation_level=isolation_level)
    assert answer[:2] == (ErrorCode.none, offset)
