"""Fetch as in Kafka: delayed responses, sessions, and who may read what."""

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
def test_append_in_the_same_loop_turn_completes_a_delayed_fetch(node: NodeId) -> None:
    """A produce that is read from the sockets in the same turn of the loop is not missed."""

    async def run() -> None:
        broker = FetchBroker(1)
        broker.assign(0, isr=(1,))  # commits at once
        answer = asyncio.ensure_future(broker.fetch({0: 0}, node=node, max_wait_ms=HOUR_MS))
        broker.replica(0).append(BATCH)
        part = only(await asyncio.wait_for(answer, 60))
        assert (part.error_code, bool(part.records)) == (ErrorCode.none, True)

    virtual_time.run(run())


def test_delayed_fetch_of_a_closed_connection_leaves_no_watcher() -> None:
    """Whether it is cancelled at once or while it waits."""

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


def test_incremental_response_has_only_changed_partitions() -> None:
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


def test_records_are_sent_again_if_the_offset_stays() -> None:
    """A fetcher that does not send the partition again still asks for the same offset."""

    async def run() -> None:
        broker = FetchBroker(1)
        session = await opened(broker, {0: 0}, node=FOLLOWER)
        broker.replica(0).append(BATCH)
        for epoch in (1, 2, 3):
            response = await broker.fetch({}, node=FOLLOWER, session=(session, epoch))
            assert only(response).records, epoch

    virtual_time.run(run())


def test_idle_session_reads_no_partition() -> None:
    """A fetch of a caught-up session reads no partition; after a change it reads that one."""

    async def run() -> None:
        broker = FetchBroker(200)
        session = await opened(broker, dict.fromkeys(range(200), 0), node=FOLLOWER)
        await broker.fetch({}, node=FOLLOWER, session=(session, 1))
        broker.reader.reads = 0
        await broker.fetch({}, node=FOLLOWER, session=(session, 2))
        assert broker.reader.reads == 0
        broker.replica(7).append(BATCH)
        await broker.fetch({}, node=FOLLOWER, session=(session, 3))
        assert 0 < broker.reader.reads < 5

    virtual_time.run(run())


@pytest.mark.parametrize(("leaves", "known"), [(False, 7), (True, 7), (True, 6)])
def test_follower_outside_the_isr_is_read_with_every_fetch_unless_it_shuts_down(
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
        broker.reader.reads = 0
        await broker.fetch({}, node=FOLLOWER, session=(session, 2))
        assert (broker.reader.reads == 0) is (leaves and known == 7)

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
    """Unknown session id, wrong epoch, names in place of ids: the fetcher has to start again."""

    async def run() -> None:
        broker = FetchBroker(1)
        known = await opened(broker, {0: 0})
        number, epoch = session
        response = await broker.fetch({}, session=(number or known, epoch), version=version)
        assert (response.error_code, len(response.responses)) == (error, 0)

    virtual_time.run(run())


def test_full_request_closes_its_session() -> None:
    """Epoch -1 asks for no session, epoch 0 for a new one."""

    async def run() -> None:
        broker = FetchBroker(1)
        first = await opened(broker, {0: 0})
        second = (await broker.fetch({0: 0}, session=(first, 0))).session_id
        assert second not in (0, first)
        assert (await broker.fetch({0: 0}, session=(second, -1))).session_id == 0
        assert len(broker.sessions) == 0
        assert len(broker.replica(0).watchers) == 0

    virtual_time.run(run())


def test_fetch_is_served_without_a_session_when_the_cache_is_full() -> None:
    """The response says that there is no session."""

    async def run() -> None:
        broker = FetchBroker(1, slots=0)
        response = await broker.fetch({0: 0}, session=(0, 0))
        assert (response.error_code, response.session_id) == (ErrorCode.none, 0)
        assert len(broker.replica(0).watchers) == 0

    virtual_time.run(run())


def test_next_request_of_a_session_ends_the_wait_of_the_one_before() -> None:
    """Which gets an empty response, so that nothing is sent twice."""

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


def test_delayed_fetch_completes_when_its_session_is_closed() -> None:
    """Evicted or closed: the fetcher finds out with its next request."""

    async def run() -> None:
        broker = FetchBroker(1)
        session = await opened(broker, {0: 0})
        poll = asyncio.ensure_future(broker.start({}, session=(session, 1), max_wait_ms=HOUR_MS))
        await asyncio.sleep(1)
        broker.sessions.close(session)
        assert len((await asyncio.wait_for(poll, 60)).responses) == 0

    virtual_time.run(run())


def test_no_partition_starves_when_responses_are_small() -> None:
    """A partition that had records comes last in the next response."""

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


def test_follower_reads_to_the_log_end_and_consumer_to_the_high_watermark() -> None:
    """Only replicas get records that are not committed."""

    async def run() -> None:
        broker = FetchBroker(1)
        broker.replica(0).append(BATCH)
        assert only(await broker.fetch({0: 0}, node=FOLLOWER)).records
        assert not only(await broker.fetch({0: 0})).records
        broker.commit(0)
        assert only(await broker.fetch({0: 0})).records

    virtual_time.run(run())


def test_first_batch_is_sent_whatever_the_limits() -> None:
    """A batch larger than every limit is sent if it is the first of the response (KIP-74)."""

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
def test_offsets_and_leader_epochs_are_checked(
    offset: int, part: dict[str, int], error: ErrorCode
) -> None:
    """Above the log's end, below its start, in another epoch (KIP-320)."""

    async def run() -> None:
        broker = FetchBroker(1)
        broker.replica(0).append(BATCH)
        assert only(await broker.fetch({0: offset}, part=part)).error_code is error

    virtual_time.run(run())


def test_consumer_gets_the_diverging_epoch_after_a_truncation() -> None:
    """If the last fetched epoch ended below the fetch offset."""

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


def test_unknown_topic_ids_and_unassigned_followers_are_refused() -> None:
    """A topic id that does not exist, and a follower that is not in the known assignment."""

    async def run() -> None:
        broker = FetchBroker(1)
        nobody = await broker.fetch({9: 0})
        assert only(nobody).error_code is ErrorCode.unknown_topic_id
        foreign = await broker.fetch({0: 0}, node=NodeId(4))
        assert only(foreign).error_code is ErrorCode.unknown_leader_epoch

    virtual_time.run(run())


def test_removed_replica_completes_a_delayed_fetch() -> None:
    """The fetcher learns that the replica was removed."""

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


def test_caught_up_follower_stays_in_sync_without_sending_the_partition() -> None:
    """Its session's fetches count for all its partitions, until the leader's log grows."""

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


def test_not_leader_error_names_the_leader() -> None:
    """With epoch and address, so that the client need not ask for metadata (KIP-951)."""

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
def test_response_is_smaller_while_peers_do_not_read_theirs(node: NodeId) -> None:
    """A quarter of what the node's bound leaves, but at least a megabyte."""
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
        broker.response_budget.hold(slow, broker.response_budget.max_bytes - left)
        assert fetched() == batches * len(large)


def test_bytes_of_a_delayed_fetch_count_and_may_complete_it() -> None:
    """Otherwise a fetch that asks for more than there is would keep its bytes for long."""

    async def main() -> None:
        broker = FetchBroker(2)
        broker.replica(0).append(BATCH)
        broker.commit(0)
        answer = broker.start({0: 0, 1: 0}, max_wait_ms=3_600_000, min_bytes=1 << 20)
        assert broker.response_budget.total_bytes == len(BATCH)
        broker.response_budget.max_bytes = len(BATCH)
        broker.replica(1).append(BATCH)
        broker.commit(1)
        response = await asyncio.wait_for(answer, 20)
        assert numbers(response) == [0, 1]
        assert broker.response_budget.total_bytes == 0

    asyncio.run(main())
