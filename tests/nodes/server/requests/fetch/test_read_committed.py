"""Fetches with isolation.level=read_committed: the last stable offset and aborted transactions."""

import asyncio
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from nodes.ids import NodeId
from nodes.log.batch import assemble, iter_batches, read_header
from nodes.log.transactions.markers import Marker, encode_marker
from tests.support.nodes import virtual_time
from tests.support.nodes.batches import end_transaction, write_in_transaction
from tests.support.nodes.fetching import BATCH, EPOCH, FOLLOWER, FetchBroker, only

P, Q = 7, 8
READ_COMMITTED = {"isolation_level": 1}


def broker() -> FetchBroker:
    """P aborts 0..3, Q commits 1..4, 5 is in no transaction, P writes 6 and goes on; committed."""
    made = FetchBroker(1)
    log = made.replica(0).log
    write_in_transaction(log, (P, 0, 0))
    write_in_transaction(log, (Q, 0, 0))
    write_in_transaction(log, (P, 0, 1))
    end_transaction(log, P)
    end_transaction(log, Q, committed=True)
    made.replica(0).append(BATCH)
    write_in_transaction(log, (P, 0, 2))
    made.commit(0)
    return made


def offsets(part: Any) -> list[int]:
    """The base offsets of the batches in a partition of a response."""
    return [header.base_offset for _, header in iter_batches(part.records or b"")]


def aborted(part: Any) -> list[tuple[int, int]] | None:
    """Producer ids and first offsets of the aborted transactions of a response."""
    if part.aborted_transactions is None:
        return None
    return [(each.producer_id, each.first_offset) for each in part.aborted_transactions]


@pytest.mark.parametrize("version", [4, 11, 12, 13, 18])
def test_read_committed_ends_at_the_last_stable_offset(version: int) -> None:
    """And names what was aborted; read_uncommitted gets everything, and no names."""
    made = broker()
    part = only(made.answer(made.request({0: 0}, version=version, **READ_COMMITTED)))
    assert offsets(part) == [0, 1, 2, 3, 4, 5]
    assert aborted(part) == [(P, 0)]
    assert (part.high_watermark, part.last_stable_offset) == (7, 6)
    plain = only(made.answer(made.request({0: 0}, version=version)))
    assert offsets(plain) == [0, 1, 2, 3, 4, 5, 6]
    assert aborted(plain) is None
    assert (plain.high_watermark, plain.last_stable_offset) == (7, 6)


def test_only_aborted_transactions_of_the_range_are_named() -> None:
    """From the batch that was read first to the end of the last one."""
    made = broker()
    log = made.replica(0).log
    end_transaction(log, P)
    made.commit(0)
    for offset, wanted in ((0, [(P, 0)]), (3, [(P, 0)]), (4, []), (6, [(P, 6)]), (7, [(P, 6)])):
        request = made.request({0: offset}, part={"partition_max_bytes": 1}, **READ_COMMITTED)
        part = only(made.answer(request))
        assert offsets(part) == [offset]
        assert aborted(part) == wanted


def test_response_ends_behind_a_marker_that_lost_its_record() -> None:
    """A consumer cannot see that it aborts. In the next response nothing is aborted."""
    made = FetchBroker(1)
    log = made.replica(0).log
    write_in_transaction(log, (P, 0, 0))
    marker = read_header(encode_marker(Marker(P, 0, 1, committed=False), 1)).without_records()
    place = marker._replace(base_offset=log.end_offset, partition_leader_epoch=EPOCH)
    log.append_as_follower(assemble(place))
    write_in_transaction(log, (P, 0, 1))
    end_transaction(log, P, committed=True)
    made.commit(0)
    seen = []
    for offset in (0, 2):
        part = only(made.answer(made.request({0: offset}, **READ_COMMITTED)))
        seen.append((offsets(part), aborted(part)))
    assert seen == [([0, 1], [(P, 0)]), ([2, 3], [])]


def test_a_log_without_aborted_transactions_names_none() -> None:
    """An empty list, as Kafka's."""
    made = FetchBroker(1)
    made.replica(0).append(BATCH)
    made.commit(0)
    assert aborted(only(made.answer(made.request({0: 0}, **READ_COMMITTED)))) == []


def test_a_follower_reads_to_the_end_of_the_log() -> None:
    """Whatever its request says."""
    made = broker()
    end_transaction(made.replica(0).log, P)
    part = only(made.answer(made.request({0: 6}, node=FOLLOWER, **READ_COMMITTED)))
    assert offsets(part) == [6, 7]
    assert aborted(part) is None


def test_a_consumer_reads_from_a_follower_to_its_last_stable_offset() -> None:
    """The follower knows the transactions from its copy of the log (KIP-392)."""
    leader = broker()
    copy = FetchBroker(1, local=NodeId(2))
    records = leader.replica(0).log.read(0, 1 << 20, leader.replica(0).log.end_offset)  # type: ignore[arg-type]
    copy.replica(0).append_fetched(records, leader.replica(0).state.high_watermark)
    part = only(copy.answer(copy.request({0: 0}, **READ_COMMITTED)))
    assert (offsets(part), aborted(part)) == ([0, 1, 2, 3, 4, 5], [(P, 0)])
    assert part.last_stable_offset == 6


def test_a_waiting_fetch_ends_when_the_marker_is_committed() -> None:
    """Not when it is appended, nor when other records are committed."""
    made = broker()

    async def run() -> None:
        waiting = asyncio.ensure_future(made.fetch({0: 6}, max_wait_ms=60_000, **READ_COMMITTED))
        replica = made.replica(0)
        replica.append(BATCH)
        made.commit(0)
        await asyncio.sleep(1)
        replica.append_marker(Marker(P, 1, 0, committed=True), 1, transaction_version=2)
        await asyncio.sleep(1)
        assert not waiting.done()
        made.commit(0)
        part = only(await waiting)
        assert offsets(part) == [6, 7, 8]
        assert (part.last_stable_offset, asyncio.get_running_loop().time()) == (9, 2.0)

    virtual_time.run(run())


def test_a_session_hears_of_the_end_of_a_transaction() -> None:
    """The partition was not in the response before, because nothing could be read."""
    made = broker()
    first = made.answer(made.request({0: 6}, session=(0, 0), **READ_COMMITTED))
    assert offsets(only(first)) == []
    again = made.request({}, session=(first.session_id, 1), **READ_COMMITTED)
    assert made.answer(again).responses == ()
    replica = made.replica(0)
    replica.append_marker(Marker(P, 0, 0, committed=False), 1, transaction_version=0)
    again = made.request({}, session=(first.session_id, 2), **READ_COMMITTED)
    assert made.answer(again).responses == ()
    made.commit(0)
    again = made.request({}, session=(first.session_id, 3), **READ_COMMITTED)
    part = only(made.answer(again))
    assert (offsets(part), aborted(part), part.error_code) == ([6, 7], [(P, 6)], ErrorCode.none)
