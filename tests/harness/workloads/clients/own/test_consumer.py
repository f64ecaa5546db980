"""Our own consumer: a log that is truncated below its position is reported and read again."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.workloads.clients.own.cluster import Cluster, Timing
from harness.workloads.clients.own.consumer import (
    OUT_OF_RANGE,
    TRUNCATED,
    Consumer,
    ConsumerSettings,
)
from harness.workloads.clients.own.records import Fetched
from tests.support.clients.scripted_brokers import (
    EPOCH_ENDS,
    FETCH,
    LIST_OFFSETS,
    Script,
    fetched,
    wanted,
)

SETTINGS = ConsumerSettings(rewind_records=2)
TIMING = Timing(metadata_age_s=0.2)


class Notes:
    """A reader that writes down what it is told, in order."""

    def __init__(self) -> None:
        self.read: list[int] = []
        self.moves: list[tuple[int, str]] = []
        self.errors: list[str] = []

    def polled(self, invoke_ns: int, node: int, read: Sequence[tuple[int, Fetched]]) -> None:
        self.read += [record.offset for _, each in read for record in each.records]

    def truncated(self, partition: int, reason: str) -> bool:
        return True

    def moved(self, invoke_ns: int, partition: int, offset: int, reason: str) -> None:
        self.moves.append((offset, reason))

    def failed(self, partition: int, error: str) -> None:
        self.errors.append(error)


class Log(Script):
    """The script of a log whose records' epochs are `epochs`, by offset."""

    def __init__(self, epochs: Sequence[int]) -> None:
        super().__init__()
        self.epochs = list(epochs)
        self.answers |= {
            FETCH: self.fetch,
            LIST_OFFSETS: self.list_offsets,
            EPOCH_ENDS: self.epoch_ends,
        }

    def fetch(self, node: int, request: Any) -> Mapping[str, Any]:
        offset = wanted(request).fetch_offset
        if node != self.leader[0]:
            return fetched({}, error_code=ErrorCode.not_leader_or_follower)
        if offset > len(self.epochs):
            return fetched({}, error_code=ErrorCode.offset_out_of_range)
        return fetched(dict(enumerate(self.epochs)), offset)

    def list_offsets(self, node: int, request: Any) -> Mapping[str, Any]:
        earliest = request.topics[0].partitions[0].timestamp == -2
        row = {"partition_index": 0, "offset": 0 if earliest else len(self.epochs)}
        return {"topics": [{"name": "t", "partitions": [row]}]}

    def epoch_ends(self, node: int, request: Any) -> Mapping[str, Any]:
        asked = wanted(request).leader_epoch
        end = sum(epoch <= asked for epoch in self.epochs)
        row = {"partition": 0, "leader_epoch": asked, "end_offset": end}
        return {"topics": [{"topic": "t", "partitions": [row]}]}

    def read(self, *, begin: int = 0, change: Any = None) -> Notes:
        """Read for a while, let `change` happen, read on."""
        notes = Notes()

        async def client(cluster: Cluster) -> None:
            loop = asyncio.get_running_loop()
            reading = Consumer(
                cluster, SETTINGS, {0: begin}, notes, now_ns=lambda: int(loop.time() * 1e9)
            )
            reading.fetch_due()
            await asyncio.sleep(1)
            if change is not None:
                change()
            await asyncio.sleep(2)
            await reading.close()

        self.run(client, TIMING)
        return notes


def test_records_are_read_once_and_in_order() -> None:
    """They begin at the given offset; earlier records of the same batch are left out."""
    assert Log([0] * 5).read(begin=2).read == [2, 3, 4]


def test_position_beyond_the_log_goes_back_and_is_reported() -> None:
    """The consumer goes on some records before the end of the log."""
    notes = Log([0] * 5).read(begin=9)
    assert notes.moves == [(3, OUT_OF_RANGE)]
    assert notes.read == [3, 4]


def test_truncation_at_a_new_leader_is_found_by_the_epoch() -> None:
    """KIP-320: the epoch of the last record read ends earlier at the new leader."""
    log = Log([0] * 6)

    def replaced() -> None:
        log.epochs = [0, 0, 0, 0, 1, 1, 1]
        log.leader = (2, 1)

    notes = log.read(change=replaced)
    assert notes.moves == [(2, TRUNCATED)]
    assert notes.read == [0, 1, 2, 3, 4, 5, 2, 3, 4, 5, 6]
    assert [node for node, r in log.seen if int(r.__api_key__) == EPOCH_ENDS] == [2]


def test_new_leader_with_all_records_changes_nothing() -> None:
    """It is asked once."""
    log = Log([0] * 3)

    def replaced() -> None:
        log.epochs = [0, 0, 0, 1]
        log.leader = (2, 1)

    notes = log.read(change=replaced)
    assert (notes.moves, notes.read) == ([], [0, 1, 2, 3])
    assert len(log.asked(EPOCH_ENDS)) == 1


def test_fetch_may_report_a_truncation() -> None:
    """The leader compares the epoch of the record before the position."""
    log = Log([0] * 6)

    def cut() -> None:
        log.epochs = [0, 0, 0]
        told = fetched({}, diverging_epoch={"epoch": 0, "end_offset": 3})
        whole = log.fetch

        def fetch(node: int, request: Any) -> Mapping[str, Any]:
            return told if wanted(request).fetch_offset > 3 else whole(node, request)

        log.answers[FETCH] = fetch

    notes = log.read(change=cut)
    assert notes.moves == [(1, TRUNCATED)]
    assert wanted(log.asked(FETCH)[-1]).last_fetched_epoch == 0


def test_batch_with_a_wrong_checksum_is_fetched_again() -> None:
    """It is not read."""
    log = Log([0])
    whole = log.fetch

    def fetch(node: int, request: Any) -> Mapping[str, Any]:
        row = dict(whole(node, request)["responses"][0]["partitions"][0])
        if row["records"] and len(log.asked(FETCH)) < 3:
            row["records"] = row["records"][:-1] + b"?"
        return {"responses": [{"topic": "t", "partitions": [row]}]}

    log.answers[FETCH] = fetch
    notes = log.read()
    assert (notes.read, notes.errors) == ([0], ["CORRUPT_MESSAGE"] * 2)


@pytest.mark.parametrize("code", [ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch])
def test_replaced_leader_names_its_successor(code: ErrorCode) -> None:
    """KIP-951: the new leader is asked before any metadata request."""
    log = Log([0] * 2)
    whole = log.fetch

    def fetch(node: int, request: Any) -> Mapping[str, Any]:
        if node == 2:
            log.leader = (2, 5)
            return whole(node, request)
        return fetched({}, error_code=code, current_leader={"leader_id": 2, "leader_epoch": 5})

    log.answers[FETCH] = fetch
    notes = log.read()
    assert (notes.read, notes.errors) == ([0, 1], [code.name.upper()])
    fetches = [(node, wanted(r)) for node, r in log.seen if int(r.__api_key__) == FETCH]
    assert [(node, row.current_leader_epoch) for node, row in fetches[:2]] == [(1, 0), (2, 5)]


def test_partition_that_is_dropped_is_not_read_any_more() -> None:
    """Also an answer that is under way is ignored. It may be added again at another offset."""
    log, notes = Log([0] * 6), Notes()

    async def client(cluster: Cluster) -> None:
        reading = Consumer(cluster, SETTINGS, {0: 0}, notes, now_ns=lambda: 0)
        reading.fetch_due()
        while not log.asked(FETCH):  # noqa: ASYNC110 - the script has no callback
            await asyncio.sleep(0.0001)
        reading.drop(0)
        await asyncio.sleep(1)
        assert notes.read == []
        reading.add(0, 4)
        await asyncio.sleep(1)
        await reading.close()

    log.run(client, TIMING)
    assert notes.read == [4, 5]


def test_paused_consumer_sends_no_fetch() -> None:
    """It goes on when it is told to."""
    log, notes = Log([0] * 3), Notes()

    async def client(cluster: Cluster) -> None:
        reading = Consumer(cluster, SETTINGS, {0: 0}, notes, now_ns=lambda: 0)
        reading.paused = True
        reading.fetch_due()
        await asyncio.sleep(1)
        assert log.asked(FETCH) == []
        reading.paused = False
        reading.fetch_due()
        await asyncio.sleep(1)
        await reading.close()

    log.run(client, TIMING)
    assert notes.read == [0, 1, 2]


@pytest.mark.parametrize("read_committed", [False, True])
def test_fetches_have_the_isolation_level_of_the_consumer(read_committed: bool) -> None:
    """The leader then leaves out open transactions, and names the aborted ones."""
    log, settings = Log([0]), replace(SETTINGS, read_committed=read_committed)

    async def client(cluster: Cluster) -> None:
        reading = Consumer(cluster, settings, {0: 0}, Notes(), now_ns=lambda: 0)
        reading.fetch_due()
        await asyncio.sleep(1)
        await reading.close()

    log.run(client, TIMING)
    assert {request.isolation_level for request in log.asked(FETCH)} == {int(read_committed)}
