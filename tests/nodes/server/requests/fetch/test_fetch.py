"""Fetch as Kafka answers it: long polls, sessions, who may read what."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from nodes.ids import BrokerEpoch, Epoch, NodeId
from nodes.log.batch import Record, encode_batch
from nodes.metadata.image import ClusterImage, PartitionImage, TopicImage
from tests.support.nodes import virtual_time
from tests.support.nodes.fetching import (
    BATCH,
    CONSUMER,
    FOLLOWER,
    LEADER,
    FetchBroker,
    numbers,
    only,
    topic_id,
)

HOUR_MS = 3_600_000


@pytest.mark.parametrize("node", [CONSUMER, FOLLOWER])
def test_an_append_before_the_long_poll_first_runs_wakes_it(node: NodeId) -> None:
    """A produce read from the sockets in the same turn of the loop as the fetch is not missed."""

    async def run() -> None:
        broker = FetchBroker(1)
        broker.assign(0, isr=(1,))  # commits at once
        answer = asyncio.ensure_future(broker.fetch({0: 0}, node=node, max_wait_ms=HOUR_MS))
        broker.replica(0).append(BATCH)
        part = only(await asyncio.wait_for(answer, 60))
        assert (part.error_code, bool(part.records)) == (ErrorCode.none, True)

    virtual_time.run(run())


def test_a_poll_whose_connection_ends_leaves_nothing_behind() -> None:
    """Cancelled before it ran or while it waits, a poll is forgotten by the replica."""

    async def run() -> None:
        broker = FetchBroker(1)
        for runs_first in (False, True):
            answer = asyncio.ensure_future(broker.start({0: 0}, max_wait_ms=HOUR_MS))
            if runs_first:
                await asyncio.sleep(0)
                assert len(broker.replica(0).watchers) == 1
            answer.cancel()
            await asyncio.wait([answer])
            assert len(broker.replica(0).watchers) == 0, runs_first

    virtual_time.run(run())


async def opened(broker: FetchBroker, wanted: dict[int, int], **values: Any) -> int:
    """The id of a new session of `wanted`."""
    response = await broker.fetch(wanted, session=(0, 0), **values)
    assert response.error_code is ErrorCode.none
    assert numbers(response) == list(wanted), "a full response names everything"
    return int(response.session_id)


def test_an_incremental_response_names_only_what_has_news() -> None:
    """Records, an error, a changed high watermark; and nothing twice."""

    async def run() -> None:
        broker = FetchBroker(3)
        session = await opened(broker, dict.fromkeys(range(3), 0), node=FOLLOWER)
        assert session != 0
        broker.replica(1).append(BATCH)
        response = await broker.fetch({}, node=FOLLOWER, session=(session, 1))
        assert numbers(response) == [1]
        response = await broker.fetch({1: 1}, node=FOLLOWER, session=(session, 2))
        assert numbers(response) == []
        broker.commit(1)  # the other follower has it too: the high watermark advances
        response = await broker.fetch({}, node=FOLLOWER, session=(session, 3))
        assert (numbers(response), only(response).high_watermark) == ([1], 1)
        broker.assign(2, leader=FOLLOWER, epoch=6)
        response = await broker.fetch({}, node=FOLLOWER, session=(session, 4))
        assert (numbers(response), only(response).error_code) == (
            [2],
            ErrorCode.fenced_leader_epoch,
        )
        again = await broker.fetch({}, node=FOLLOWER, session=(session, 5))
        assert numbers(again) == [2], "an error is repeated until the partition is dropped"
        response = await broker.fetch({}, node=FOLLOWER, session=(session, 6), forgotten=(2,))
        assert numbers(response) == []

    virtual_time.run(run())


def test_records_not_taken_come_again() -> None:
    """A fetcher that does not name the partition again still asks for the same offset."""

    async def run() -> None:
        broker = FetchBroker(1)
        session = await opened(broker, {0: 0}, node=FOLLOWER)
        broker.replica(0).append(BATCH)
        for epoch in (1, 2, 3):
            response = await broker.fetch({}, node=FOLLOWER, session=(session, epoch))
            assert only(response).records, epoch

    virtual_time.run(run())


def test_an_idle_session_costs_nothing_for_its_partitions() -> None:
    """A round of a caught-up session looks at no partition at all; with news, at that one."""

    async def run() -> None:
        broker = FetchBroker(200)
        session = await opened(broker, dict.fromkeys(range(200), 0), node=FOLLOWER)
        await broker.fetch({}, node=FOLLOWER, session=(session, 1))
        broker.reader.looks = 0
        await broker.fetch({}, node=FOLLOWER, session=(session, 2))
        assert broker.reader.looks == 0
        broker.replica(7).append(BATCH)
        await broker.fetch({}, node=FOLLOWER, session=(session, 3))
        assert 0 < broker.reader.looks < 5

    virtual_time.run(run())


@pytest.mark.parametrize(("leaves", "known"), [(False, 7), (True, 7), (True, 6)])
def test_a_follower_outside_the_isr_is_looked_at_until_it_shuts_down(
    leaves: bool, known: int
) -> None:
    """It may be in sync with any fetch; one that shuts down has to register anew before. Who
    fetches in broker epoch 7 has, where the metadata known here are of epoch 6.
    """

    async def run() -> None:
        broker = FetchBroker(100)
        broker.racks()
        image = broker.hosted.image
        follower = replace(image.brokers[FOLLOWER], in_controlled_shutdown=leaves)
        follower = replace(follower, epoch=BrokerEpoch(known))
        broker.hosted.image = replace(image, brokers={**image.brokers, FOLLOWER: follower})
        for number in range(100):
            broker.assign(number, isr=(LEADER,))
        session = await opened(broker, dict.fromkeys(range(100), 0), node=FOLLOWER)
        await broker.fetch({}, node=FOLLOWER, session=(session, 1))
        broker.reader.looks = 0
        await broker.fetch({}, node=FOLLOWER, session=(session, 2))
        assert (broker.reader.looks == 0) is (leaves and known == 7)

    virtual_time.run(run())


@pytest.mark.parametrize(
    ("session", "version", "error"),
    [
        ((99, 1), 17, ErrorCode.fetch_session_id_not_found),
        ((None, 2), 17, ErrorCode.invalid_fetch_session_epoch),
        ((None, 1), 12, ErrorCode.fetch_session_topic_id_error),
    ],
)
def test_session_errors(session: tuple[int | None, int], version: int, error: ErrorCode) -> None:
    """Unknown number, wrong epoch, names for ids: the fetcher has to begin anew."""

    async def run() -> None:
        broker = FetchBroker(1)
        known = await opened(broker, {0: 0})
        number, epoch = session
        response = await broker.fetch({}, session=(number or known, epoch), version=version)
        assert (response.error_code, len(response.responses)) == (error, 0)

    virtual_time.run(run())


def test_a_full_request_ends_the_session_that_it_names() -> None:
    """Epoch -1 asks for none instead, epoch 0 for a new one."""

    async def run() -> None:
        broker = FetchBroker(1)
        first = await opened(broker, {0: 0})
        second = (await broker.fetch({0: 0}, session=(first, 0))).session_id
        assert second not in (0, first)
        assert (await broker.fetch({0: 0}, session=(second, -1))).session_id == 0
        assert len(broker.sessions) == 0
        assert len(broker.replica(0).watchers) == 0

    virtual_time.run(run())


def test_no_room_for_a_session_is_no_error() -> None:
    """The fetcher is served, and told that there is no session."""

    async def run() -> None:
        broker = FetchBroker(1, slots=0)
        response = await broker.fetch({0: 0}, session=(0, 0))
        assert (response.error_code, response.session_id) == (ErrorCode.none, 0)
        assert len(broker.replica(0).watchers) == 0

    virtual_time.run(run())


def test_the_next_request_of_a_session_ends_the_wait_of_the_one_before() -> None:
    """It is answered with nothing, so that nothing is told twice."""

    async def run() -> None:
        broker = FetchBroker(2)
        session = await opened(broker, {0: 0}, node=FOLLOWER)
        waits = {"node": FOLLOWER, "max_wait_ms": HOUR_MS}
        first = asyncio.ensure_future(broker.start({}, session=(session, 1), **waits))
        await asyncio.sleep(1)
        assert not first.done()
        broker.replica(1).append(BATCH)
        second = broker.start({1: 0}, session=(session, 2), **waits)
        assert numbers(second) == [1]
        ended = await asyncio.wait_for(first, 60)
        assert (ended.error_code, ended.session_id, len(ended.responses)) == (
            ErrorCode.none,
            session,
            0,
        )

    virtual_time.run(run())


def test_a_wait_ends_with_its_session() -> None:
    """Evicted or closed: who waits is answered, and finds out with the next request."""

    async def run() -> None:
        broker = FetchBroker(1)
        session = await opened(broker, {0: 0})
        poll = asyncio.ensure_future(broker.start({}, session=(session, 1), max_wait_ms=HOUR_MS))
        await asyncio.sleep(1)
        broker.sessions.close(session)
        assert len((await asyncio.wait_for(poll, 60)).responses) == 0

    virtual_time.run(run())


def test_no_partition_starves_when_responses_are_small() -> None:
    """Whoever got records goes to the end of the line."""

    async def run() -> None:
        broker = FetchBroker(5)
        for number in range(5):
            for _ in range(3):
                broker.replica(number).append(BATCH)
        first = await broker.fetch(
            dict.fromkeys(range(5), 0), node=FOLLOWER, session=(0, 0), max_bytes=len(BATCH)
        )
        offsets = dict.fromkeys(range(5), 0)
        named: dict[int, int] = {}

        def take(response: Any) -> list[int]:
            got = [t.topic_id.int - 1 for t in response.responses if t.partitions[0].records]
            for number in got:
                offsets[number] += 1
                named[number] = offsets[number]
            return got

        order = take(first)
        for epoch in range(1, 15):
            response = await broker.fetch(
                dict(named),
                node=FOLLOWER,
                session=(first.session_id, epoch),
                max_bytes=len(BATCH),
            )
            named.clear()
            order += take(response)
        assert order == list(range(5)) * 3

    virtual_time.run(run())


def test_a_follower_reads_to_the_end_and_a_consumer_to_the_high_watermark() -> None:
    """What is not committed is nobody's but the replicas'."""

    async def run() -> None:
        broker = FetchBroker(1)
        broker.replica(0).append(BATCH)
        assert only(await broker.fetch({0: 0}, node=FOLLOWER)).records
        assert not only(await broker.fetch({0: 0})).records
        broker.commit(0)
        assert only(await broker.fetch({0: 0})).records

    virtual_time.run(run())


def test_one_batch_comes_whatever_the_limits() -> None:
    """A batch larger than every limit is sent when it is the response's first (KIP-74)."""

    async def run() -> None:
        broker = FetchBroker(2)
        large = encode_batch([Record(value=b"x" * 5000)], timestamp_ms=1)
        for number in range(2):
            broker.replica(number).append(large)
            broker.commit(number)
        response = await broker.fetch({0: 0, 1: 0}, max_bytes=100, part={"partition_max_bytes": 10})
        got = [len(topic.partitions[0].records) for topic in response.responses]
        assert got == [len(large), 0]

    virtual_time.run(run())


@pytest.mark.parametrize(
    ("offset", "part", "error"),
    [
        (2, {}, ErrorCode.offset_out_of_range),
        (-1, {}, ErrorCode.offset_out_of_range),
        (0, {"current_leader_epoch": 4}, ErrorCode.fenced_leader_epoch),
        (0, {"current_leader_epoch": 6}, ErrorCode.unknown_leader_epoch),
        (1, {}, ErrorCode.none),
    ],
)
def test_positions_and_epochs_are_checked(
    offset: int, part: dict[str, int], error: ErrorCode
) -> None:
    """Beyond the log's end, before its start, in another epoch (KIP-320)."""

    async def run() -> None:
        broker = FetchBroker(1)
        broker.replica(0).append(BATCH)
        assert only(await broker.fetch({0: offset}, part=part)).error_code is error

    virtual_time.run(run())


def test_a_consumer_whose_log_was_truncated_is_told_where() -> None:
    """The last fetched epoch ended here before the fetch offset: the diverging epoch says so."""

    async def run() -> None:
        broker = FetchBroker(1)
        broker.replica(0).append(BATCH)
        broker.assign(0, epoch=8)
        broker.replica(0).append(BATCH)
        part = only(
            await broker.fetch({0: 2}, part={"current_leader_epoch": 8, "last_fetched_epoch": 5})
        )
        told = part.diverging_epoch
        assert (part.error_code, told.epoch, told.end_offset) == (ErrorCode.none, 5, 1)

    virtual_time.run(run())


def test_unknown_ids_and_foreign_followers_are_refused() -> None:
    """A topic id of nobody, and a follower that the assignment known here lacks."""

    async def run() -> None:
        broker = FetchBroker(1)
        nobody = await broker.fetch({9: 0})
        assert only(nobody).error_code is ErrorCode.unknown_topic_id
        foreign = await broker.fetch({0: 0}, node=NodeId(4))
        assert only(foreign).error_code is ErrorCode.unknown_leader_epoch

    virtual_time.run(run())


def test_a_dropped_replica_wakes_its_session() -> None:
    """Whoever waits for it learns that it is gone."""

    async def run() -> None:
        broker = FetchBroker(1)
        session = await opened(broker, {0: 0}, node=FOLLOWER)
        waits = {"node": FOLLOWER, "max_wait_ms": HOUR_MS}
        poll = asyncio.ensure_future(broker.start({}, session=(session, 1), **waits))
        await asyncio.sleep(1)
        replica = broker.hosted.replicas.popitem()[1]
        replica.retire()
        part = only(await asyncio.wait_for(poll, 60))
        assert part.error_code is ErrorCode.unknown_topic_or_partition
        assert len(replica.watchers) == 0

    virtual_time.run(run())


def test_a_caught_up_follower_stays_in_sync_without_being_named() -> None:
    """Its session's fetches vouch for all its partitions, until the leader's log grows."""

    async def run() -> None:
        broker = FetchBroker(1)
        state, log = broker.replica(0).state, broker.replica(0).log
        session = await opened(broker, {0: 0}, node=FOLLOWER)
        for epoch in range(1, 10):
            broker.now_ms += 400
            await broker.fetch({}, node=FOLLOWER, session=(session, epoch))
            broker.replica(0).record_fetch(NodeId(3), log.end_offset, BrokerEpoch(7), broker.now_ms)
        broker.replica(0).append(BATCH)
        broker.now_ms += 500
        assert state.shrunk_isr(log.end_offset, 500, broker.now_ms) is None
        broker.now_ms += 1
        proposal = state.shrunk_isr(log.end_offset, 500, broker.now_ms)
        assert proposal is not None
        assert [node for node, _ in proposal.isr] == [LEADER]

    virtual_time.run(run())


def test_who_leads_is_told_with_the_refusal() -> None:
    """Its epoch and address, so that the client need not ask for metadata (KIP-951)."""

    async def run() -> None:
        broker = FetchBroker(1)
        broker.racks()
        brokers = broker.hosted.image.brokers
        topic = TopicImage(
            name="t0",
            topic_id=topic_id(0),
            partitions={
                0: PartitionImage(
                    replicas=(LEADER, FOLLOWER),
                    isr=(LEADER, FOLLOWER),
                    leader=FOLLOWER,
                    leader_epoch=Epoch(6),
                    partition_epoch=2,
                )
            },
        )
        broker.hosted.image = ClusterImage(
            brokers=brokers, topics={topic_id(0): topic}, topic_ids={"t0": topic_id(0)}
        )
        broker.assign(0, leader=FOLLOWER, epoch=6)
        response = await broker.fetch({0: 0})
        part = only(response)
        assert part.error_code is ErrorCode.fenced_leader_epoch
        assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (FOLLOWER, 6)
        assert [(n.node_id, n.host, n.rack) for n in response.node_endpoints] == [(2, "h2", "r2")]

    virtual_time.run(run())


class FetchParams:
    """A connection whose peer does not read."""

    def shed(self, reason: str) -> None:
        raise AssertionError(reason)


@pytest.mark.parametrize("node", [CONSUMER, FOLLOWER])
def test_answers_are_smaller_when_others_do_not_read_theirs(node: NodeId) -> None:
    """A quarter of what is left of the node's bound, and a megabyte in any case."""
    broker = FetchBroker(1)
    large = encode_batch([Record(value=bytes(900_000))], timestamp_ms=1)
    for _ in range(8):
        broker.replica(0).append(large)
    broker.commit(0)
    most = {"max_bytes": 2**31 - 1, "part": {"partition_max_bytes": 2**31 - 1}}

    def fetched() -> int:
        return len(only(broker.answer(broker.request({0: 0}, node=node, **most))).records)

    assert fetched() == 8 * len(large)
    slow = FetchParams()
    for left, batches in ((16 << 20, 4), (0, 1)):
        broker.answers.hold(slow, broker.answers.max_bytes - left)
        assert fetched() == batches * len(large)


def test_what_a_waiting_fetch_has_found_counts_and_may_end_its_wait() -> None:
    """Otherwise a fetch that asks for more than there is would keep it for as long as it likes."""

    async def main() -> None:
        broker = FetchBroker(2)
        broker.replica(0).append(BATCH)
        broker.commit(0)
        answer = broker.start({0: 0, 1: 0}, max_wait_ms=3_600_000, min_bytes=1 << 20)
        assert broker.answers.total_bytes == len(BATCH)
        broker.answers.max_bytes = len(BATCH)
        broker.replica(1).append(BATCH)
        broker.commit(1)
        response = await asyncio.wait_for(answer, 20)
        assert numbers(response) == [0, 1]
        assert broker.answers.total_bytes == 0

    asyncio.run(main())
